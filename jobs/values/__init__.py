"""Checks and sanitisation of values from outside."""
