"""Ports, events, time, topology and limits: the vocabulary of every other package."""
