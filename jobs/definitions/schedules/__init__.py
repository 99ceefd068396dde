"""Schedules as types declare them: their expressions, and the times they stand for."""
