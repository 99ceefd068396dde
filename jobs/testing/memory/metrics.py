"""CloudWatch in memory, as far as `jobs.core.backend.AsyncMetricReader` needs it, with faults."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from headgate.jobs.core.backend import MetricQuery, MetricReader


class MemoryMetrics:
    """Metrics of queues in memory: a `jobs.core.backend.AsyncMetricReader`, and by ``sync`` for
    synchronous code.

    ``calls`` counts the requests, ``faults`` are those to come, and ``values`` are by queue and
    metric. There are no values but those that a test puts.

    >>> metrics = MemoryMetrics()
    >>> metrics.put("shop-jobs-normal", "NumberOfMessagesSent", 60, 120)
    >>> metrics.fail(ServiceUnavailable("CloudWatch is down"), times=2)
    """

    def __init__(self) -> None:
        self.calls = 0
        self.values: dict[tuple[str, str], Sequence[float]] = {}
        self.faults: list[Exception] = []

    def put(self, queue: str, name: str, *values: float) -> None:
        """Set the values of a queue's metric, of which the last one is always the latest."""
        self.values[queue, name] = values

    def fail(self, error: Exception, *, times: int = 1) -> None:
        """Raise ``error`` from the next ``times`` calls, in place of doing them."""
        self.faults += [error] * times

    async def read(
        self, queries: Sequence[MetricQuery], *, since: datetime, until: datetime
    ) -> Mapping[MetricQuery, Mapping[datetime, float]]:
        """Return the values that were put, as those of the last periods."""
        await asyncio.sleep(0)  # a call over a network always suspends
        return self.sync.read(queries, since=since, until=until)

    @property
    def sync(self) -> MetricReader:
        """The same metrics for synchronous code."""
        return _Sync(self)


class _Sync:
    def __init__(self, metrics: MemoryMetrics) -> None:
        self._metrics = metrics

    def read(
        self,
        queries: Sequence[MetricQuery],
        *,
        since: datetime,  # noqa: ARG002 - as in the port
        until: datetime,
    ) -> Mapping[MetricQuery, Mapping[datetime, float]]:
        metrics = self._metrics
        metrics.calls += 1
        if metrics.faults:
            raise metrics.faults.pop(0)
        found = {each: metrics.values.get((each.queue, each.name), ()) for each in queries}
        return {each: _timed(each, values, until) for each, values in found.items() if values}


def _timed(query: MetricQuery, values: Sequence[float], until: datetime) -> dict[datetime, float]:
    first = until - len(values) * timedelta(seconds=query.period_s)
    return {
        first + number * timedelta(seconds=query.period_s): value
        for number, value in enumerate(values)
    }
