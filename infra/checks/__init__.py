"""Checks at synthesis."""
