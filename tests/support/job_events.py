"""Events of jobs, with fields that most tests don't look at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headgate import Priority
from headgate.jobs.core.events import Event

NOW = datetime(2026, 5, 4, tzinfo=UTC)


def event_of(cls: type[Event], **fields: Any) -> Event:
    """Return an event of the first attempt of a job of the type "send", with these fields."""
    named = {
        "at": NOW,
        "job_id": "j",
        "job_type": "send",
        "queue": "mail",
        "priority": Priority.NORMAL,
        "attempt": 1,
        "max_attempts": 3,
    }
    return cls(**{**named, **fields})
