"""The course of one call that runs jobs in place, and its bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from contextvars import ContextVar
from threading import Lock

from headgate.jobs.core.clock import Clock
from headgate.jobs.definitions.app import App
from headgate.jobs.submission.prepare import Submission

PATIENCE_S = 5.0
"""Longest total wait between attempts within one call, in seconds."""

LONGEST_S = 60.0
"""Seconds for which one call begins jobs: its own, and those that they submit in turn."""


class Course:
    """The progress of one call through its jobs and those that they submit, one after the other.

    Args:
        app: the app.
        job_ids: the jobs that the call runs in place.
        clock: tells the time.
    """

    def __init__(self, app: App, job_ids: Collection[str], clock: Clock) -> None:
        self.app = app
        self.job_ids = job_ids
        self.left_s = PATIENCE_S
        """Seconds that may still be waited between attempts."""
        self._clock = clock
        self._ends_at = clock.monotonic() + LONGEST_S
        self._adopted: deque[tuple[Submission, str]] = deque()
        self._is_over = False
        self._lock = Lock()  # handlers submit in threads, too

    def is_late(self) -> bool:
        """True once it begins no more jobs."""
        return self._clock.monotonic() >= self._ends_at

    @property
    def is_over(self) -> bool:
        """True once the call has ended; tasks and threads of its jobs may go on."""
        return self._is_over

    def adopt(self, found: Sequence[tuple[Submission, str]]) -> bool:
        """Queue jobs behind the one that has submitted them; False if the call is over."""
        with self._lock:
            if not self._is_over:
                self._adopted.extend(found)
            return not self._is_over

    def next_adopted(self) -> tuple[Submission, str] | None:
        """Return the next queued job and the reason for running it in place, or None."""
        with self._lock:
            return self._adopted.popleft() if self._adopted else None

    def end(self) -> None:
        """Accept no more jobs."""
        with self._lock:
            self._is_over = True


current_course: ContextVar[Course | None] = ContextVar("headgate_inline", default=None)
"""The course of the call that runs the current job, if any."""


def runs_in_place(job_id: str) -> bool:
    """Return True for a job of the call that also runs, in place, the one that asks."""
    course = current_course.get()
    return course is not None and job_id in course.job_ids


def runs_jobs_in_place(app: App) -> bool:
    """Return True if what asks is part of a job of that app which a call runs in place."""
    course = current_course.get()
    return course is not None and course.app is app and not course.is_over
