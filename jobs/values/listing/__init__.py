"""What lists are filtered and paged by."""
