"""Checks and repairs of values that others give us."""
