"""Whether a worker is fit: what it has lately heard of itself, and one verdict on that.

``healthy``: all is well. ``degraded``: something fails, and the worker does what it can; restarting
it would not help. ``unhealthy``: it does no work, and should be replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from jobs.clock import Clock
from jobs.events import (
    BreakerClosed,
    BreakerOpened,
    ClaimFailed,
    Event,
    HeartbeatExtended,
    HeartbeatFailed,
    LeaseFailed,
    LoopBlocked,
    PollFailed,
    PollReceived,
    RecordsFailed,
    RecordsWritten,
    SettlementFailed,
    SettlementFlushed,
)

UNHEALTHY_AFTER_S = 60.0
"""When no queue has answered for so long, the worker is of no use."""

_LATELY_S = 60.0
"""How long a failure is remembered."""


_CHECKS: Mapping[type[Event], str] = {
    HeartbeatExtended: "heartbeat",
    HeartbeatFailed: "heartbeat",
    SettlementFlushed: "settlement",
    SettlementFailed: "settlement",
    RecordsFailed: "records",
    RecordsWritten: "records",
    ClaimFailed: "claims",
    LeaseFailed: "limits",
}


class Status(StrEnum):
    """From best to worst."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The verdict, and what it rests on."""

    checks: tuple[Check, ...]

    @property
    def status(self) -> Status:
        """That of the worst check."""
        order = list(Status)
        return max((check.status for check in self.checks), key=order.index)


@dataclass(slots=True)
class _Queue:
    answered_at: float
    error: str = ""
    """Of its latest receive; empty if that succeeded."""


class Health:
    """A subscriber that remembers what bears on a worker's health.

    Args:
        queues: the physical names of the queues that the worker receives from.
        clock: tells the time.
    """

    def __init__(self, queues: Iterable[str], *, clock: Clock) -> None:
        self._clock = clock
        started = clock.monotonic()
        self._queues = {name: _Queue(started) for name in queues}
        self._lately: dict[str, tuple[float, str]] = {}
        """By check, when it last failed and with what."""
        self._open: set[str] = set()

    def __call__(self, event: Event) -> None:
        """Subscriber."""
        match event:
            case PollReceived(queue=queue) if queue in self._queues:
                self._queues[queue] = _Queue(self._clock.monotonic())
            case PollFailed(queue=queue, error=error) if queue in self._queues:
                self._queues[queue].error = error
            case (
                HeartbeatFailed()
                | SettlementFailed()
                | RecordsFailed()
                | ClaimFailed()
                | LeaseFailed()
            ):
                self._lately[_CHECKS[type(event)]] = (self._clock.monotonic(), event.error)
            case LoopBlocked(blocked_s=blocked_s, job_types=types):
                detail = f"blocked for {blocked_s:.1f} s by {', '.join(types)}"
                self._lately["event loop"] = (self._clock.monotonic(), detail)
            case HeartbeatExtended() | SettlementFlushed() | RecordsWritten():
                self._lately.pop(_CHECKS[type(event)], None)
            case BreakerOpened(limit=limit):
                self._open.add(limit)
            case BreakerClosed(limit=limit):
                self._open.discard(limit)
            case _:
                pass

    def assess(self) -> Assessment:
        """Judge what is known now."""
        now = self._clock.monotonic()
        checks = [self._check_queue(name, queue, now) for name, queue in self._queues.items()]
        answered_at = max((queue.answered_at for queue in self._queues.values()), default=now)
        silent_s = now - answered_at
        sqs = Check(
            name="sqs",
            status=Status.UNHEALTHY if silent_s > UNHEALTHY_AFTER_S else Status.HEALTHY,
            detail=f"the last answer came {silent_s:.0f} s ago",
        )
        lately = dict.fromkeys((*_CHECKS.values(), "event loop"))
        others = [self._check_lately(name, now) for name in lately]
        return Assessment(checks=(sqs, *checks, *others, self._check_breakers()))

    def _check_queue(self, name: str, queue: _Queue, now: float) -> Check:
        if queue.error:
            detail = f"{queue.error} (last answer {now - queue.answered_at:.0f} s ago)"
            return Check(name=f"queue {name}", status=Status.DEGRADED, detail=detail)
        return Check(name=f"queue {name}", status=Status.HEALTHY)

    def _check_lately(self, name: str, now: float) -> Check:
        failed_at, error = self._lately.get(name, (float("-inf"), ""))
        if now - failed_at > _LATELY_S:
            return Check(name=name, status=Status.HEALTHY)
        return Check(name=name, status=Status.DEGRADED, detail=error)

    def _check_breakers(self) -> Check:
        if not self._open:
            return Check(name="breakers", status=Status.HEALTHY)
        detail = f"open: {', '.join(sorted(self._open))}"
        return Check(name="breakers", status=Status.DEGRADED, detail=detail)
