"""``client.schedules``: creates, changes and removes an app's schedules at run time."""
