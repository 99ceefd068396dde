"""What users write to run jobs: handlers, what is injected into them, code around them, hooks."""
