"""The triggers that submit an app's jobs besides clients: schedules, long delays and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType


def scheduled_types(app: App) -> Sequence[JobType[Any, Any]]:
    """Return the job types that declare a schedule."""
    return [job for job in app.types.values() if job.schedules]


def has_schedules(app: App) -> bool:
    """Return True if the app has a group of schedules."""
    return app.long_delays or bool(scheduled_types(app))


def has_bridge(app: App) -> bool:
    """Return True if a schedule, an event or a long delay can invoke the bridge."""
    return has_schedules(app) or bool(app.event_rules)
