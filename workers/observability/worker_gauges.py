"""Gauges of a worker's present state, read on each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headgate.jobs.values.own_version import own_version
from headgate.workers.observability.queue_depths import QueueDepths

Active = Callable[[], Iterable[tuple[str, str]]]
"""Returns the type and queue of each job whose handler runs now."""

Budgets = Callable[[], Mapping[str, float]]
"""Returns the number of retries left in each budget, by limit name."""


class WorkerGauges(Collector):
    """Gauges of running jobs, of the depths of queues, and of the worker itself.

    Args:
        active: see `Active`.
        budgets: see `Budgets`.
        depths: the depths of the worker's queues, as they were read last.
        slots: the number of jobs that the worker can run at once.
        app_version: the version of the app's code; empty if it is not known.
    """

    def __init__(
        self,
        *,
        active: Active,
        budgets: Budgets,
        depths: QueueDepths,
        slots: int,
        app_version: str = "",
    ) -> None:
        self._active = active
        self._budgets = budgets
        self._depths = depths
        self._slots = slots
        self._app_version = app_version

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges as they are now."""
        yield self._jobs()
        yield self._left()
        yield self._queues()
        yield self._quarantine()
        yield self._info()
        yield GaugeMetricFamily("headgate_worker_slots", "Jobs that run at once", value=self._slots)

    def _jobs(self) -> Metric:
        gauge = GaugeMetricFamily(
            "headgate_jobs_active", "Handlers that run now", labels=("type", "queue")
        )
        for labels, count in Counter(self._active()).items():
            gauge.add_metric(labels, count)
        return gauge

    def _left(self) -> Metric:
        gauge = GaugeMetricFamily(
            "headgate_budget_left", "Retries that still fit into a budget", labels=("limit",)
        )
        for limit, retries in self._budgets().items():
            gauge.add_metric((limit,), retries)
        return gauge

    def _queues(self) -> Metric:
        gauge = GaugeMetricFamily(
            "headgate_queue_jobs",
            "Jobs of the worker's queues",
            labels=("queue", "priority", "state"),
        )
        for each in self._depths.samples():
            labels = (each.queue.group, str(each.queue.priority), each.state)
            gauge.add_metric(labels, each.jobs)
        return gauge

    def _quarantine(self) -> Metric:
        gauge = GaugeMetricFamily("headgate_quarantined_jobs", "Jobs in quarantine", labels=())
        if (jobs := self._depths.quarantined) is not None:
            gauge.add_metric((), jobs)
        return gauge

    def _info(self) -> Metric:
        gauge = GaugeMetricFamily(
            "headgate_worker_info", "1: this worker process", labels=("version", "app_version")
        )
        gauge.add_metric((own_version(), self._app_version), 1)
        return gauge
