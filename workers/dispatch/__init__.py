"""Choosing which received message starts next, and giving back what can't."""
