"""Replaying dead letters: sending them back to their queues, and watching what becomes of them."""
