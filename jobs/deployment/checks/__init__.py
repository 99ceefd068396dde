"""Faults of an app's configuration, found before AWS finds them."""
