"""Submitting jobs, waiting for them, and changing schedules at run time."""
