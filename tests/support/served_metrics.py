"""The metrics that a worker serves to Prometheus, read from their registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics import Counter, MetricWrapperBase

from headgate import App
from headgate.jobs.testing import MemorySqs, VirtualClock
from headgate.workers.observability.prometheus import Metrics
from headgate.workers.observability.queue_depths import QueueDepths
from headgate.workers.observability.worker_gauges import WorkerGauges


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedMetric:
    """One metric."""

    name: str
    """The name in queries; that of a histogram is without ``_bucket``, ``_sum`` and ``_count``."""
    kind: str
    """``counter``, ``gauge`` or ``histogram``."""
    labels: Sequence[str]
    about: str


def unread() -> QueueDepths:
    """Return the depths of no queue."""
    clock = VirtualClock()
    return QueueDepths((), "none", MemorySqs(clock), clock=clock)


def served_metrics(app: App) -> Iterator[ServedMetric]:
    """Yield all metrics that a worker serves for an app, in the order in which they are made."""
    metrics = Metrics(app)
    metrics.watch(WorkerGauges(active=list, budgets=dict, depths=unread(), slots=1))
    for collector in metrics.registry._collector_to_names:
        if isinstance(collector, WorkerGauges):
            for family in collector.collect():
                assert isinstance(family, GaugeMetricFamily)
                yield ServedMetric(
                    name=family.name,
                    kind="gauge",
                    labels=family._labelnames,
                    about=family.documentation,
                )
            continue
        assert isinstance(collector, MetricWrapperBase)
        suffix = "_total" if isinstance(collector, Counter) else ""
        yield ServedMetric(
            name=collector._name + suffix,
            kind=str(collector._type),
            labels=collector._labelnames,
            about=collector._documentation,
        )
