"""Submissions kept in a local file while SQS can't be reached."""
