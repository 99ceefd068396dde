"""Metrics of an app's queues, which tell what GetQueueAttributes doesn't.

CloudWatch has them by minute, a minute or two late. SQS writes none for a queue that has not been
used for six hours, and workers and functions write theirs only if they are told to (EMF), so a
missing number is unknown, not zero.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Literal

from headgate.jobs.core.backend import AsyncMetricReader, MetricQuery
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.existing.arns import owner_of
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.metric_names import (
    FAILED,
    NAMESPACE,
    PRIORITY,
    QUEUE,
    SERVICE,
    STARTED,
)
from headgate.jobs.errors import TransportError
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.texts import text_of

FRESH_S = 60.0
"""Seconds for which an answer serves: CloudWatch has nothing newer before."""

PAST = timedelta(hours=1)
"""The past that is read. A metric costs the same, however many minutes of it are asked for."""

_NOW = timedelta(minutes=6)
"""The last part of it that counts as the present; its last minute or two may be missing."""

_HOUR_S = 3_600

_OLDEST, _NOISY = "ApproximateAgeOfOldestMessage", "ApproximateNumberOfNoisyGroups"
_SENT, _DELETED = "NumberOfMessagesSent", "NumberOfMessagesDeleted"
_RECEIVED, _EMPTY = "NumberOfMessagesReceived", "NumberOfEmptyReceives"
_COUNTS = (_SENT, _DELETED, _RECEIVED, _EMPTY)

Minutes = Mapping[datetime, float]
"""Values by the begin of their minutes, in order."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class QueuePast:
    """CloudWatch's metrics of one queue in the last hour, minute by minute; none is unknown."""

    oldest_s: Minutes = field(default_factory=dict)
    sent: Minutes = field(default_factory=dict)
    deleted: Minutes = field(default_factory=dict)
    failed: Minutes = field(default_factory=dict)


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class QueueMetrics:
    """CloudWatch's metrics of one queue over the last minutes; None is unknown."""

    oldest: timedelta | None = None
    """Age of the oldest message, those that run included."""
    sent_per_minute: float | None = None
    deleted_per_minute: float | None = None
    failed_per_minute: float | None = None
    """Attempts that failed, as workers and functions count them with ``HEADGATE_EMF=1``."""
    is_received_from: bool | None = None
    """True if anybody has received from it, whether there was a message or not."""
    noisy_tenants: int | None = None
    """Number of message groups that delay others, of fair queues only. SQS doesn't tell which."""
    past: QueuePast = field(default_factory=QueuePast)


UNKNOWN = QueueMetrics()


class QueueMetricsReader:
    """Reads the metrics of queues with one request, at most once a minute.

    Args:
        metrics: CloudWatch.
        clock: tells the time.
        service: the app's name among the metrics of workers and functions.
    """

    def __init__(self, metrics: AsyncMetricReader, clock: Clock, service: str) -> None:
        self._metrics = metrics
        self._clock = clock
        self._service = service
        self._found: Mapping[MetricQuery, Minutes] = {}
        self._asked_at = -math.inf
        self._until = _whole_minute(clock.now())
        self.fault = ""
        """The reason for which the last request failed; empty if it did not."""

    async def read(self, queues: Sequence[QueueSpec]) -> Mapping[str, QueueMetrics]:
        """Return the metrics of each queue by its physical name; all unknown after a failure."""
        now = self._clock.monotonic()
        if now - self._asked_at >= FRESH_S:
            self._asked_at = now
            await self._ask([query for queue in queues for query in self._queries(queue)])
        by_queue: dict[str, dict[str, Minutes]] = {}
        for query, values in self._found.items():
            by_queue.setdefault(query.queue, {})[query.name] = values
        since = self._until - _NOW
        return {each.name: _of_queue(by_queue.get(each.name, {}), since) for each in queues}

    async def sent(self, queues: Sequence[QueueSpec], since: datetime) -> Mapping[str, float]:
        """Return how many messages each queue has been sent since a time, of those with any.

        Raises:
            TransportError: CloudWatch could not be asked, or refused.
        """
        queries = [
            MetricQuery(
                queue=queue.name,
                name=_SENT,
                statistic="Sum",
                period_s=_HOUR_S,
                account=owner_of(queue.name),
            )
            for queue in queues
        ]
        found = await self._metrics.read(queries, since=since, until=self._clock.now())
        return {each.queue: sum(values.values()) for each, values in found.items()}

    async def _ask(self, queries: Sequence[MetricQuery]) -> None:
        """Ask for each account by itself: one that shares no metrics must not hide the others'."""
        until = self._until = _whole_minute(self._clock.now())
        found: dict[MetricQuery, Minutes] = {}
        self.fault = ""
        for account in dict.fromkeys(query.account for query in queries):
            own = [query for query in queries if query.account == account]
            try:
                found |= await self._metrics.read(own, since=until - PAST, until=until)
            except TransportError as error:
                self.fault = self.fault or text_of(error)
        self._found = found

    def _queries(self, queue: QueueSpec) -> Sequence[MetricQuery]:
        levels = (_OLDEST,) if queue.fifo else (_OLDEST, _NOISY)
        asked: tuple[tuple[Literal["Maximum", "Sum"], tuple[str, ...]], ...]
        asked, account = (("Maximum", levels), ("Sum", _COUNTS)), owner_of(queue.name)
        lane = (
            *((SERVICE, self._service), (QUEUE, queue.group)),
            (PRIORITY, queue.priority.value),
        )
        return (
            *(
                MetricQuery(queue=queue.name, name=name, statistic=statistic, account=account)
                for statistic, names in asked
                for name in names
            ),
            *(
                MetricQuery(
                    queue=queue.name,
                    name=name,
                    statistic="Sum",
                    namespace=NAMESPACE,
                    dimensions=lane,
                )
                for name in (STARTED, FAILED)
            ),
        )


def _of_queue(by_name: Mapping[str, Minutes], since: datetime) -> QueueMetrics:
    """Return a queue's metrics.

    Args:
        by_name: the last hour.
        since: the begin of the present.
    """
    now = {
        name: [value for at, value in values.items() if at >= since]
        for name, values in by_name.items()
    }
    failed = _failed(by_name.get(STARTED, {}), by_name.get(FAILED, {}))
    oldest, noisy = _last(now.get(_OLDEST)), _last(now.get(_NOISY))
    received = [sum(now[name]) for name in (_RECEIVED, _EMPTY) if now.get(name)]
    return QueueMetrics(
        oldest=None if oldest is None else timedelta(seconds=min(oldest, _LONGEST_S)),
        sent_per_minute=_mean(now.get(_SENT)),
        deleted_per_minute=_mean(now.get(_DELETED)),
        failed_per_minute=_mean([value for at, value in failed.items() if at >= since]),
        is_received_from=sum(received) > 0 if received else None,
        noisy_tenants=None if noisy is None else int(noisy),
        past=QueuePast(
            oldest_s=by_name.get(_OLDEST, {}),
            sent=by_name.get(_SENT, {}),
            deleted=by_name.get(_DELETED, {}),
            failed=failed,
        ),
    )


def _failed(started: Minutes, failed: Minutes) -> Minutes:
    """Return the failures of each minute: no line is written of none, so starts tell of these."""
    return {at: failed.get(at, 0.0) for at in sorted({*started, *failed})}


_LONGEST_S = timedelta(days=14).total_seconds()
"""SQS's longest retention."""


def _last(values: Sequence[float] | None) -> float | None:
    return values[-1] if values else None


def _mean(values: Sequence[float] | None) -> float | None:
    return sum(values) / len(values) if values else None


def _whole_minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
