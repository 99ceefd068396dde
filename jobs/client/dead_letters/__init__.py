"""``client.dead_letters``: jobs that were given up, looked at, copied and sent back."""
