"""The commands that show the whole system."""
