"""Clients: submitting jobs, looking them up, and changing what waits."""
