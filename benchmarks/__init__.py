"""Headgate and its alternatives, measured side by side: `make bench`."""
