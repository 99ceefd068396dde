"""Filters by names and by time, and pages, of what is listed."""
