"""Child processes for handlers with ``isolation="process"``."""
