"""Headgate and what users would pick instead, measured side by side: `make bench`."""
