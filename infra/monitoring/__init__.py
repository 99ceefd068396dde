"""Alarms, dashboard, saved queries and the budget."""
