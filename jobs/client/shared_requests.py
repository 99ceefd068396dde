"""Requests to SQS that concurrent calls of an asynchronous client share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from headgate.jobs.client.submitting.large_payloads import failure_of
from headgate.jobs.core.batcher import LINGER_S, Batcher, Pacing
from headgate.jobs.core.batching import in_batches
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.errors import TransportError
from headgate.jobs.messages.bundles import MOST_JOBS, failures_by_job, packed
from headgate.jobs.messages.outgoing import lane_of
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.values.durations import Duration, duration


class SharedRequests:
    """Sends jobs with those of other calls: a batcher for each queue, and for jobs that may share
    messages another.

    Args:
        send: sends one request's messages to a queue; returns the entries that failed.
        pacing: the batching.
        insist: True to repeat a request that failed as a whole.
        rng: spreads pauses.
        gather: time that a job waits for others to go with; 0 lets it wait only while a request is
            in flight.

    Raises:
        SettingsInvalid: ``gather`` is no duration.
    """

    def __init__(
        self,
        send: Callable[[str, Sequence[OutgoingMessage]], Awaitable[list[EntryFailure]]],
        *,
        pacing: Pacing,
        insist: bool,
        rng: random.Random,
        gather: Duration,
    ) -> None:
        self._send = send
        self._gather_s = duration("AsyncClient: gather", gather).total_seconds()
        on_landing = pacing.on_landing and not self._gather_s
        self._pacing = replace(pacing, insist=insist, on_landing=on_landing)
        self._rng = rng
        self._batchers: dict[tuple[str, int], Batcher[OutgoingMessage]] = {}
        """By a queue's name, and the most bytes of a bundle; 0 for jobs that travel alone."""

    async def send(self, submissions: Sequence[Submission]) -> list[TransportError | None]:
        """Send jobs; return each one's error, or None if SQS has it."""
        pending = [
            self._batcher((each.queue.name, each.bundle_bytes)).put(each.message)
            for each in submissions
        ]
        await asyncio.wait(pending)
        return [_error_of(future) for future in pending]

    async def drain(self) -> None:
        """Send all that waits."""
        await asyncio.gather(*(batcher.drain() for batcher in self._batchers.values()))

    def _batcher(self, way: tuple[str, int]) -> Batcher[OutgoingMessage]:
        if (batcher := self._batchers.get(way)) is None:
            queue, bundle_bytes = way
            self._batchers[way] = batcher = Batcher(
                partial(self._send_bundled, *way) if bundle_bytes else partial(self._send, queue),
                pacing=self._pacing,
                linger_s=partial(self._linger_s, way),
                size_of=attrgetter("size"),
                lane_of=lane_of,
                name=f"headgate-submit-{queue}",
                rng=self._rng,
                most=MOST_JOBS if bundle_bytes else MAX_BATCH,
            )
        return batcher

    def _linger_s(self, way: tuple[str, int]) -> float:
        return self._gather_s or (LINGER_S if self._batchers[way].busy else 0.0)

    async def _send_bundled(
        self, queue: str, bundle_bytes: int, messages: Sequence[OutgoingMessage]
    ) -> list[EntryFailure]:
        """Send jobs in as few messages as possible; return those that failed.

        Raises:
            TransportError: none could be sent.
        """
        parcels = packed(messages, [bundle_bytes] * len(messages))
        failures: list[EntryFailure] = []
        # Usually one request; jobs of many tenants, or large ones, take more.
        for number, batch in enumerate(in_batches(parcels, attrgetter("size"))):
            try:
                failed = await self._send(queue, [parcel.message for parcel in batch])
            except TransportError as error:
                if not number:
                    raise
                failed = [failure_of(at, error) for at in range(len(batch))]
            failures += failures_by_job(batch, failed)
        return failures


def _error_of(future: asyncio.Future[None]) -> TransportError | None:
    error = future.exception()
    if error is None or isinstance(error, TransportError):
        return error
    raise error
