"""Output of the commands that show the whole system: its workers, its queues, its health."""
