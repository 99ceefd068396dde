"""CloudWatch: logs, metrics, alarms and the dashboard.

A metric is charged for in the hours in which values are written; a type whose jobs never fail has
no metric of failures.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from headgate.jobs.core.events import JobDeadLettered, JobRetryScheduled
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.metric_names import (
    COMPLETED,
    COUNTED,
    DURATION,
    FAILED,
    MOST_VALUES,
    STARTED,
    WAIT,
)
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.costing.alarms import composite_alarms, watched_metrics
from headgate.ops.costing.bill import Charge
from headgate.ops.costing.compute import HOURS, batch_of
from headgate.ops.costing.fleet import Fleet
from headgate.ops.costing.load import Load, Stream
from headgate.ops.prices import ALARMS, COMPOSITES, DASHBOARDS, LOGS, LOGS_STORED, METRICS, MONTH_S

EVENT_OVERHEAD = 26
"""Bytes that CloudWatch adds to each line.
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html"""

COMPLETED_LINE, FAILED_LINE, RETRIED_LINE, DEAD_LINE = 330, 1500, 360, 500
"""Bytes of the events' JSON lines, a failure's with a traceback of a kilobyte; tests compare these
and the following sizes with real lines."""

EMF_LINE, EMF_VALUE = 450, 24
"""Bytes of a line of metrics, and of each duration or wait in it."""

INVOCATION_LINES = 900
"""Bytes that Lambda and a function of ours log per invocation."""

_GB = 2**30
_MINUTES = MONTH_S / 60


def charges(app: App, deployment: Deployment, fleet: Fleet, load: Load) -> Iterator[Charge]:
    """Yield a month's charges for CloudWatch."""
    yield Charge(price=ALARMS, units=watched_metrics(app, deployment))
    yield Charge(price=COMPOSITES, units=composite_alarms(app, deployment))
    yield Charge(price=DASHBOARDS, units=1)
    for stream in fleet.streams:
        yield from logged(log_bytes(stream, fleet, load), stream.job.name)
        dying = _part_of_hours(stream.jobs * stream.dead)  # counted by the sweep
        yield Charge(price=METRICS, units=dying, job_type=stream.job.name)
    for series in series_of(fleet):
        yield from _measured(series)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class BilledSeries:
    """Metrics that share their dimensions, and so their lines."""

    dimensions: tuple[str, ...]
    """The dimensions' values: a type and its queue group, or a queue group and a priority."""
    job_type: str | None
    pollers: float
    """Worker processes that write lines, on average."""
    counts: dict[str, float]
    """Values counted in a month, by metric."""
    values: float
    """Durations or waits in a month."""


def series_of(fleet: Fleet) -> list[BilledSeries]:
    """Return the metrics of each type and of each lane (`jobs.deployment.metric_lines`)."""
    lanes: dict[tuple[str, ...], list[Stream]] = defaultdict(list)
    for stream in fleet.streams:
        lanes[stream.queue.group, str(stream.queue.priority)].append(stream)
    return [_of_type(stream, fleet) for stream in fleet.streams] + [
        _of_lane(lane, streams, fleet) for lane, streams in lanes.items()
    ]


def log_bytes(stream: Stream, fleet: Fleet, load: Load) -> float:
    """Return the bytes that workers, consumers and the bridge log about a type in a month."""
    dead = stream.jobs * stream.dead
    lines = (
        (COMPLETED_LINE, stream.completed),
        (FAILED_LINE, stream.failures),
        (RETRIED_LINE, stream.failures - dead),
        (DEAD_LINE, dead),
        (INVOCATION_LINES, stream.fired + stream.delayed + _invocations(stream, fleet, load)),
    )
    return sum((size + EVENT_OVERHEAD) * count for size, count in lines)


def _invocations(stream: Stream, fleet: Fleet, load: Load) -> float:
    """Return the consumers' invocations in a month."""
    consumers = fleet.consumers[stream.queue.name]
    part = 1 - fleet.part_of_workers(stream.queue)
    return sum(
        stream.runs * part / len(consumers) / batch_of(each, stream, load) for each in consumers
    )


def _of_type(stream: Stream, fleet: Fleet) -> BilledSeries:
    dead = stream.jobs * stream.dead
    counts = {
        COMPLETED: stream.completed,
        FAILED: stream.failures,
        COUNTED[JobRetryScheduled]: stream.failures - dead,
        COUNTED[JobDeadLettered]: dead,
        DURATION: stream.runs,
    }
    return BilledSeries(
        dimensions=(stream.job.name, stream.queue.group),
        job_type=stream.job.name,
        pollers=fleet.workers(stream.queue),
        counts=counts,
        values=stream.runs,
    )


def _of_lane(lane: tuple[str, ...], streams: list[Stream], fleet: Fleet) -> BilledSeries:
    jobs = sum(stream.jobs for stream in streams)
    counts = {
        STARTED: sum(stream.runs for stream in streams),
        COMPLETED: sum(stream.completed for stream in streams),
        FAILED: sum(stream.failures for stream in streams),
        WAIT: jobs,
    }
    return BilledSeries(
        dimensions=lane,
        job_type=None,
        pollers=fleet.workers(streams[0].queue),
        counts=counts,
        values=jobs,
    )


def _measured(series: BilledSeries) -> Iterator[Charge]:
    active = sum(_part_of_hours(count) for count in series.counts.values())
    yield Charge(price=METRICS, units=active, job_type=series.job_type)
    yield from logged(_emf_bytes(series), series.job_type)


def _part_of_hours(events: float) -> float:
    """Return the hours' fraction with at least one of a month's ``events``, arriving at random."""
    return -math.expm1(-events / HOURS)


def _emf_bytes(series: BilledSeries) -> float:
    """Return the bytes of metric lines: one per process and minute in which anything happens."""
    if not series.pollers:
        return 0.0
    minutes = _MINUTES * series.pollers
    lines = minutes * -math.expm1(-series.values / minutes)
    values = minutes * min(MOST_VALUES, series.values / minutes)
    return lines * (EMF_LINE + EVENT_OVERHEAD) + values * EMF_VALUE


def logged(size: float, job_type: str | None) -> Iterator[Charge]:
    """Yield the charges for ingestion of so many bytes and a month's storage.

    AWS bills the compressed size of what is stored; here it counts uncompressed.
    """
    yield Charge(price=LOGS, units=size / _GB, job_type=job_type)
    yield Charge(price=LOGS_STORED, units=size / _GB, job_type=job_type)
