"""Metrics for Prometheus, counted from events.

    headgate_jobs_total{type,outcome}               attempts by outcome
    headgate_jobs_active{type,queue}                handlers that run now
    headgate_job_duration_seconds{type}             duration of a handler's run
    headgate_job_attempts{type}                     the attempt at which a job completed
    headgate_job_wait_seconds{priority}             time from a job's due time to its first start
    headgate_receives_total{queue,result}           receives: ``some`` or ``empty``
    headgate_messages_received_total{queue}
    headgate_polls_failed_total{queue}
    headgate_heartbeats_total{queue,result}         messages: ``extended`` or ``failed``
    headgate_receipts_lost_total{queue}
    headgate_settlement_batch_size{action}          entries of a request
    headgate_settlements_failed_total{queue,action}
    headgate_limits_reached_total{limit}
    headgate_breaker_state{limit}                   0 closed, 1 probing, 2 open
    headgate_breaker_keys_open{limit}               keys whose breaker is not closed
    headgate_budget_left{limit}                     retries that still fit into a budget
    headgate_records_failed_total{action}
    headgate_items_skipped_total{kind}              strange items of the table that were left out
    headgate_hooks_failed_total{hook}

Labels are job types, queues and limits, whose number is bounded; never ids or tenants.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headgate.jobs.core.events import (
    BreakerClosed,
    BreakerEvent,
    BreakerOpened,
    BreakerProbing,
    CancellationsFailed,
    Event,
    HeartbeatExtended,
    HeartbeatFailed,
    HookFailed,
    ItemsSkipped,
    JobCancelled,
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobDiscarded,
    JobDropped,
    JobEvent,
    JobFailed,
    JobInterrupted,
    JobQuarantined,
    JobRetryScheduled,
    JobStarted,
    LimitReached,
    PauseEvent,
    PollFailed,
    PollReceived,
    QueuePaused,
    QueueResumed,
    ReceiptLost,
    RecordsFailed,
    RecordsShed,
    RecordsWritten,
    SettlementFailed,
    SettlementFlushed,
)

DURATIONS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_WAITS_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
_ATTEMPTS = (1, 2, 3, 5, 10, 20, 50)
_BATCH = tuple(range(1, 11))

OUTCOMES: Mapping[type[Event], str] = {
    JobCompleted: "completed",
    JobFailed: "failed",
    JobRetryScheduled: "retried",
    JobDeadLettered: "dead_lettered",
    JobQuarantined: "quarantined",
    JobDeferred: "deferred",
    JobDiscarded: "discarded",
    JobDropped: "dropped",
    JobCancelled: "cancelled",
    JobInterrupted: "interrupted",
    JobCrashed: "crashed",
}

_BREAKERS: Mapping[type[Event], int] = {BreakerClosed: 0, BreakerProbing: 1, BreakerOpened: 2}
_PAUSES: Mapping[type[Event], int] = {QueuePaused: 1, QueueResumed: 0}
"""The values of the gauges after these events."""

Active = Callable[[], Iterable[tuple[str, str]]]
"""Returns the type and queue of each job whose handler runs now."""

Budgets = Callable[[], Mapping[str, float]]
"""Returns the number of retries left in each budget, by limit name."""


class Metrics:
    """A subscriber that counts events in its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        make = _Maker(self.registry)
        self._jobs = make.counter("headgate_jobs", "Attempts by outcome", "type", "outcome")
        self._durations = make.histogram(
            "headgate_job_duration_seconds", "How long handlers ran", DURATIONS_S, "type"
        )
        self._attempts = make.histogram(
            "headgate_job_attempts", "The attempt at which jobs completed", _ATTEMPTS, "type"
        )
        self._waits = make.histogram(
            "headgate_job_wait_seconds", "From due to first start", _WAITS_S, "priority"
        )
        self._receives = make.counter("headgate_receives", "Receives", "queue", "result")
        self._messages = make.counter("headgate_messages_received", "Messages", "queue")
        self._polls_failed = make.counter("headgate_polls_failed", "Failed receives", "queue")
        self._heartbeats = make.counter(
            "headgate_heartbeats", "Messages whose visibility was extended", "queue", "result"
        )
        self._lost = make.counter("headgate_receipts_lost", "Receipts lost", "queue")
        self._batches = make.histogram(
            "headgate_settlement_batch_size", "Entries of a request", _BATCH, "action"
        )
        self._unsettled = make.counter(
            "headgate_settlements_failed", "Verdicts not carried out", "queue", "action"
        )
        self._limits = make.counter("headgate_limits_reached", "Limits that held", "limit")
        self._paused = make.gauge("headgate_paused", "1 while paused", "kind", "target", "priority")
        self._records_failed = make.counter(
            "headgate_records_failed", "Requests for records that failed", "action"
        )
        self._records = make.counter("headgate_records", "Records written or shed", "became")
        self._skipped = make.counter(
            "headgate_items_skipped", "Strange items of the table that were left out", "kind"
        )
        self._hooks = make.counter("headgate_hooks_failed", "Failed hooks", "hook")
        self._count: Mapping[type[Event], Callable[[Any], None]] = {
            **dict.fromkeys(OUTCOMES, self._ended),
            JobStarted: self._started,
            JobCompleted: self._completed,
            JobFailed: self._failed,
            PollReceived: self._received,
            PollFailed: lambda event: self._polls_failed(event.queue).inc(),
            HeartbeatExtended: lambda event: self._beat(event, "extended"),
            HeartbeatFailed: lambda event: self._beat(event, "failed"),
            ReceiptLost: lambda event: self._lost(event.queue).inc(),
            SettlementFlushed: lambda event: self._batches(event.action).observe(event.entries),
            SettlementFailed: lambda event: self._unsettled(event.queue, event.action).inc(),
            LimitReached: lambda event: self._limits(event.limit).inc(),
            **dict.fromkeys(_PAUSES, self._pause_changed),
            **dict.fromkeys(_BREAKERS, _BreakerGauges(make)),
            RecordsFailed: lambda event: self._records_failed(event.action).inc(),
            RecordsWritten: lambda event: self._records("written").inc(event.items),
            RecordsShed: lambda event: self._records("shed").inc(event.items),
            CancellationsFailed: lambda _event: self._records_failed("cancellations").inc(),
            ItemsSkipped: lambda event: self._skipped(event.kind).inc(event.items),
            HookFailed: lambda event: self._hooks(event.hook).inc(),
        }

    def __call__(self, event: Event) -> None:
        """Count an event."""
        if (count := self._count.get(type(event))) is not None:
            count(event)

    def watch(self, active: Active, budgets: Budgets) -> None:
        """Register the gauges of a worker, which are read on each scrape."""
        self.registry.register(_Now(active, budgets))

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)

    def _started(self, event: JobStarted) -> None:
        if event.is_first:
            self._waits(str(event.priority)).observe(event.waited_s)

    def _completed(self, event: JobCompleted) -> None:
        self._ended(event)
        self._durations(event.job_type).observe(event.ran_s)
        self._attempts(event.job_type).observe(event.attempt)

    def _failed(self, event: JobFailed) -> None:
        self._ended(event)
        self._durations(event.job_type).observe(event.ran_s)

    def _ended(self, event: JobEvent) -> None:
        self._jobs(event.job_type, OUTCOMES[type(event)]).inc()

    def _received(self, event: PollReceived) -> None:
        self._receives(event.queue, "some" if event.messages else "empty").inc()
        if event.messages:
            self._messages(event.queue).inc(event.messages)

    def _pause_changed(self, event: PauseEvent) -> None:
        gauge = self._paused(event.kind, event.target, event.priority or "all")
        gauge.set(_PAUSES[type(event)])

    def _beat(self, event: HeartbeatExtended | HeartbeatFailed, result: str) -> None:
        self._heartbeats(event.queue, result).inc(event.messages)


class _BreakerGauges:
    """The states of breakers; of those with a key, the number of keys that are not closed."""

    def __init__(self, make: _Maker) -> None:
        self._states = make.gauge("headgate_breaker_state", "0 closed, 1 probing, 2 open", "limit")
        self._keys_open = make.gauge(
            "headgate_breaker_keys_open", "Keys whose breaker is not closed", "limit"
        )
        self._open: dict[str, set[str]] = {}
        """By breaker with a key, its keys that are not closed."""

    def __call__(self, event: BreakerEvent) -> None:
        """Show the state that a breaker has entered."""
        if event.key is None:
            self._states(event.limit).set(_BREAKERS[type(event)])
            return
        keys = self._open.setdefault(event.limit, set())
        if isinstance(event, BreakerClosed):
            keys.discard(event.key)
        else:
            keys.add(event.key)
        self._keys_open(event.limit).set(len(keys))


class _Maker:
    """Makes metrics with cached labelled children, since they are on the jobs' hot path."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, about: str, *labels: str) -> Callable[..., Counter]:
        return cache(Counter(name, about, labels, registry=self._registry).labels)

    def gauge(self, name: str, about: str, *labels: str) -> Callable[..., Gauge]:
        return cache(Gauge(name, about, labels, registry=self._registry).labels)

    def histogram(
        self, name: str, about: str, buckets: Iterable[float], *labels: str
    ) -> Callable[..., Histogram]:
        made = Histogram(name, about, labels, registry=self._registry, buckets=tuple(buckets))
        return cache(made.labels)


class _Now(Collector):
    """The gauges of the present state, read only on a scrape."""

    def __init__(self, active: Active, budgets: Budgets) -> None:
        self._active = active
        self._budgets = budgets

    def collect(self) -> Iterator[Metric]:
        active = GaugeMetricFamily(
            "headgate_jobs_active", "Handlers that run", labels=("type", "queue")
        )
        for labels, count in Tally(self._active()).items():
            active.add_metric(labels, count)
        yield active
        left = GaugeMetricFamily("headgate_budget_left", "Retries left", labels=("limit",))
        for limit, retries in self._budgets().items():
            left.add_metric((limit,), retries)
        yield left
