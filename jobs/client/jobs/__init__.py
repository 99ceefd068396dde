"""``client.jobs``: lists jobs, counts them, cancels them, and runs them again."""
