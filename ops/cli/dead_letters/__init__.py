"""``headgate dead-letters``."""
