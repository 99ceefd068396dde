"""The host of a running handler, which takes its progress and the jobs that it submits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Shielded, running_loop
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.execution import job_events
from headgate.jobs.execution.delivery import Job
from headgate.jobs.submission.prepare import Submission, prepare_child

Send = Callable[[Submission], asyncio.Future[Submission]]
"""Sends a handler's submission; the future is done once SQS has it, with what has become of it, and
raises if that fails."""

Handles = Callable[[Submission, JobType[Any, Any], Awaitable[Submission]], Any]
"""Makes the handle of a submission that is on its way; called in the event loop. The awaitable
returns what has become of it once SQS has it, and raises if that fails."""


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
        handles: Handles | None,
    ) -> None:
        self._app = app
        self._job = job
        self._names = names
        self._clock = clock
        self._events = events
        self._send = send
        self._handles = handles
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
        self, job: JobType[Any, Any] | NewJob[Any], payload: Any, overrides: SubmitOptions
    ) -> Any:
        """Submit another job; when called in a thread, return once SQS has it."""
        submission = self.prepare(job, payload, overrides)
        declared = job.type if isinstance(job, NewJob) else job
        if self._is_here():
            return self._handle(submission, declared, self._begin(submission))
        taking = asyncio.run_coroutine_threadsafe(self._take(submission, declared), self._loop)
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
            HeadgateError: the error of the first one that failed.
        """
        if self._pending:
            await asyncio.gather(*self._pending)

    async def _take(self, submission: Submission, job: JobType[Any, Any]) -> Any:
        taken = self._begin(submission)
        return self._handle(await taken, job, taken)

    def _begin(self, submission: Submission) -> asyncio.Future[Submission]:
        if self._send is None:
            raise ConfigurationError("ctx.submit is not available here: use your own Client")
        taken = self._send(submission)
        taken.add_done_callback(_look_at)
        self._pending.append(taken)
        return taken

    def _handle(
        self, submission: Submission, job: JobType[Any, Any], taken: asyncio.Future[Submission]
    ) -> Any:
        if self._handles is None:
            raise ConfigurationError("ctx.submit is not available here: use your own Client")
        # A handler may bound its waiting: what it has submitted is sent all the same.
        return self._handles(submission, job, Shielded(taken))

    def _is_here(self) -> bool:
        return running_loop() is self._loop


def _look_at(taken: asyncio.Future[Any]) -> None:
    # Awaiting it raises the error; but a handler that has failed meanwhile no longer awaits it.
    if not taken.cancelled():
        taken.exception()
