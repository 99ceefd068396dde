"""The worker: it receives, chooses, runs and settles jobs in one event loop."""
