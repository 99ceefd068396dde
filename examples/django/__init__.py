"""A Django project that submits jobs once a transaction commits, and runs Django's tasks."""
