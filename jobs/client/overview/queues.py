"""``client.queues``: what each queue holds, how fast it moves, and who works on it.

`AsyncQueueDesk` is the awaited form of `QueueDesk`, and its engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime

from headgate.jobs.client.overview.queue_metrics import QueueMetrics, QueueMetricsReader
from headgate.jobs.client.overview.workers import AsyncWorkerDesk, workers_of
from headgate.jobs.client.pauses import AsyncPauses, pauses_of
from headgate.jobs.client.services import ClientServices
from headgate.jobs.core.backend import AsyncMetricReader
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports.transport import AsyncReceiver, QueueDepth
from headgate.jobs.core.topology import Priority, QueueSpec, Topology
from headgate.jobs.deployment.metric_names import service_name
from headgate.jobs.errors import QueueMissing, SettingsInvalid, TransportError
from headgate.jobs.records.fleet.worker_status import WorkerStatus
from headgate.jobs.records.pausing.pause import Pause
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.texts import text_of

_AT_ONCE = 16
"""Requests to SQS that are under way at a time."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """One queue. A number is None if it is unknown, and the counts of SQS are approximate."""

    queue: str
    """The queue group."""
    priority: Priority
    name: str
    """The physical name on AWS."""
    exists: bool
    """False if SQS doesn't know the queue, or its dead-letter queue."""
    waiting: int | None
    in_flight: int | None
    """Received and not deleted: running, held by a worker, or waiting for a retry."""
    delayed: int | None
    dead: int | None
    """All messages of its dead-letter queue."""
    metrics: QueueMetrics
    """Its metrics in CloudWatch."""
    workers: Sequence[str] | None
    """The names of the live workers that receive from it; None if these are unknown."""
    pauses: Sequence[Pause] | None
    """The pauses of the queue as a whole; None if these are unknown."""
    tenants: Mapping[str, int] | None
    """By tenant, the messages that live workers hold, most first: at least so many, as each worker
    names the twenty tenants of which it holds most. Lambda functions name none. Empty for a FIFO
    queue; None if the workers are unknown."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class QueueList:
    """The queues of an app."""

    queues: Sequence[QueueStatus]
    """By group, the most urgent priority first."""
    quarantine: str
    """The physical name of the quarantine."""
    quarantined: int | None
    """Number of its messages; None if it doesn't exist."""
    missing: Sequence[str]
    """The physical names of queues that don't exist."""
    pauses: Sequence[Pause] | None
    """All pauses, those of types and tenants included; None if they are unknown."""
    workers: Sequence[WorkerStatus] | None
    """The live workers; None if they are unknown."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """The reasons for which ``metrics``, ``workers`` or ``pauses`` are unknown, by these names."""


class AsyncQueueDesk:
    """The awaited form of `QueueDesk`, which also drives this class.

    Args:
        topology: the app's queues.
        receiver: tells the depths of queues.
        metrics: tells their metrics.
        workers: lists the live workers.
        pauses: lists what is paused.
        concurrency: makes several requests at a time.
    """

    def __init__(
        self,
        topology: Topology,
        receiver: AsyncReceiver,
        metrics: QueueMetricsReader,
        workers: AsyncWorkerDesk,
        pauses: AsyncPauses,
        concurrency: Parallelism,
    ) -> None:
        self._topology = topology
        self._receiver = receiver
        self._metrics = metrics
        self._workers = workers
        self._pauses = pauses
        self._concurrency = concurrency

    async def list(self) -> QueueList:
        """`QueueDesk.list`, awaited."""
        specs, quarantine = self._topology.queues, self._topology.quarantine_name
        names = [name for spec in specs for name in (spec.name, spec.dlq_name)]
        depths = await self._depths([*names, quarantine])
        metrics = await self._metrics.read(specs)
        unknown = {"metrics": self._metrics.fault} if self._metrics.fault else {}
        workers = await self._known_workers(unknown)
        pauses = await self._known_pauses(unknown)
        return QueueList(
            queues=[_status(each, depths, metrics[each.name], workers, pauses) for each in specs],
            quarantine=quarantine,
            quarantined=_all(depths[quarantine]),
            missing=[name for name, depth in depths.items() if depth is None],
            pauses=pauses,
            workers=workers,
            unknown=unknown,
        )

    async def sent(self, since: datetime) -> Mapping[str, float]:
        """`QueueDesk.sent`, awaited."""
        return await self._metrics.sent(self._topology.queues, since)

    async def _depths(self, names: Sequence[str]) -> Mapping[str, QueueDepth | None]:
        depths = await self._concurrency.each(self._depth, names, at_once=_AT_ONCE)
        return dict(zip(names, depths, strict=True))

    async def _depth(self, name: str) -> QueueDepth | None:
        try:
            return await self._receiver.depth(name)
        except QueueMissing:
            return None

    async def _known_workers(self, unknown: dict[str, str]) -> Sequence[WorkerStatus] | None:
        try:
            return (await self._workers.list()).workers
        except (SettingsInvalid, TransportError) as error:
            unknown["workers"] = text_of(error)
            return None

    async def _known_pauses(self, unknown: dict[str, str]) -> Sequence[Pause] | None:
        try:
            return await self._pauses.list()
        except SettingsInvalid:
            return []  # nothing can be paused without records
        except TransportError as error:
            unknown["pauses"] = text_of(error)
            return None


class QueueDesk:
    """The queues of an app."""

    def __init__(self, engine: AsyncQueueDesk) -> None:
        self._engine = engine

    def list(self) -> QueueList:
        """Return what each queue holds, how fast it moves, and who works on it.

        Takes a request to SQS for each queue and each dead-letter queue, one to CloudWatch a
        minute, and two to the table. What CloudWatch or the table don't answer is unknown.

        Raises:
            TransportError: SQS could not be asked, or refused.
        """
        return drive(self._engine.list())

    def sent(self, since: datetime) -> Mapping[str, float]:
        """Return how many messages each queue has been sent since a time, by its physical name.

        CloudWatch counts them by the hour, and what was sent again counts again. A queue of which
        it knows nothing is left out. Takes one request, and asks for one metric a queue.

        Args:
            since: the time, which is aware; the beginning of an hour.

        Raises:
            TransportError: CloudWatch could not be asked, or refused.
        """
        return drive(self._engine.sent(since))


def queues_of(
    services: ClientServices, receiver: AsyncReceiver, metrics: AsyncMetricReader
) -> AsyncQueueDesk:
    """Return the queues of a client's app, over what its handles use."""
    app = services.app
    return AsyncQueueDesk(
        app.topology,
        receiver,
        QueueMetricsReader(metrics, services.clock, service_name(app.name, app.stage)),
        workers_of(services),
        pauses_of(services),
        services.concurrency,
    )


def _status(
    spec: QueueSpec,
    depths: Mapping[str, QueueDepth | None],
    metrics: QueueMetrics,
    workers: Sequence[WorkerStatus] | None,
    pauses: Sequence[Pause] | None,
) -> QueueStatus:
    depth, dead = depths[spec.name], depths[spec.dlq_name]
    return QueueStatus(
        queue=spec.group,
        priority=spec.priority,
        name=spec.name,
        exists=depth is not None and dead is not None,
        waiting=None if depth is None else depth.visible,
        in_flight=None if depth is None else depth.in_flight,
        delayed=None if depth is None else depth.delayed,
        dead=_all(dead),
        metrics=metrics,
        workers=None if workers is None else [w.name for w in workers if w.polls_queue(spec)],
        pauses=None if pauses is None else [each for each in pauses if each.covers_queue(spec)],
        tenants=None if workers is None else _tenants(spec, workers),
    )


def _tenants(spec: QueueSpec, workers: Sequence[WorkerStatus]) -> Mapping[str, int]:
    """Return the messages of a queue that workers hold, by tenant, most first."""
    held: Counter[str] = Counter()
    for each in (tenant for worker in workers for tenant in worker.tenants):
        if (each.queue, each.priority) == (spec.group, spec.priority):
            held[each.tenant] += each.held
    return dict(held.most_common())


def _all(depth: QueueDepth | None) -> int | None:
    return None if depth is None else depth.total
