"""Schedules and delayed jobs as EventBridge Scheduler keeps and fires them."""
