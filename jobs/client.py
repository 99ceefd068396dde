"""Submitting from plain code."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from jobs.app import App
from jobs.batching import TRIES, EntryRejected, in_batches, pause_s
from jobs.clock import Clock, SystemClock
from jobs.errors import TransportError
from jobs.events import Events
from jobs.job import JobType
from jobs.messages import size_of
from jobs.ports import BlockingScheduler, BlockingTransport, EntryFailure
from jobs.submission import JobHandle, Overrides, Submission, prepare_many, raise_refused

if TYPE_CHECKING:
    from jobs.scheduling import Schedules

P = TypeVar("P")
R = TypeVar("R")


class Client:
    """Submits jobs of one app through SQS. Safe to share by threads; close it, or use ``with``.

    Args:
        app: whose job types are submitted.
        transport: where to; None makes one of boto3, with the standard AWS settings.
        scheduler: holds long delays, and keeps schedules; None makes one of boto3 when needed.
        clock: tells the time.
        events: hears of each submitted job.
        sleep: pauses between tries of an entry that SQS did not take.

    Example:
        >>> with Client(app) as client:  # doctest: +SKIP
        ...     job = client.submit(send_email, Email(to="a@b.example"))
    """

    def __init__(
        self,
        app: App,
        *,
        transport: BlockingTransport | None = None,
        scheduler: BlockingScheduler | None = None,
        clock: Clock | None = None,
        events: Events | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._app = app
        self._clock = clock or SystemClock()
        self._events = events or Events()
        self._sleep = sleep
        self._rng = random.Random()  # noqa: S311 - spreads pauses, guards no secret
        self._close: Callable[[], None] = lambda: None
        if transport is None:
            from jobs.aws.sqs import SyncSqs

            transport = sqs = SyncSqs()
            self._close = sqs.close
        self._transport = transport
        self._opening = threading.Lock()
        self._scheduler = scheduler
        self._close_scheduler: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that this client opened. Idempotent."""
        self._close()
        self._close_scheduler()

    @cached_property
    def schedules(self) -> Schedules:
        """The app's schedules, and the jobs that wait in one; see `jobs.scheduling.Schedules`."""
        from jobs.scheduling import Schedules  # by its first use: an import must be quick

        return Schedules(self._app, self._open_scheduler, self._send_all, self._clock)

    def submit(
        self, job: JobType[P, R], payload: P, **overrides: Unpack[Overrides]
    ) -> JobHandle[R]:
        """Submit one job; when this returns, SQS has it.

        Args:
            job: the type, as declared on the app.
            payload: what its handler takes.
            overrides: see `Overrides`.

        Raises:
            SubmissionError: the payload or an option is not valid; nothing was sent.
            TransportError: SQS could not be asked, or refused.
        """
        return self.submit_many(job, [payload], **overrides)[0]

    def submit_many(
        self, job: JobType[P, R], payloads: Iterable[P], **overrides: Unpack[Overrides]
    ) -> list[JobHandle[R]]:
        """Submit many jobs of one type, ten to a request. All are checked before any is sent.

        Raises:
            SubmissionError: a payload or an option is not valid; nothing was sent.
            SubmissionFailed: SQS took some, and not the others, which it lists.
            TransportError: SQS could not be asked, or refused; it took none.
        """
        submissions = prepare_many(
            self._app, self._app.topology, job, payloads, overrides, self._clock.now()
        )
        self._send_all(submissions)
        return [submission.handle() for submission in submissions]

    def _send_all(self, submissions: Sequence[Submission]) -> None:
        if submissions and submissions[0].due is not None:  # all of a call have the same delay
            self._tell(submissions, self.schedules.hold(submissions))
            return
        results: list[TransportError | None] = []
        for batch in in_batches(submissions, lambda each: size_of(each.message)):
            sent = self._send_batch(batch)
            results += sent
            broken = [error for error in sent if error and not isinstance(error, EntryRejected)]
            if broken:
                # It would fail the rest as well: say which were not taken rather than insist.
                results += broken[:1] * (len(submissions) - len(results))
                break
        self._tell(submissions, results)

    def _tell(
        self, submissions: Sequence[Submission], results: Sequence[TransportError | None]
    ) -> None:
        at = self._clock.now()
        for submission, result in zip(submissions, results, strict=True):
            if result is None:
                self._events.emit(submission.event(at))
        raise_refused(submissions, results)

    def _send_batch(self, batch: Sequence[Submission]) -> list[TransportError | None]:
        results: list[TransportError | None] = [None] * len(batch)
        remaining = list(range(len(batch)))
        for tries in range(1, TRIES + 1):
            try:
                failures = self._send([batch[index] for index in remaining])
            except TransportError as error:
                for index in remaining:
                    results[index] = error
                break
            failed = {remaining[failure.index]: failure for failure in failures}
            for index in remaining:
                results[index] = EntryRejected(failed[index]) if index in failed else None
            remaining = [index for index in failed if not failed[index].sender_fault]
            if not remaining:
                break
            if tries < TRIES:
                self._sleep(pause_s(tries, self._rng))
        return results

    def _send(self, submissions: Sequence[Submission]) -> list[EntryFailure]:
        messages = [submission.message for submission in submissions]
        return self._transport.send(submissions[0].queue.name, messages)

    def _open_scheduler(self) -> BlockingScheduler:
        with self._opening:
            if self._scheduler is None:
                from jobs.aws.scheduler import SyncScheduler

                self._scheduler = scheduler = SyncScheduler()
                self._close_scheduler = scheduler.close
            return self._scheduler
