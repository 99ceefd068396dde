"""Time series recorded in a simulated hour, by the second and by the minute."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from headgate import Priority
from headgate.jobs.core.events import (
    BreakerClosed,
    BreakerOpened,
    Event,
    JobCompleted,
    JobDeadLettered,
    JobRetryScheduled,
    JobStarted,
    PollReceived,
)


@dataclass(slots=True)
class Series:
    """A subscriber that counts."""

    began: datetime
    starts: dict[Priority, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """Number of starts, by priority and minute."""
    waits: dict[Priority, dict[int, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """Seconds from a job's due time to its first start, by priority and minute of the start."""
    retries: Counter[int] = field(default_factory=Counter)
    """Number of retries begun, by second."""
    receives: Counter[int] = field(default_factory=Counter)
    """Number of receives, by minute."""
    completed: int = 0
    dead: int = 0
    breaker_open_s: list[tuple[float, float]] = field(default_factory=list)
    _awaited: int | None = None
    _all_ended: asyncio.Event = field(default_factory=asyncio.Event)
    _opened_at: dict[str, float] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        """Record an event; a subscriber."""
        at_s = (event.at - self.began).total_seconds()
        match event:
            case JobStarted():
                self._started(event, at_s)
            case JobCompleted():
                self.completed += 1
                self._look()
            case JobRetryScheduled(delay_s=delay_s):
                self.retries[int(at_s + delay_s)] += 1
            case JobDeadLettered():
                self.dead += 1
                self._look()
            case PollReceived():
                self.receives[int(at_s // 60)] += 1
            case BreakerOpened(limit=limit):
                self._opened_at[limit] = at_s
            case BreakerClosed(limit=limit) if limit in self._opened_at:
                self.breaker_open_s.append((self._opened_at.pop(limit), at_s))
            case _:
                pass

    async def ended(self, count: int) -> None:
        """Return once that many jobs have ended."""
        self._awaited = count
        self._look()
        await self._all_ended.wait()

    def _look(self) -> None:
        if self._awaited is not None and self.completed + self.dead >= self._awaited:
            self._all_ended.set()

    def _started(self, event: JobStarted, at_s: float) -> None:
        minute = int(at_s // 60)
        self.starts[event.priority][minute] += 1
        if event.is_first:
            self.waits[event.priority][minute].append(event.waited_s)
