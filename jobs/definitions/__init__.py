"""An app as its user declares it: queues, job types, schedules, event rules, resources."""
