"""Retries: the policy, the backoff, and the classification of errors."""
