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

from jobs.app import App
from jobs.async_storing import Storing
from jobs.batcher import Batcher, Pacing
from jobs.clock import Clock, SystemClock
from jobs.errors import ConfigurationError, TransportError
from jobs.events import Events
from jobs.job import JobType
from jobs.messages import size_of
from jobs.ports import ObjectStore, OutgoingMessage, Transport
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
        store: where payloads go that are over the app's limit. None makes one of aiobotocore if
            there is no ``transport`` either; else SQS's own limit of 1 MiB holds.
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
        store: ObjectStore | None = None,
        clock: Clock | None = None,
        events: Events | None = None,
        pacing: Pacing = Pacing(),  # noqa: B008 - frozen
    ) -> None:
        self._app = app
        self._clock = clock or SystemClock()
        self._events = events or Events()
        self._pacing = pacing
        self._rng = random.Random()  # noqa: S311 - spreads pauses, guards no secret
        self._transport = self._storing(transport, store) if transport is not None else None
        self._store = store
        self._owned = AsyncExitStack()
        self._sending: set[asyncio.Future[None]] = set()
        self._batchers: dict[str, Batcher[OutgoingMessage]] = {}

    async def __aenter__(self) -> Self:
        if self._transport is None:
            from jobs.aws.sqs import SqsTransport

            sqs = await self._owned.enter_async_context(SqsTransport())
            if self._store is None:
                from jobs.aws.s3 import S3Store

                own = S3Store(self._app.topology.bucket)
                self._store = await self._owned.enter_async_context(own)
            self._transport = self._storing(sqs, self._store)
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
        if self._transport is not None:
            self._transport.check(each.message for each in submissions)
        pending = [self._batcher(each.queue).put(each.message) for each in submissions]
        await asyncio.wait(pending) if pending else None
        at = self._clock.now()
        results = [_error_of(future) for future in pending]
        for submission, result in zip(submissions, results, strict=True):
            if result is None:
                self._events.emit(submission.event(at))
        raise_refused(submissions, results)

    def _storing(self, transport: Transport, store: ObjectStore | None) -> Storing:
        return Storing(transport, store, limit=self._app.payload_limit)

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
