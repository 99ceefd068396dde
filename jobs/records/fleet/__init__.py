"""The fleet: what each worker writes of itself, for people to look at."""
