"""The sweep of the dead letters."""
