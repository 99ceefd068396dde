"""Running jobs in slots and settling their messages."""
