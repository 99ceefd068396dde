"""The number of tasks that a worker group's waiting jobs need."""
