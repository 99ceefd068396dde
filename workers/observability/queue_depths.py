"""The depths of a worker's queues, read from SQS when its metrics are scraped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports.transport import AsyncReceiver, QueueDepth
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.errors import TransportError
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import text_of

_log = OwnLog("headgate.worker")

_KEPT_S = 30.0
"""Time for which the depths are not read again, however often the metrics are scraped."""

_ANSWER_S = 5.0
"""Timeout of a request, below the 10 s after which Prometheus gives up a scrape.
https://prometheus.io/docs/prometheus/latest/configuration/configuration/"""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class DepthSample:
    """The number of one queue's jobs in one state."""

    queue: QueueSpec
    state: str
    """``waiting``, ``delayed``, ``in_flight`` or ``dead``."""
    jobs: int


class QueueDepths:
    """Reads how many jobs wait, are delayed, are in flight and are dead, by queue.

    Takes a request for each queue, each dead-letter queue and the quarantine, at most every 30 s,
    and none while nobody scrapes. A number that SQS doesn't tell is left out, and logged once for
    each fault.

    Args:
        queues: the worker's queues.
        quarantine: the name of the app's quarantine.
        receiver: tells the depths of queues.
        clock: measures their age.
    """

    def __init__(
        self,
        queues: Sequence[QueueSpec],
        quarantine: str,
        receiver: AsyncReceiver,
        *,
        clock: Clock,
    ) -> None:
        self._queues = queues
        self._quarantine = quarantine
        self._receiver = receiver
        self._clock = clock
        self._depths: dict[str, QueueDepth] = {}
        """The depths that are known, by the queue's physical name."""
        self._faults: dict[str, str] = {}
        self._read_at: float | None = None
        self._reading = asyncio.Lock()

    async def refresh(self) -> None:
        """Read the depths, unless they were read within the last 30 s."""
        async with self._reading:
            now = self._clock.monotonic()
            if self._read_at is not None and now - self._read_at < _KEPT_S:
                return
            self._read_at = now
            names = [name for queue in self._queues for name in (queue.name, queue.dlq_name)]
            await asyncio.gather(*map(self._read, (*names, self._quarantine)))

    def samples(self) -> Iterator[DepthSample]:
        """Yield the queues' numbers as they were read last."""
        for queue in self._queues:
            if (depth := self._depths.get(queue.name)) is not None:
                yield DepthSample(queue=queue, state="waiting", jobs=depth.visible)
                yield DepthSample(queue=queue, state="delayed", jobs=depth.delayed)
                yield DepthSample(queue=queue, state="in_flight", jobs=depth.in_flight)
            if (dead := self._depths.get(queue.dlq_name)) is not None:
                yield DepthSample(queue=queue, state="dead", jobs=dead.total)

    @property
    def quarantined(self) -> int | None:
        """The number of jobs in quarantine; None if it is not known."""
        depth = self._depths.get(self._quarantine)
        return None if depth is None else depth.total

    async def _read(self, name: str) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                self._depths[name] = await self._receiver.depth(name)
        except TimeoutError:
            self._failed(name, f"no answer within {_ANSWER_S:g} s")
        except TransportError as error:
            self._failed(name, text_of(error))
        else:
            self._faults.pop(name, None)

    def _failed(self, name: str, fault: str) -> None:
        self._depths.pop(name, None)
        if self._faults.get(name) != fault:
            self._faults[name] = fault
            _log.warning("the depth of %s is not among the metrics: %s", name, fault)
