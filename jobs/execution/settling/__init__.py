"""Settling of messages: the decision from an attempt's outcome, and its requests to SQS."""
