"""Retries: the policy, the backoff, and which errors are worth another attempt."""
