"""The state of the whole system: its workers, its queues, its health."""
