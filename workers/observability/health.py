"""A worker's health: its recent and lasting failures, and one verdict on them.

``healthy``: nothing fails. ``degraded``: something fails, and the worker continues as best it can.
``unhealthy``: it can receive no work. Neither calls for a restart, which neither ends an outage nor
creates a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from enum import StrEnum

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import (
    BreakerClosed,
    BreakerOpened,
    ClaimFailed,
    Event,
    HeartbeatExtended,
    HeartbeatFailed,
    LeaseFailed,
    LoopBlocked,
    PauseEvent,
    QueuePaused,
    QueueResumed,
    ReceiptLost,
    RecordsFailed,
    RecordsWritten,
    SettlementFailed,
    SettlementFlushed,
)
from headgate.jobs.errors import QueuesMissing
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass
from headgate.workers.receiving.queue_watch import QueueState, QueueWatch

UNHEALTHY_AFTER_S = 60.0
"""Time without any answer after which a worker all of whose queues fail is unhealthy."""

_LATELY_S = 60.0
"""Time for which a failure is remembered."""


_CHECKS: Mapping[type[Event], str] = {
    HeartbeatExtended: "heartbeat",
    HeartbeatFailed: "heartbeat",
    SettlementFlushed: "settlement",
    SettlementFailed: "settlement",
    RecordsFailed: "records",
    RecordsWritten: "records",
    ClaimFailed: "claims",
    LeaseFailed: "limits",
    ReceiptLost: "receipts",
}


class Status(StrEnum):
    """The verdict on a worker's health, from best to worst."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """The result of one check."""

    name: str
    status: Status
    detail: str = ""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The verdict, and the checks that it is based on."""

    checks: tuple[HealthCheck, ...]

    @property
    def status(self) -> Status:
        """The status of the worst check."""
        order = list(Status)
        return max((check.status for check in self.checks), key=order.index)


class Health:
    """A subscriber that tracks the events that affect a worker's health.

    Args:
        queues: the physical names of the queues that the worker receives from.
        clock: tells the time.
        held_back: returns True while the worker receives nothing because there is no room. A lack
            of answers is no fault then; before the first receive it means that other workers hold
            all of a fleet limit.
        faults: returns the worker's lasting faults by check. Each is an event only once, and would
            be forgotten while it lasts.
    """

    def __init__(
        self,
        queues: Iterable[str],
        *,
        clock: Clock,
        held_back: Callable[[], bool] = lambda: False,
        faults: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._clock = clock
        self._held_back = held_back
        self._faults = faults
        self._started_at = clock.monotonic()
        self._queues = QueueWatch(queues, clock=clock)
        self._lately: dict[str, tuple[float, str]] = {}
        """By check, the time and the error of its latest failure."""
        self._open: set[str] = set()
        self._paused: dict[tuple[str, str, str | None], QueuePaused] = {}
        """By what is paused, the latest event of its pause."""

    def __call__(self, event: Event) -> None:
        """Track an event."""
        self._queues(event)
        match event:
            case (
                HeartbeatFailed()
                | SettlementFailed()
                | RecordsFailed()
                | ClaimFailed()
                | LeaseFailed()
                | ReceiptLost()
            ):
                self._lately[_CHECKS[type(event)]] = (self._clock.monotonic(), event.error)
            case LoopBlocked(blocked_s=blocked_s, job_types=types):
                detail = f"blocked for {blocked_s:.1f} s by {', '.join(types)}"
                self._lately["event loop"] = (self._clock.monotonic(), detail)
            case HeartbeatExtended() | SettlementFlushed() | RecordsWritten():
                self._lately.pop(_CHECKS[type(event)], None)
            case BreakerOpened(limit=limit, key=None):
                self._open.add(limit)
            case BreakerClosed(limit=limit, key=None):
                self._open.discard(limit)
            case QueuePaused():
                self._paused[_paused_by(event)] = event
            case QueueResumed():
                self._paused.pop(_paused_by(event), None)
            case _:
                pass

    @property
    def has_started(self) -> bool:
        """True once the worker is known to be set up: a receive succeeded, or none is possible."""
        return self._queues.has_received or self._held_back()

    @property
    def can_receive(self) -> bool:
        """True while jobs can come: a queue has answered, and not all have failed for long."""
        usable = self._queues.is_usable if self._queues.has_received else self._held_back()
        return usable and self._check_sqs().status is not Status.UNHEALTHY

    def assess(self) -> Assessment:
        """Return the verdict on the present state."""
        now = self._clock.monotonic()
        queues = [_check_queue(name, state, now) for name, state in self._queues.states.items()]
        lately = dict.fromkeys((*_CHECKS.values(), "event loop"))
        lasting = self._faults()
        others = [self._check_failures(name, now, lasting.get(name, "")) for name in lately]
        states = (self._check_breakers(), self._check_pauses())
        return Assessment(checks=(self._check_sqs(), *queues, *others, *states))

    def _check_sqs(self) -> HealthCheck:
        """Check that SQS answers; receiving nothing because all slots are taken is no fault."""
        if self._queues.none_exists:
            detail = str(QueuesMissing(self._queues.missing))
            return HealthCheck(name="sqs", status=Status.UNHEALTHY, detail=detail)
        states = self._queues.states.values()
        answers = [state.answered_at for state in states if state.answered_at is not None]
        silent_s = self._clock.monotonic() - max(answers, default=self._started_at)
        fails = all(state.error for state in states) and silent_s > UNHEALTHY_AFTER_S
        fails = fails and not self._held_back()
        return HealthCheck(
            name="sqs",
            status=Status.UNHEALTHY if fails else Status.HEALTHY,
            detail=f"the last answer came {silent_s:.0f} s ago" if answers else "no answer yet",
        )

    def _check_failures(self, name: str, now: float, lasting: str) -> HealthCheck:
        failed_at, error = self._lately.get(name, (float("-inf"), ""))
        if lasting or now - failed_at <= _LATELY_S:
            return HealthCheck(name=name, status=Status.DEGRADED, detail=lasting or error)
        return HealthCheck(name=name, status=Status.HEALTHY)

    def _check_breakers(self) -> HealthCheck:
        if not self._open:
            return HealthCheck(name="breakers", status=Status.HEALTHY)
        detail = f"open: {', '.join(sorted(self._open))}"
        return HealthCheck(name="breakers", status=Status.DEGRADED, detail=detail)

    def _check_pauses(self) -> HealthCheck:
        """Show what is paused, which somebody wants, and so is no fault."""
        detail = "; ".join(_told(pause) for pause in self._paused.values())
        return HealthCheck(name="pauses", status=Status.HEALTHY, detail=detail)


def _paused_by(event: PauseEvent) -> tuple[str, str, str | None]:
    return event.kind, event.target, event.priority


def _told(pause: QueuePaused) -> str:
    lane = f" ({pause.priority})" if pause.priority else ""
    until = pause.until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    why = f": {pause.reason}" if pause.reason else ""
    return f"{pause.kind} {pause.target}{lane} until {until}{why}"


def _check_queue(name: str, state: QueueState, now: float) -> HealthCheck:
    if not state.error:
        return HealthCheck(name=f"queue {name}", status=Status.HEALTHY)
    answered_at = state.answered_at
    last = "none yet" if answered_at is None else f"{now - answered_at:.0f} s ago"
    detail = f"{state.error} (last answer {last})"
    return HealthCheck(name=f"queue {name}", status=Status.DEGRADED, detail=detail)
