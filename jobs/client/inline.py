"""``fallback="inline"``: jobs run in the submitting process while SQS can't be reached.

This lacks the guarantees of a worker: nothing hides or keeps the job, it goes to no dead-letter
queue, no limit applies to it, no hook is called and nothing is recorded. A job that fails is
retried by its type's policy as long as the waits of the whole call stay within `PATIENCE_S`, since
the caller is waiting.

Jobs that a job submits while it runs in place run after it, in the same call: a chain of jobs that
submit one another takes no more threads and no deeper stack than one job. A call begins jobs for
`LONGEST_S`; the rest is refused, as it would be without a fallback.

Three kinds of jobs do not run in place: a job with a delay, which is not due; one with
``isolation="process"``, which might kill the submitter; and one with ``once=True``, which can't be
claimed here. Their submission fails as it would without a fallback.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from contextvars import ContextVar, copy_context
from threading import Lock
from typing import Any, TypeVar

from headgate.jobs.client.fallback import Result, may_fall_back
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, JobInline
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.handlers.resources import OpenResources
from headgate.jobs.definitions.policies import load_handlers
from headgate.jobs.errors import InlineFailed
from headgate.jobs.execution.calling.call import Means
from headgate.jobs.execution.calling.handler_host import Handles, Send
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.outcome import Deferred, Failed
from headgate.jobs.execution.run import Executor
from headgate.jobs.execution.settling.settlement import Ack, Release, RetryAfter
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.values.texts import text_of, type_of

T = TypeVar("T")

PATIENCE_S = 5.0
"""Longest total wait between attempts within one call, in seconds."""

LONGEST_S = 60.0
"""Seconds for which one call begins jobs: its own, and those that they submit in turn."""

_NOT_BEGUN = f"it was not begun within {LONGEST_S:g} s of the call that it came by"


class _Course:
    """The progress of one call through its jobs and those that they submit, one after the other."""

    def __init__(self, app: App, clock: Clock) -> None:
        self.app = app
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


_course: ContextVar[_Course | None] = ContextVar("headgate_inline", default=None)
"""The course of the call that runs the current job, if any."""


class AsyncInline:
    """A `jobs.client.fallback.Fallback` that runs jobs in the caller's task, one after the other.

    Args:
        app: the app; its handlers are loaded when this opens, as in a worker, and its resources are
            opened for each call.
        sending: called once per call; returns the function that sends the handlers' submissions.
        handles: makes their handles.
        clock: tells the time.
        events: receives an event for each step.
    """

    stores = False

    def __init__(
        self,
        app: App,
        *,
        sending: Callable[[], AbstractContextManager[Send]],
        handles: Handles,
        clock: Clock,
        events: Events,
    ) -> None:
        self._app = app
        self._sending = sending
        self._handles = handles
        self._clock = clock
        self._events = events
        self._loaded = False

    async def open(self) -> None:
        """Import the handlers.

        Raises:
            ConfigurationError: a type has none, or a module can't be imported.
        """
        self.load()

    async def takes(self, _submissions: Sequence[Submission]) -> bool:
        """Return False: SQS is always asked first."""
        self.load()
        return False

    async def instead(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result]:
        """Run the jobs that SQS could not be asked to take; a failure affects its own job only."""
        if (adopted := self.adopted(submissions, results)) is not None:
            return adopted
        fitting = self._fitting(submissions, results)
        course = _Course(self._app, self._clock)
        async with AsyncExitStack() as stack:
            try:
                resources = await stack.enter_async_context(self._app.resources.opened())
            except Exception as error:  # noqa: BLE001 - the user's code; every job gets the error
                return [
                    _failed(submission, 0, error, text_of(error)) if fits else result
                    for submission, result, fits in zip(submissions, results, fitting, strict=True)
                ]
            means = self._means(resources, stack.enter_context(self._sending()))
            executor = Executor(means, received=False)
            here = _course.set(course)
            try:
                return [
                    await self._see_through(executor, course, submission, result)
                    if fits
                    else result
                    for submission, result, fits in zip(submissions, results, fitting, strict=True)
                ]
            finally:
                course.end()
                _course.reset(here)

    def adopted(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result] | None:
        """Return the results if no job is left to run here; None if the jobs have to be run.

        No job is left if none may run in place, or if a job that runs in place has submitted them:
        then they run after it.
        """
        fitting = self._fitting(submissions, results)
        if not any(fitting):
            return results
        if (course := _course.get()) is None or course.app is not self._app:
            return None
        if course.is_late():
            return results
        found = [
            (submission, str(result))
            for submission, result, fits in zip(submissions, results, fitting, strict=True)
            if fits
        ]
        if not course.adopt(found):
            return None  # a task or thread that the job left behind submits, after the call
        return [None if fits else result for result, fits in zip(results, fitting, strict=True)]

    async def close(self) -> None:
        """Do nothing: nothing is left open."""

    def load(self) -> None:
        """Import the handlers, once."""
        if not self._loaded:
            load_handlers(self._app)
            self._loaded = True

    def _fitting(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[bool]:
        """Return, for each submission, True if it may run in place."""
        return [
            may_fall_back(result) and self._fits(submission)
            for submission, result in zip(submissions, results, strict=True)
        ]

    def _fits(self, submission: Submission) -> bool:
        declared = self._app.find_type(submission.envelope.type)
        free = declared.isolation != "process" and not declared.once
        return free and submission.envelope.not_before is None

    def _means(self, resources: OpenResources, send: Send) -> Means:
        return Means(
            app=self._app,
            clock=self._clock,
            events=self._events,
            send=send,
            handles=self._handles,
            resources=resources,
        )

    async def _see_through(
        self, executor: Executor, course: _Course, submission: Submission, refusal: Result
    ) -> Result:
        """Run a job and the jobs that it submits; return the first failure."""
        if course.is_late():
            return refusal
        outcome = await self._run(executor, course, submission, str(refusal))
        while (adopted := course.next_adopted()) is not None:
            if course.is_late():
                outcome = outcome or _error(adopted[0], 0, _NOT_BEGUN)
            else:
                failure = await self._run(executor, course, *adopted)
                outcome = outcome or failure
        return outcome

    async def _run(
        self, executor: Executor, course: _Course, submission: Submission, reason: str
    ) -> Result:
        self._events.emit(_inline(submission, reason, self._clock))
        attempt = 1
        while True:
            verdict = await executor.begin(_delivery(submission, attempt, self._clock)).verdict()
            match verdict.action:
                case Ack():
                    return None
                case RetryAfter(delay_s=delay_s) | Release(delay_s=delay_s) if (
                    delay_s <= course.left_s and not course.is_late()
                ):
                    if (event := verdict.aftermath(self._clock.now())) is not None:
                        self._events.emit(event)
                    await asyncio.sleep(delay_s)
                    course.left_s -= delay_s
                    attempt += 1
                case _:
                    return _given_up(submission, attempt, verdict)


class Inline:
    """A `jobs.client.fallback.Fallback` that runs jobs in the calling thread, one after the other.

    It never suspends: the calling thread is blocked.

    Args:
        app: as for `AsyncInline`.
        send: sends the handlers' submissions, and blocks.
        handles: makes their handles.
        clock: tells the time.
        events: receives an event for each step.
    """

    stores = False

    def __init__(
        self,
        app: App,
        *,
        send: Callable[[Sequence[Submission]], Sequence[Submission]],
        handles: Handles,
        clock: Clock,
        events: Events,
    ) -> None:
        self._send = send
        self._inner = AsyncInline(
            app,
            sending=self._in_order,
            handles=handles,
            clock=clock,
            events=events,
        )

    async def open(self) -> None:
        """Import the handlers; see `AsyncInline.open`."""
        await self._inner.open()

    async def takes(self, submissions: Sequence[Submission]) -> bool:
        """Return False: SQS is always asked first."""
        return await self._inner.takes(submissions)

    async def instead(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result]:
        """Run the jobs that SQS could not be asked to take, and return when they have ended."""
        if (adopted := self._inner.adopted(submissions, results)) is not None:
            return adopted
        return _run_blocking(lambda: self._inner.instead(submissions, results))

    async def close(self) -> None:
        """Do nothing: nothing is left open."""

    @contextmanager
    def _in_order(self) -> Iterator[Send]:
        """Yield a function that sends one job after the other, in a thread."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="headgate-inline-submit") as thread:
            yield lambda submission: loop.run_in_executor(
                thread, copy_context().run, self._send_one, submission
            )

    def _send_one(self, submission: Submission) -> Submission:
        [became] = self._send([submission])
        return became


def _run_blocking(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end, even if this thread has an event loop, which is then blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    with ThreadPoolExecutor(1, thread_name_prefix="headgate-inline") as thread:
        return thread.submit(copy_context().run, lambda: asyncio.run(make())).result()


def _delivery(submission: Submission, attempt: int, clock: Clock) -> Delivery:
    """Return the message as a worker would have received it, as its nth delivery."""
    message = submission.message
    return Delivery(
        message=ReceivedMessage(
            message_id=submission.id,
            receipt="",
            body=message.body,
            receive_count=attempt,
            sent_at=submission.envelope.submitted_at,
            attributes=message.attributes,
            group=message.group,
        ),
        queue=submission.queue,
        received_at=clock.monotonic(),
    )


def _given_up(submission: Submission, attempt: int, verdict: Verdict) -> InlineFailed:
    match verdict.outcome:
        case Failed(error=error, message=message):
            return _failed(submission, attempt, error, message)
        case Deferred(reason=reason):
            why = f"its handler asks for a later run ({reason or 'RetryLater'})"
        case other:
            why = str(getattr(other, "detail", type(other).__name__))
    return _error(submission, attempt, why)


def _failed(
    submission: Submission, attempts: int, cause: BaseException, message: str
) -> InlineFailed:
    error = _error(submission, attempts, f"{type_of(cause)}: {message}")
    error.__cause__ = cause
    return error


def _error(submission: Submission, attempts: int, why: str) -> InlineFailed:
    return InlineFailed(submission.id, submission.envelope.type, attempts=attempts, why=why)


def _inline(submission: Submission, reason: str, clock: Clock) -> JobInline:
    envelope = submission.envelope
    return JobInline(
        at=clock.now(),
        reason=reason,
        job_id=submission.id,
        job_type=envelope.type,
        queue=envelope.queue,
        priority=envelope.priority,
        tenant=envelope.tenant,
    )
