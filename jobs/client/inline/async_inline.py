"""The inline fallback of `AsyncClient`, in the caller's task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack

from headgate.jobs.client.fallback import Result, may_fall_back
from headgate.jobs.client.inline.course import LONGEST_S, Course, current_course
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, JobInline
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.handlers.resources import OpenResources
from headgate.jobs.definitions.policies import load_handlers
from headgate.jobs.errors import InlineFailed, ServiceUnavailable, Throttled
from headgate.jobs.execution.calling.handler_host import Handles, Send
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Deferred, Failed
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.actions import Ack, Release, RetryAfter
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.values.texts import text_of, type_of

_NOT_BEGUN = f"it was not begun within {LONGEST_S:g} s of the call that it came by"


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
        results, fitting = self._told(submissions, results), self._fitting(submissions, results)
        here = {each.id for each, fits in zip(submissions, fitting, strict=True) if fits}
        course = Course(self._app, here, self._clock)
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
            token = current_course.set(course)
            try:
                return [
                    await self._see_through(executor, course, submission, result)
                    if fits
                    else result
                    for submission, result, fits in zip(submissions, results, fitting, strict=True)
                ]
            finally:
                course.end()
                current_course.reset(token)

    def adopted(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result] | None:
        """Return the results if no job is left to run here; None if the jobs have to be run.

        No job is left if none may run in place, or if a job that runs in place has submitted them:
        then they run after it.
        """
        results, fitting = self._told(submissions, results), self._fitting(submissions, results)
        if not any(fitting):
            return results
        if (course := current_course.get()) is None or course.app is not self._app:
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
            may_fall_back(result) and not self._hindrance(submission)
            for submission, result in zip(submissions, results, strict=True)
        ]

    def _told(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result]:
        """Return the results; those of jobs that may not run in place say why not."""
        return [
            _refusal(result, why)
            if may_fall_back(result) and (why := self._hindrance(submission))
            else result
            for submission, result in zip(submissions, results, strict=True)
        ]

    def _hindrance(self, submission: Submission) -> str:
        """Return the reason for which a job may not run in place; empty if it may."""
        declared = self._app.find_type(submission.envelope.type)
        if declared.once:
            return f"{declared.name!r} has once=True, and without the table nothing could claim it"
        if declared.isolation == "process":
            return f'{declared.name!r} has isolation="process", and could take this process down'
        return "it has a delay, and is not due yet" if submission.envelope.not_before else ""

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
        self, executor: Executor, course: Course, submission: Submission, refusal: Result
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
        self, executor: Executor, course: Course, submission: Submission, reason: str
    ) -> Result:
        self._events.emit(_inline(submission, reason, self._clock))
        attempt = 1
        while True:
            verdict = await Run(executor, _delivery(submission, attempt, self._clock)).verdict()
            match verdict.action:
                case Ack():
                    return None
                case RetryAfter(delay_s=delay_s) | Release(delay_s=delay_s) if (
                    delay_s <= course.left_s and not course.is_late()
                ):
                    for event in verdict.aftermath(self._clock.now()):
                        self._events.emit(event)
                    await asyncio.sleep(delay_s)
                    course.left_s -= delay_s
                    attempt += 1
                case _:
                    return _given_up(submission, attempt, verdict)


def _refusal(error: Result, why: str) -> Result:
    kind = Throttled if isinstance(error, Throttled) else ServiceUnavailable
    told = kind(f"{error}; it was not run in place either: {why}")
    told.__cause__ = error
    return told


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
