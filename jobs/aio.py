"""Submitting from an event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self, TypeVar, Unpack

from jobs.aio_scheduling import AsyncSchedules
from jobs.app import App
from jobs.batcher import Batcher, Pacing
from jobs.clock import Clock, SystemClock
from jobs.errors import ConfigurationError, TransportError
from jobs.events import Events
from jobs.job import JobType
from jobs.messages import size_of
from jobs.ports import OutgoingMessage, Scheduler, Transport
from jobs.submission import JobHandle, Overrides, Submission, prepare_many, raise_refused
from jobs.topology import QueueSpec

P = TypeVar("P")
R = TypeVar("R")


class AsyncClient:
    """Submits jobs of one app through SQS, from one event loop; use it with ``async with``.

    Concurrent submits share requests: an idle client sends at once, and what is submitted while a
    request is under way goes with the next one. Each `submit` returns when SQS has its own job.

    Args:
        app: whose job types are submitted.
        transport: where to; None makes one of aiobotocore, with the standard AWS settings.
        scheduler: holds long delays, and keeps schedules; None makes one of aiobotocore when it is
            needed.
        clock: tells the time.
        events: hears of each submitted job.
        pacing: how submissions are put together.

    Example:
        >>> async with AsyncClient(app) as client:  # doctest: +SKIP
        ...     job = await client.submit(send_email, Email(to="a@b.example"))
    """

    def __init__(
        self,
        app: App,
        *,
        transport: Transport | None = None,
        scheduler: Scheduler | None = None,
        clock: Clock | None = None,
        events: Events | None = None,
        pacing: Pacing = Pacing(),  # noqa: B008 - frozen
    ) -> None:
        self._app = app
        self._clock = clock or SystemClock()
        self._events = events or Events()
        self._pacing = pacing
        self._rng = random.Random()  # noqa: S311 - spreads pauses, guards no secret
        self._transport = transport
        self._scheduler = scheduler
        self.schedules = AsyncSchedules(app, self._open_scheduler, self._send_all, self._clock)
        """The app's schedules, and the jobs that wait in one; see `jobs.scheduling.Schedules`."""
        self._owned = AsyncExitStack()
        self._sending: set[asyncio.Future[None]] = set()
        self._batchers: dict[str, Batcher[OutgoingMessage]] = {}

    async def __aenter__(self) -> Self:
        if self._transport is None:
            from jobs.aws.sqs import SqsTransport

            self._transport = await self._owned.enter_async_context(SqsTransport())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Send what still waits, then close what this client opened. Idempotent."""
        await asyncio.gather(*(batcher.drain() for batcher in self._batchers.values()))
        await self._owned.aclose()

    async def submit(
        self, job: JobType[P, R], payload: P, **overrides: Unpack[Overrides]
    ) -> JobHandle[R]:
        """Submit one job; `jobs.Client.submit`, awaited."""
        [handle] = await self.submit_many(job, [payload], **overrides)
        return handle

    async def submit_many(
        self, job: JobType[P, R], payloads: Iterable[P], **overrides: Unpack[Overrides]
    ) -> list[JobHandle[R]]:
        """Submit many jobs of one type; `jobs.Client.submit_many`, awaited."""
        submissions = prepare_many(
            self._app, self._app.topology, job, payloads, overrides, self._clock.now()
        )
        await self._send_all(submissions)
        return [submission.handle() for submission in submissions]

    def send(self, submission: Submission) -> asyncio.Future[None]:
        """Send what has been prepared; the future is done when SQS has it, and raises as `submit`.

        It goes on if nobody awaits it.
        """
        sending = asyncio.ensure_future(self._send_all([submission]))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        return sending

    async def _send_all(self, submissions: Sequence[Submission]) -> None:
        if submissions and submissions[0].due is not None:  # all of a call have the same delay
            self._tell(submissions, await self.schedules.hold(submissions))
            return
        pending = [self._batcher(each.queue).put(each.message) for each in submissions]
        await asyncio.wait(pending) if pending else None
        self._tell(submissions, [_error_of(future) for future in pending])

    def _tell(
        self, submissions: Sequence[Submission], results: Sequence[TransportError | None]
    ) -> None:
        at = self._clock.now()
        for submission, result in zip(submissions, results, strict=True):
            if result is None:
                self._events.emit(submission.event(at))
        raise_refused(submissions, results)

    def _open_scheduler(self) -> Scheduler:
        if self._scheduler is None:
            from jobs.aws.scheduler import EventBridgeScheduler

            self._scheduler = scheduler = EventBridgeScheduler()
            self._owned.push_async_callback(scheduler.stop)
        return self._scheduler

    def _batcher(self, spec: QueueSpec) -> Batcher[OutgoingMessage]:
        queue = spec.name
        if (batcher := self._batchers.get(queue)) is None:
            if self._transport is None:
                raise ConfigurationError("AsyncClient is not open: use it in `async with`")
            batcher = Batcher(
                partial(self._transport.send, queue),
                # One after the other, or a later request could overtake one that is tried again.
                pacing=replace(self._pacing, parallel=1) if spec.fifo else self._pacing,
                eager=lambda: not self._batchers[queue].busy,
                size_of=size_of,
                name=f"headgate-submit-{queue}",
                rng=self._rng,
            )
            self._batchers[queue] = batcher
        return batcher


def _error_of(future: asyncio.Future[None]) -> TransportError | None:
    error = future.exception()
    if error is None or isinstance(error, TransportError):
        return error
    raise error
