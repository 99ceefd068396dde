"""Declarations of an app: queues, job types, schedules, event rules, resources."""
