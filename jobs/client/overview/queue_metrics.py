"""SQS's metrics of an app's queues, which tell what GetQueueAttributes doesn't.

CloudWatch has them by minute, a minute or two late. It writes none for a queue that has not been
used for six hours, so a missing number is unknown, not zero.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headgate.jobs.core.backend import AsyncMetricReader, MetricQuery
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.errors import TransportError
from headgate.jobs.values.texts import text_of

FRESH_S = 60.0
"""Seconds for which an answer serves: CloudWatch has nothing newer before."""

_WINDOW = timedelta(minutes=6)
"""The past that is read, of which the last minute or two may be missing."""

_HOUR_S = 3_600

_OLDEST, _NOISY = "ApproximateAgeOfOldestMessage", "ApproximateNumberOfNoisyGroups"
_SENT, _DELETED = "NumberOfMessagesSent", "NumberOfMessagesDeleted"
_RECEIVED, _EMPTY = "NumberOfMessagesReceived", "NumberOfEmptyReceives"
_COUNTS = (_SENT, _DELETED, _RECEIVED, _EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMetrics:
    """CloudWatch's metrics of one queue over the last minutes; None is unknown."""

    oldest: timedelta | None = None
    """Age of the oldest message, those that run included."""
    sent_per_minute: float | None = None
    deleted_per_minute: float | None = None
    is_received_from: bool | None = None
    """True if anybody has received from it, whether there was a message or not."""
    noisy_tenants: int | None = None
    """Number of message groups that delay others; of fair queues only."""


UNKNOWN = QueueMetrics()


class QueueMetricsReader:
    """Reads the metrics of queues with one request, at most once a minute.

    Args:
        metrics: CloudWatch.
        clock: tells the time.
    """

    def __init__(self, metrics: AsyncMetricReader, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._found: Mapping[MetricQuery, Sequence[float]] = {}
        self._asked_at = -math.inf
        self.fault = ""
        """The reason for which the last request failed; empty if it did not."""

    async def read(self, queues: Sequence[QueueSpec]) -> Mapping[str, QueueMetrics]:
        """Return the metrics of each queue by its physical name; all unknown after a failure."""
        now = self._clock.monotonic()
        if now - self._asked_at >= FRESH_S:
            self._asked_at = now
            await self._ask([query for queue in queues for query in _queries(queue)])
        return {queue.name: _of_queue(queue, self._found) for queue in queues}

    async def sent(self, queues: Sequence[QueueSpec], since: datetime) -> Mapping[str, float]:
        """Return how many messages each queue has been sent since a time, of those with any.

        Raises:
            TransportError: CloudWatch could not be asked, or refused.
        """
        queries = [
            MetricQuery(queue=queue.name, name=_SENT, statistic="Sum", period_s=_HOUR_S)
            for queue in queues
        ]
        found = await self._metrics.read(queries, since=since, until=self._clock.now())
        return {each.queue: sum(values) for each, values in found.items()}

    async def _ask(self, queries: Sequence[MetricQuery]) -> None:
        until = _whole_minute(self._clock.now())
        self._found, self.fault = {}, ""
        try:
            self._found = await self._metrics.read(queries, since=until - _WINDOW, until=until)
        except TransportError as error:
            self.fault = text_of(error)


def _queries(queue: QueueSpec) -> Sequence[MetricQuery]:
    levels = (_OLDEST,) if queue.fifo else (_OLDEST, _NOISY)
    return (
        *(MetricQuery(queue=queue.name, name=name, statistic="Maximum") for name in levels),
        *(MetricQuery(queue=queue.name, name=name, statistic="Sum") for name in _COUNTS),
    )


def _of_queue(queue: QueueSpec, found: Mapping[MetricQuery, Sequence[float]]) -> QueueMetrics:
    by_name = {each.name: values for each, values in found.items() if each.queue == queue.name}
    oldest, noisy = _last(by_name.get(_OLDEST)), _last(by_name.get(_NOISY))
    received = [sum(by_name[name]) for name in (_RECEIVED, _EMPTY) if by_name.get(name)]
    return QueueMetrics(
        oldest=None if oldest is None else timedelta(seconds=min(oldest, _LONGEST_S)),
        sent_per_minute=_mean(by_name.get(_SENT)),
        deleted_per_minute=_mean(by_name.get(_DELETED)),
        is_received_from=sum(received) > 0 if received else None,
        noisy_tenants=None if noisy is None else int(noisy),
    )


_LONGEST_S = timedelta(days=14).total_seconds()
"""SQS's longest retention."""


def _last(values: Sequence[float] | None) -> float | None:
    return values[-1] if values else None


def _mean(values: Sequence[float] | None) -> float | None:
    return sum(values) / len(values) if values else None


def _whole_minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
