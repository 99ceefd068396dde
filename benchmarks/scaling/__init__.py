"""The scaling of a worker group in virtual time, beside an ideal that knows all at once."""
