"""Choosing the received message that starts next, and giving back those that can't."""
