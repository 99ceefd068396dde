"""What happened to a job before, read; and what happens to it here, written down."""
