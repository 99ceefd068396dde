"""The audit as the table keeps it."""
