"""The options of job types and of single submissions."""
