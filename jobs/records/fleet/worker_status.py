"""The status of a worker: what it polls and runs, as it writes it into the table.

    pk  worker-status   sk  NAME   data  {at, started_at, state, versions, polls, slots, busy, ...}

A worker writes its status as it starts, as it begins to drain, and about every `EVERY_S` between;
it deletes it as it ends in order. Nothing is decided by it: which workers died is told by their
lives (`jobs.records.lives`), which other workers watch. A reader takes a worker for silent by its
status's time, so clocks that differ by more than `SILENT_AFTER_S` mislead it; AWS refuses requests
from a clock that is five minutes off.

An item takes one to four KB, however much a worker runs. It has no payloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.stored import mapping, moment, number, text, whole
from headgate.jobs.values.texts import legible

WORKER_STATUSES = "worker-status"
"""The partition that holds them."""

EVERY_S = 30.0
"""Approximate seconds between two writes."""

SILENT_AFTER_S = 3 * EVERY_S
"""Seconds after which a worker that has not written is taken for gone."""

MOST_RUNNING = 20
"""Maximum number of running jobs that a status names: those that have run for longest."""

MOST_LIMITS = 20
"""Maximum number of limits, and of pauses, that a status names."""

MOST_TENANTS = 20
"""Maximum number of tenants that a status names: those of which the worker holds most."""

MOST_FAILING = 20
"""Maximum number of queue groups of which a status counts the failed attempts."""

KEPT = timedelta(hours=1)
"""Time after which the status of a worker that was killed expires."""

LONGEST_VERSION = 100
"""Maximum number of characters of an app's version."""

_LONGEST = 128
"""Maximum number of characters of a name."""

_LONGEST_LIMIT = 256
_MOST_GROUPS = 1_000
_MOST_SLOTS = 10_000
_LONGEST_RUN_S = 366 * 86_400.0

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


class WorkerState(StrEnum):
    """The state of a worker that is alive."""

    WORKING = "working"
    DRAINING = "draining"
    """It receives nothing more, and ends once what it runs has ended."""


class LimitState(StrEnum):
    """The state of a limit that lets no job start."""

    HOLDING = "holding"
    """It is exhausted, and holds jobs back."""
    OPEN = "open"
    """A breaker that lets nothing run."""
    PROBING = "probing"
    """A breaker that lets a few jobs run, to see whether they succeed."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJob:
    """A job whose handler ran when its worker's status was written."""

    id: str
    type: str
    queue: str
    """The queue group that its message came from."""
    priority: Priority
    attempt: int
    started_at: datetime
    """The start of its handler, by the worker's clock; aware."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class TenantHeld:
    """The messages of one tenant, out of one fair queue, that a worker holds."""

    tenant: str
    """The MessageGroupId, by which SQS tells tenants apart."""
    queue: str
    """The queue group that they came from."""
    priority: Priority
    held: int
    """Number of messages, running or received and not started: what SQS counts as in flight."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker as it last described itself."""

    name: str
    """Its host, process id and a few random digits; the name in the records of its jobs."""
    state: WorkerState
    started_at: datetime
    seen_at: datetime
    """The time of this description, by the worker's clock; aware."""
    version: str
    """Headgate's version."""
    app_version: str
    """The app's version, from ``HEADGATE_APP_VERSION``; empty if that is not set."""
    polls: Mapping[str, Sequence[Priority]]
    """By queue group, the priorities that it receives from."""
    slots: int
    """Number of jobs that it can run at once."""
    busy: int
    """Number of slots in use."""
    waiting: int
    """Number of messages that it has received and not started."""
    running: Sequence[WorkerJob]
    """The jobs that run, longest first; 20 at most."""
    limits: Mapping[str, LimitState]
    """By name, as in ``rate:queue:payments``, the limits and breakers that let no job start, or
    only a few; 20 at most."""
    pauses: Sequence[str]
    """The pauses known to this worker; 20 at most."""
    tenants: Sequence[TenantHeld] = ()
    """The tenants of which it holds most messages, most first; 20 at most."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """By queue group, the attempts that have failed here since its start; 20 at most."""
    reserved: int = 0
    """Number of its slots that only critical jobs may take."""

    def polls_queue(self, queue: QueueSpec) -> bool:
        """Return True if it receives from a queue, unless it drains."""
        is_working = self.state is WorkerState.WORKING
        return is_working and queue.priority in self.polls.get(queue.group, ())

    def is_silent(self, now: datetime) -> bool:
        """Return True if it should have written since: it was killed, or can't reach the table."""
        return (now - self.seen_at).total_seconds() > SILENT_AFTER_S


def status_item(status: WorkerStatus) -> Item:
    """Return the item that holds a status."""
    at = status.seen_at
    data = {
        "at": at.isoformat(),
        "started_at": status.started_at.isoformat(),
        "state": status.state.value,
        "version": legible(status.version, LONGEST_VERSION),
        "app_version": legible(status.app_version, LONGEST_VERSION),
        "polls": {name: [each.value for each in lanes] for name, lanes in status.polls.items()},
        "slots": status.slots,
        "busy": status.busy,
        "waiting": status.waiting,
        "running": [_running_data(each, at) for each in status.running[:MOST_RUNNING]],
        "limits": dict(list(_limits_data(status.limits))[:MOST_LIMITS]),
        "pauses": [legible(each, _LONGEST_LIMIT) for each in status.pauses[:MOST_LIMITS]],
        "tenants": [_tenant_data(each) for each in status.tenants[:MOST_TENANTS]],
        "failed": dict(list(status.failed.items())[:MOST_FAILING]),
        "reserved": status.reserved,
    }
    return Item(pk=WORKER_STATUSES, sk=status.name, data=data, expires_at=at + KEPT)


def _running_data(job: WorkerJob, at: datetime) -> dict[str, Any]:
    return {
        "id": job.id,
        "type": job.type,
        "queue": job.queue,
        "priority": job.priority.value,
        "attempt": job.attempt,
        "for_s": round(max(0.0, (at - job.started_at).total_seconds()), 1),
    }


def _tenant_data(each: TenantHeld) -> dict[str, Any]:
    return {
        "tenant": legible(each.tenant, _LONGEST),
        "queue": each.queue,
        "priority": each.priority.value,
        "held": each.held,
    }


def _limits_data(limits: Mapping[str, LimitState]) -> Iterable[tuple[str, str]]:
    return ((legible(name, _LONGEST_LIMIT), state.value) for name, state in limits.items())


def read_status(item: Item) -> WorkerStatus | None:
    """Return the status that an item holds; None if this version can't read it."""
    try:
        return _status(item.sk, item.data)
    except _Strange:
        return None


class _Strange(Exception):
    """A field has a value that no worker writes."""


def _status(name: str, data: Mapping[str, Any]) -> WorkerStatus:
    """Return a status. During a deploy older workers write none of the fields that were added."""
    at = _needed(moment(data.get("at")))
    return WorkerStatus(
        name=_needed(text(name, _LONGEST)),
        state=_member(WorkerState, data.get("state")),
        started_at=_needed(moment(data.get("started_at"))),
        seen_at=at,
        version=_needed(text(data.get("version"), LONGEST_VERSION)),
        app_version=_needed(text(data.get("app_version"), LONGEST_VERSION)),
        polls=_polls(data.get("polls")),
        slots=_needed(whole(data.get("slots"), 1, _MOST_SLOTS)),
        busy=_needed(whole(data.get("busy"))),
        waiting=_needed(whole(data.get("waiting"))),
        running=[_running(each, at) for each in _listed(data.get("running"), MOST_RUNNING)],
        limits=_limits(data.get("limits")),
        pauses=[
            _needed(text(each, _LONGEST_LIMIT)) for each in _listed(data.get("pauses"), MOST_LIMITS)
        ],
        tenants=[_tenant(each) for each in _listed(data.get("tenants", []), MOST_TENANTS)],
        failed=_failed(data.get("failed", {})),
        reserved=_needed(whole(data.get("reserved", 0))),
    )


def _running(value: object, at: datetime) -> WorkerJob:
    data = _needed(mapping(value))
    ran_s = _needed(number(data.get("for_s"), most=_LONGEST_RUN_S))
    return WorkerJob(
        id=_needed(text(data.get("id"), _LONGEST)),
        type=_needed(text(data.get("type"), _LONGEST)),
        queue=_needed(text(data.get("queue"), _LONGEST)),
        priority=_member(Priority, data.get("priority")),
        attempt=_needed(whole(data.get("attempt"), 1)),
        started_at=at - timedelta(seconds=ran_s),
    )


def _tenant(value: object) -> TenantHeld:
    data = _needed(mapping(value))
    return TenantHeld(
        tenant=_needed(text(data.get("tenant"), _LONGEST)),
        queue=_needed(text(data.get("queue"), _LONGEST)),
        priority=_member(Priority, data.get("priority")),
        held=_needed(whole(data.get("held"), 1)),
    )


def _polls(value: object) -> Mapping[str, Sequence[Priority]]:
    found = _bounded(_needed(mapping(value)), _MOST_GROUPS)
    return {
        _needed(text(group, _LONGEST)): [
            _member(Priority, each) for each in _listed(lanes, len(Priority))
        ]
        for group, lanes in found.items()
    }


def _limits(value: object) -> Mapping[str, LimitState]:
    found = _bounded(_needed(mapping(value)), MOST_LIMITS)
    return {
        _needed(text(name, _LONGEST_LIMIT)): _member(LimitState, state)
        for name, state in found.items()
    }


def _failed(value: object) -> Mapping[str, int]:
    found = _bounded(_needed(mapping(value)), MOST_FAILING)
    return {_needed(text(name, _LONGEST)): _needed(whole(each, 1)) for name, each in found.items()}


def _listed(value: object, most: int) -> list[object]:
    if not isinstance(value, list) or len(value) > most:
        raise _Strange
    return value


def _bounded(found: Mapping[str, Any], most: int) -> Mapping[str, Any]:
    if len(found) > most:
        raise _Strange
    return found


def _member(kind: type[E], value: object) -> E:
    try:
        return kind(_needed(text(value, _LONGEST)))
    except ValueError as error:
        raise _Strange from error


def _needed(value: T | None) -> T:
    if value is None:
        raise _Strange
    return value
