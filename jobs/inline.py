"""``fallback="inline"``: jobs that SQS can't be asked to take run in the process that submits them.

What a worker gives, this can't: nothing hides or keeps the job, it is in no dead-letter queue, no
limit holds it back, no hook is called and nothing is recorded. A job that fails is tried again by
its type's policy as long as the waits together stay within `PATIENCE_S`, since somebody waits.

Not run in place are a job with a delay, which is not due, one with ``isolation="process"``, which
might take the submitter with it, and one with ``once=True``, which nothing claims here: their
submission fails as it would without a fallback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from jobs.app import App
from jobs.calling import Means
from jobs.clock import Clock
from jobs.delivery import Delivery
from jobs.desk import Send
from jobs.errors import InlineFailed
from jobs.events import Events, JobInline
from jobs.execution import Executor, Verdict
from jobs.fallback import Result, may_fall_back
from jobs.outcome import Deferred, Failed
from jobs.ports import ReceivedMessage
from jobs.resources import Shared
from jobs.settlement import Ack, Release, RetryAfter
from jobs.submission import Submission
from jobs.texts import text_of, type_of

T = TypeVar("T")

PATIENCE_S = 5.0
"""How long a submitter waits between the attempts of one job, all waits together."""


class AsyncInline:
    """A `jobs.fallback.AsyncFallback` that runs jobs in the caller's task, one after the other.

    Args:
        app: its handlers are loaded when this opens, as in a worker; its resources are opened for
            each call.
        sending: makes what sends the jobs that handlers submit, once for each call.
        clock: tells the time.
        events: hears of each step.
    """

    def __init__(
        self,
        app: App,
        *,
        sending: Callable[[], AbstractContextManager[Send]],
        clock: Clock,
        events: Events,
    ) -> None:
        self._app = app
        self._sending = sending
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
        """Never: SQS is asked first."""
        self.load()
        return False

    async def instead(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result]:
        """Run what SQS could not be asked to take; a failure is the result of its own job only."""
        fitting = [
            may_fall_back(result) and self._fits(submission)
            for submission, result in zip(submissions, results, strict=True)
        ]
        if not any(fitting):
            return results
        async with AsyncExitStack() as stack:
            try:
                shared = await stack.enter_async_context(self._app.resources.opened())
            except Exception as error:  # noqa: BLE001 - the users' code; each job's result has it
                return [
                    _failed(submission, 0, error) if fits else result
                    for submission, result, fits in zip(submissions, results, fitting, strict=True)
                ]
            executor = Executor(self._means(shared, stack.enter_context(self._sending())))
            return [
                await self._run(executor, submission, str(result)) if fits else result
                for submission, result, fits in zip(submissions, results, fitting, strict=True)
            ]

    async def close(self) -> None:
        """Nothing is left open."""

    def load(self) -> None:
        """Import the handlers, once."""
        if not self._loaded:
            self._app.load_handlers()
            self._loaded = True

    def _fits(self, submission: Submission) -> bool:
        declared = self._app.find_type(submission.envelope.type)
        free = declared.isolation != "process" and not declared.once
        return free and submission.envelope.not_before is None

    def _means(self, shared: Shared, send: Send) -> Means:
        return Means(
            app=self._app, clock=self._clock, events=self._events, send=send, shared=shared
        )

    async def _run(self, executor: Executor, submission: Submission, reason: str) -> Result:
        self._events.emit(_inline(submission, reason, self._clock))
        left_s, attempt = PATIENCE_S, 1
        while True:
            verdict = await executor.begin(_delivery(submission, attempt, self._clock)).verdict()
            match verdict.action:
                case Ack():
                    return None
                case RetryAfter(delay_s=delay_s) | Release(delay_s=delay_s) if delay_s <= left_s:
                    if (event := verdict.aftermath(self._clock.now())) is not None:
                        self._events.emit(event)
                    await asyncio.sleep(delay_s)
                    left_s, attempt = left_s - delay_s, attempt + 1
                case _:
                    return _given_up(submission, attempt, verdict)


class Inline:
    """A `jobs.fallback.Fallback` that runs jobs in the calling thread, one after the other.

    Args:
        app: as for `AsyncInline`.
        send: sends what handlers submit, and blocks.
        clock: tells the time.
        events: hears of each step.
    """

    def __init__(
        self,
        app: App,
        *,
        send: Callable[[Sequence[Submission]], Sequence[Submission]],
        clock: Clock,
        events: Events,
    ) -> None:
        self._send = send
        self._inner = AsyncInline(app, sending=self._in_order, clock=clock, events=events)

    def open(self) -> None:
        """Import the handlers; see `AsyncInline.open`."""
        self._inner.load()

    def takes(self, _submissions: Sequence[Submission]) -> bool:
        """Never: SQS is asked first."""
        self._inner.load()
        return False

    def instead(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result]:
        """Run what SQS could not be asked to take, and return when it has ended."""
        if not any(map(may_fall_back, results)):
            return results
        return _run_blocking(lambda: self._inner.instead(submissions, results))

    def close(self) -> None:
        """Nothing is left open."""

    @contextmanager
    def _in_order(self) -> Iterator[Send]:
        """Send one job after the other, in a thread."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="headgate-inline-submit") as thread:
            yield lambda submission: loop.run_in_executor(
                thread, copy_context().run, self._send_one, submission
            )

    def _send_one(self, submission: Submission) -> Submission:
        [became] = self._send([submission])
        return became


def _run_blocking(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end, also where this thread has an event loop, which then stands."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    with ThreadPoolExecutor(1, thread_name_prefix="headgate-inline") as thread:
        return thread.submit(copy_context().run, lambda: asyncio.run(make())).result()


def _delivery(submission: Submission, attempt: int, clock: Clock) -> Delivery:
    """The message as a worker would have received it for the so-manieth time."""
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
        case Failed(error=error):
            return _failed(submission, attempt, error)
        case Deferred(reason=reason):
            why = f"its handler asks for a later run ({reason or 'RetryLater'})"
        case other:
            why = str(getattr(other, "detail", type(other).__name__))
    return _error(submission, attempt, why)


def _failed(submission: Submission, attempts: int, cause: BaseException) -> InlineFailed:
    error = _error(submission, attempts, f"{type_of(cause)}: {text_of(cause)}")
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
