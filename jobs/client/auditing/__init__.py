"""The audit: who acts, what is written of each action, and how that is read."""
