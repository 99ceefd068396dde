"""Signals that a handler raises to decide what becomes of its job.

JobSignal                           no `HeadgateError`
├── RetryLater
├── DoNotRetry
└── Discard
"""

from __future__ import annotations

from datetime import timedelta

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.values.durations import Duration, duration

__all__ = ["Discard", "DoNotRetry", "JobSignal", "RetryLater"]

_SHORTEST = timedelta(seconds=1)


class JobSignal(Exception):
    """Base of the signals that a handler raises to steer its own job; not a `HeadgateError`."""


class RetryLater(JobSignal):
    """Give the job back and run it again after ``after``: ``raise RetryLater(30)``.

    ``after`` is in seconds or a timedelta, and at least a second. It is not a failure, and uses no
    attempt, except without records, where every delivery counts as an attempt. A wait of more than
    a year is taken for a mistake: the job is dead-lettered as ``wait-too-long``.

    Raises:
        SettingsInvalid: ``after`` is no duration, or shorter than a second.
    """

    def __init__(self, after: Duration, reason: str = "") -> None:
        self.after = duration("RetryLater(after=...)", after)
        if self.after < _SHORTEST:
            raise SettingsInvalid(f"RetryLater(after=...) must be at least 1 s, got {self.after}")
        self.reason = reason
        super().__init__(reason or f"retry in {self.after}")


class DoNotRetry(JobSignal):
    """Fail for good: the job is dead-lettered with ``reason``, even if attempts are left."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Discard(JobSignal):
    """End the job without success or failure: it is deleted, and ``reason`` is recorded."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
