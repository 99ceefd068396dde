"""A task of Django's, which Headgate runs as a job."""

from __future__ import annotations

from django_tasks import task  # with Django 6.0: from django.tasks import task


@task(priority=10)
def count_words(text: str) -> int:
    """Return the number of words of a text."""
    return len(text.split())
