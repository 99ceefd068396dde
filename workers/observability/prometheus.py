"""Metrics for Prometheus, counted from events.

    headgate_jobs_started_total{type,queue}         starts of handlers
    headgate_jobs_total{type,outcome}               attempts by outcome
    headgate_jobs_active{type,queue}                handlers that run now
    headgate_queue_jobs{queue,priority,state}       jobs: ``waiting``, ``in_flight``, ``dead``, …
    headgate_quarantined_jobs                       jobs in quarantine
    headgate_worker_info{version,app_version}       1: this worker process
    headgate_worker_slots                           jobs that it can run at once
    headgate_messages_unrunnable_total{queue,type,reason}
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
    headgate_paused{kind,target,priority}           1 while a queue or a type is paused
    headgate_tenants_paused                         tenants that are paused
    headgate_breaker_state{limit}                   0 closed, 1 probing, 2 open
    headgate_breaker_keys_open{limit}               keys whose breaker is not closed
    headgate_budget_left{limit}                     retries that still fit into a budget
    headgate_records_failed_total{action}
    headgate_records_total{became}                  records: ``written`` or ``shed``
    headgate_items_skipped_total{kind}              strange items of the table that were left out
    headgate_hooks_failed_total{hook}

Labels are the app's job types, queues and limits, and Headgate's own words; never ids or tenants.
Names that a message or a person has made up become ``unknown`` (`workers.observability.labels`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
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
    MessageUnrunnable,
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
from headgate.jobs.definitions.app import App
from headgate.workers.observability.labels import Labels

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


class Metrics:
    """A subscriber that counts events in its own registry.

    Args:
        app: the app whose names may be labels.
    """

    def __init__(self, app: App) -> None:
        self.registry = CollectorRegistry()
        make, labels = _Maker(self.registry), Labels(app)
        self._count: Mapping[type[Event], Callable[[Any], None]] = {
            **_JobMetrics(make).by_event(),
            **_QueueMetrics(make, labels).by_event(),
            **_table_metrics(make),
            **dict.fromkeys(_PAUSES, _PauseGauges(make, labels)),
            **dict.fromkeys(_BREAKERS, _BreakerGauges(make)),
        }

    def __call__(self, event: Event) -> None:
        """Count an event."""
        if (count := self._count.get(type(event))) is not None:
            count(event)

    def watch(self, gauges: Collector) -> None:
        """Register the gauges of a worker, which are read on each scrape."""
        self.registry.register(gauges)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)


class _JobMetrics:
    """Starts, ends and durations of jobs, and the limits that hold them back."""

    def __init__(self, make: _Maker) -> None:
        self._starts = make.counter("headgate_jobs_started", "Starts of handlers", "type", "queue")
        self._jobs = make.counter("headgate_jobs", "Attempts by outcome", "type", "outcome")
        self._durations = make.histogram(
            "headgate_job_duration_seconds", "Seconds that handlers ran", DURATIONS_S, "type"
        )
        self._attempts = make.histogram(
            "headgate_job_attempts", "The attempt at which jobs completed", _ATTEMPTS, "type"
        )
        self._waits = make.histogram(
            "headgate_job_wait_seconds", "Seconds from due to first start", _WAITS_S, "priority"
        )
        self._limits = make.counter(
            "headgate_limits_reached", "Times that a limit held jobs back", "limit"
        )

    def by_event(self) -> Mapping[type[Event], Callable[[Any], None]]:
        """Return what counts each event."""
        return {
            **dict.fromkeys(OUTCOMES, self._ended),
            JobStarted: self._started,
            JobCompleted: self._completed,
            JobFailed: self._failed,
            LimitReached: lambda event: self._limits(event.limit).inc(),
        }

    def _started(self, event: JobStarted) -> None:
        self._starts(event.job_type, event.queue).inc()
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


class _QueueMetrics:
    """Receives, heartbeats and settlements, and messages that are no job."""

    def __init__(self, make: _Maker, labels: Labels) -> None:
        self._labels = labels
        self._receives = make.counter("headgate_receives", "Receives", "queue", "result")
        self._messages = make.counter("headgate_messages_received", "Messages received", "queue")
        self._polls_failed = make.counter("headgate_polls_failed", "Failed receives", "queue")
        self._unrunnable = make.counter(
            "headgate_messages_unrunnable", "Messages that are no job", "queue", "type", "reason"
        )
        self._heartbeats = make.counter(
            "headgate_heartbeats", "Messages whose visibility was extended", "queue", "result"
        )
        self._lost = make.counter(
            "headgate_receipts_lost", "Deliveries that were lost while in work", "queue"
        )
        self._batches = make.histogram(
            "headgate_settlement_batch_size", "Entries of a request to settle", _BATCH, "action"
        )
        self._unsettled = make.counter(
            "headgate_settlements_failed", "Verdicts not carried out", "queue", "action"
        )

    def by_event(self) -> Mapping[type[Event], Callable[[Any], None]]:
        """Return what counts each event."""
        return {
            PollReceived: self._received,
            PollFailed: lambda event: self._polls_failed(event.queue).inc(),
            MessageUnrunnable: self._not_run,
            HeartbeatExtended: lambda event: self._beat(event, "extended"),
            HeartbeatFailed: lambda event: self._beat(event, "failed"),
            ReceiptLost: lambda event: self._lost(event.queue).inc(),
            SettlementFlushed: lambda event: self._batches(event.action).observe(event.entries),
            SettlementFailed: lambda event: self._unsettled(event.queue, event.action).inc(),
        }

    def _received(self, event: PollReceived) -> None:
        self._receives(event.queue, "some" if event.messages else "empty").inc()
        if event.messages:
            self._messages(event.queue).inc(event.messages)

    def _not_run(self, event: MessageUnrunnable) -> None:
        job_type = self._labels.job_type(event.job_type)
        self._unrunnable(event.queue, job_type, self._labels.reason(event.reason)).inc()

    def _beat(self, event: HeartbeatExtended | HeartbeatFailed, result: str) -> None:
        self._heartbeats(event.queue, result).inc(event.messages)


def _table_metrics(make: _Maker) -> Mapping[type[Event], Callable[[Any], None]]:
    """Make the metrics of the table and of hooks; return what counts each event."""
    failed = make.counter("headgate_records_failed", "Requests for records that failed", "action")
    records = make.counter("headgate_records", "Records written, or given up", "became")
    skipped = make.counter(
        "headgate_items_skipped", "Strange items of the table that were left out", "kind"
    )
    hooks = make.counter("headgate_hooks_failed", "Failed calls of hooks", "hook")
    return {
        RecordsFailed: lambda event: failed(event.action).inc(),
        RecordsWritten: lambda event: records("written").inc(event.items),
        RecordsShed: lambda event: records("shed").inc(event.items),
        CancellationsFailed: lambda _event: failed("cancellations").inc(),
        ItemsSkipped: lambda event: skipped(event.kind).inc(event.items),
        HookFailed: lambda event: hooks(event.hook).inc(),
    }


class _PauseGauges:
    """Pauses: queues and types by their names, tenants by their number."""

    def __init__(self, make: _Maker, labels: Labels) -> None:
        self._paused = make.gauge("headgate_paused", "1 while paused", "kind", "target", "priority")
        self._tenants_paused = make.total("headgate_tenants_paused", "Paused tenants")
        self._labels = labels
        self._tenants: set[str] = set()

    def __call__(self, event: PauseEvent) -> None:
        """Show what is paused after an event."""
        if event.kind == "tenant":
            change = self._tenants.add if isinstance(event, QueuePaused) else self._tenants.discard
            change(event.target)
            self._tenants_paused.set(len(self._tenants))
            return
        known = self._labels.queue if event.kind == "queue" else self._labels.job_type
        gauge = self._paused(event.kind, known(event.target), event.priority or "all")
        gauge.set(_PAUSES[type(event)])


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

    def total(self, name: str, about: str) -> Gauge:
        return Gauge(name, about, registry=self._registry)

    def histogram(
        self, name: str, about: str, buckets: Iterable[float], *labels: str
    ) -> Callable[..., Histogram]:
        made = Histogram(name, about, labels, registry=self._registry, buckets=tuple(buckets))
        return cache(made.labels)
