"""Rules for retries that SQS can't carry out: their waits, their number, messages' retention."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.definitions.app import BACKSTOP_MARGIN, App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.deployment.checks.places import is_endless, place_of
from headgate.jobs.deployment.retry_timeline import timeline, waits
from headgate.jobs.errors import Fault, SettingsInvalid


def custom_backoff_fails(app: App, _now: datetime) -> Iterator[Fault]:
    """A custom backoff that raises, or returns no delay, for an attempt that may come."""
    for job in app.types.values():
        try:
            timeline(job)
        except SettingsInvalid as error:
            yield Fault(
                rule="custom-backoff-fails",
                where=place_of(job),
                what=f"{error}: {error.__cause__}",
                why="Its retries would fall back on the default backoff",
                instead="Fix the function: it is called for each attempt, from 1, and after a "
                "crash without an error and maybe without a payload, as it is here",
            )


def wait_beyond_visibility(app: App, _now: datetime) -> Iterator[Fault]:
    """A retry that should come later than SQS can hide a message."""
    for job in _with_timeline(app):
        longest = timedelta(seconds=max((most for _, most in waits(job)), default=0))
        if longest > MAX_VISIBILITY and not has_long_delays(app, job):
            yield Fault(
                rule="wait-beyond-visibility",
                where=place_of(job),
                what=f"{job.retry.backoff!r} may wait {longest}",
                why=f"SQS hides a message for {MAX_VISIBILITY} at most, so retries come sooner",
                instead="Lower the backoff's cap to 43200 seconds, have fewer attempts, or use a "
                "standard queue, which keeps to it",
            )


def retries_outlive_retention(app: App, _now: datetime) -> Iterator[Fault]:
    """Attempts that end later than SQS keeps the message."""
    for job in _with_timeline(app):
        queue = app.topology.queue(job.queue, job.priority)
        timeout = job.timeout if job.timeout and not is_endless(job.timeout) else timedelta(0)
        window_s = timeline(job)[-1].latest_s + job.retry.max_attempts * timeout.total_seconds()
        if window_s > queue.retention.total_seconds() and not has_long_delays(app, job):
            yield Fault(
                rule="retries-outlive-retention",
                where=place_of(job),
                what=f"its {job.retry.max_attempts} attempts may take "
                f"{timedelta(seconds=window_s)}",
                why=f"SQS deletes a message after {queue.retention}, so it is dead-lettered before",
                instead="Have fewer attempts, a shorter timeout or a lower cap of the backoff",
            )


def attempts_above_backstop(app: App, _now: datetime) -> Iterator[Fault]:
    """More attempts than SQS's own redrive lets a message have."""
    for job in app.types.values():
        receives = app.topology.queue(job.queue, job.priority).max_receive_count
        most = receives - BACKSTOP_MARGIN
        if job.retry.max_attempts > most:
            yield Fault(
                rule="attempts-above-backstop",
                where=place_of(job),
                what=f"it may make {job.retry.max_attempts} attempts",
                why=f"SQS moves a message away after {receives} receives, and "
                "jobs given back unstarted are received again",
                instead=f"Declare at most {most} attempts",
            )


def dead_letters_expire_first(app: App, _now: datetime) -> Iterator[Fault]:
    """A dead-letter queue that keeps messages no longer than its source."""
    for queue in app.topology.queues:
        if queue.dlq_retention <= queue.retention:
            yield Fault(
                rule="dead-letters-expire-first",
                where=f"queue {queue.name}",
                what=f"its dead letters are kept for {queue.dlq_retention}, it for "
                f"{queue.retention}",
                why="Messages moved by SQS's own redrive keep their age, and would be deleted on "
                "arrival",
                instead="Keep dead letters longer than the queue keeps messages",
                severity="error" if queue.existing is None else "warning",
            )


def has_long_delays(app: App, job: JobType[Any, Any]) -> bool:
    """Return True if its jobs go on in another message when SQS can't hold theirs long enough."""
    return not any(queue.fifo for name, queue in app.queues.items() if name in job.runs_from)


def _with_timeline(app: App) -> Iterator[JobType[Any, Any]]:
    for job in app.types.values():
        try:
            timeline(job)
        except SettingsInvalid:
            continue  # `custom_backoff_fails` reports it
        yield job
