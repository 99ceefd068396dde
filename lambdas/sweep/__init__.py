"""The sweep of the dead-letter queues."""
