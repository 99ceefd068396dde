"""Receiving: how much to ask of which queue, and keeping hidden what is held."""
