"""The host of a running handler, which takes its progress and the jobs that it submits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.handlers.pending_job import PendingJob
from headgate.jobs.definitions.job_type import JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.execution import job_events
from headgate.jobs.execution.delivery import Job
from headgate.jobs.submission.prepare import Submission, prepare_child

R = TypeVar("R")

Send = Callable[[Submission], asyncio.Future[Any]]
"""Sends a handler's submission; the future is done once SQS has it, and raises if that fails."""


class Desk:
    """A job's `jobs.definitions.handlers.context.Host` in the process that received it.

    Made in the event loop; handlers may call it there or in a thread.
    """

    def __init__(
        self,
        app: App,
        job: Job,
        names: Mapping[str, Any],
        *,
        clock: Clock,
        events: Events,
        send: Send | None,
    ) -> None:
        self._app = app
        self._job = job
        self._names = names
        self._clock = clock
        self._events = events
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._pending: list[asyncio.Future[Any]] = []

    def progress(self, percent: float, message: str, data: Mapping[str, Any]) -> None:
        """Emit the job's progress."""
        at = self._clock.now()
        event = job_events.progress(self._names, percent, message, data, at)
        if self._is_here():
            self._events.emit(event)
        else:
            self._loop.call_soon_threadsafe(self._events.emit, event)

    def submit(
        self, job: JobType[Any, R] | NewJob[R], payload: Any, overrides: SubmitOptions
    ) -> PendingJob[R]:
        """Submit another job; when called in a thread, return once SQS has it."""
        if self._is_here():
            return self._begin(self.prepare(job, payload, overrides))
        submission = self.prepare(job, payload, overrides)
        taking = asyncio.run_coroutine_threadsafe(self._take(submission), self._loop)
        return taking.result()

    def prepare(
        self, job: JobType[Any, Any] | NewJob[Any], payload: Any, overrides: SubmitOptions
    ) -> Submission:
        """Check a submission, and make it a child of this job.

        Raises:
            SubmissionError: the payload or an option is not valid.
        """
        envelope, now = self._job.envelope, self._clock.now()
        return prepare_child(self._app, envelope, job, payload, overrides, now)

    async def all_taken(self) -> None:
        """Return once SQS has all submissions.

        Raises:
            TransportError, PartlySubmitted: the error of the first one that failed.
        """
        if self._pending:
            await asyncio.gather(*self._pending)

    async def _take(self, submission: Submission) -> PendingJob[Any]:
        pending = self._begin(submission)
        taken = await pending
        return replace(pending, id=taken.id, is_duplicate=taken.is_duplicate)

    def _begin(self, submission: Submission) -> PendingJob[Any]:
        if self._send is None:
            raise ConfigurationError("ctx.submit is not available here: use your own Client")
        taken = self._send(submission)
        taken.add_done_callback(_look_at)
        self._pending.append(taken)
        return PendingJob(id=submission.id, type=submission.envelope.type, taken=taken)

    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False


def _look_at(taken: asyncio.Future[Any]) -> None:
    # Awaiting it raises the error; but a handler that has failed meanwhile no longer awaits it.
    if not taken.cancelled():
        taken.exception()
