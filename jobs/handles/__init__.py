"""Handles of submitted jobs, over the look-ups that clients provide."""
