"""The roles of what a system runs, and their policies."""
