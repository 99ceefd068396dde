"""Groups of workers and of Lambda functions that run an app's jobs, as values."""
