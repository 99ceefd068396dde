"""The circuit breaker: a `Meter` of runs by how they end.

    closed    runs are counted; enough failures among them open it
    open      nothing runs; after ``open_for`` it is probing
    probing   up to ``probes`` jobs run: it closes when all of them succeed, and opens on a failure

Pure except for the events that it emits. Moments are in seconds on a monotonic clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import BreakerClosed, BreakerOpened, BreakerProbing, Event
from headgate.jobs.core.limits import Breaker
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.workers.limits.keys import named_key
from headgate.workers.limits.meters import GUESS_S, ONE, Ending, TokenCost

_PARTS = 10
"""Number of parts in which the window is counted; the oldest part is forgotten as a whole."""


class State(Enum):
    """The state of a breaker."""

    CLOSED = auto()
    OPEN = auto()
    PROBING = auto()


@dataclass(slots=True)
class _Part:
    began_at: float
    runs: int = 0
    failures: int = 0


@light_dataclass(frozen=True, slots=True)
class _Run:
    """A run that was let through, with the breaker's round at its start."""

    round: int


class Circuit:
    """A breaker with its state.

    Args:
        name: the limit's name in events, followed by ``#`` and the key if it has one.
        breaker: its settings.
        clock: tells the time.
        tell: called with an event when the breaker opens, probes or closes.
    """

    def __init__(
        self, name: str, breaker: Breaker, *, clock: Clock, tell: Callable[[Event], None]
    ) -> None:
        self._name, _, key = name.partition("#")
        self._key = named_key(breaker.key, key)
        self._breaker = breaker
        self._clock = clock
        self._tell = tell
        self._window_s = breaker.window.total_seconds()
        self._open_for_s = breaker.open_for.total_seconds()
        self._parts: deque[_Part] = deque()
        self._state = State.CLOSED
        self._open_until = float("-inf")
        self._round = 0
        """Number of state changes; runs that began before the latest one are not counted."""
        self._probing = 0
        self._succeeded = 0
        self._running = 0

    @property
    def places(self) -> int:
        """The number of probes that it lets run."""
        return self._breaker.probes

    def wait_s(self, now: float, cost: TokenCost = ONE) -> float:
        """Return the seconds until another job may start, as far as is known; 0 means now."""
        del cost
        match self._look(now):
            case State.CLOSED:
                return 0.0
            case State.OPEN:
                return self._open_until - now
            case State.PROBING:
                return 0.0 if self._probes_left else GUESS_S

    def ahead(self, now: float) -> float:
        """Return the number of jobs that may start now."""
        match self._look(now):
            case State.CLOSED:
                return float("inf")
            case State.OPEN:
                return 0
            case State.PROBING:
                return self._probes_left

    def start(self, now: float, cost: TokenCost = ONE) -> object:
        """Let a run through."""
        del cost
        self._running += 1
        if self._look(now) is State.PROBING:
            self._probing += 1
        return _Run(self._round)

    def end(self, taken: Any, ending: Ending, now: float) -> bool:
        """Count a run that has ended; return True if it was a probe."""
        self._running -= 1
        if taken.round != self._round:
            return False
        if self._state is State.PROBING:
            self._end_probe(ending, now)
            return True
        if self._state is State.CLOSED and ending is not Ending.NOTHING:
            self._count(ending, now)
        return False

    def in_use(self, now: float) -> int:
        """Return the number of runs."""
        del now
        return self._running

    def is_idle(self, now: float) -> bool:
        """Return True if it is closed, nothing runs, and its window is empty."""
        self._forget(now)
        return self._state is State.CLOSED and not self._running and not self._parts

    @property
    def _probes_left(self) -> int:
        return self._breaker.probes - self._probing - self._succeeded

    def _look(self, now: float) -> State:
        if self._state is State.OPEN and now >= self._open_until:
            self._enter(State.PROBING)
            self._tell(BreakerProbing(at=self._clock.now(), limit=self._name, key=self._key))
        return self._state

    def _end_probe(self, ending: Ending, now: float) -> None:
        self._probing -= 1
        if ending is Ending.FAILURE:
            self._open(now, failures=1, runs=self._succeeded + 1)
        elif ending is Ending.SUCCESS:
            self._succeeded += 1
            if self._succeeded >= self._breaker.probes:
                self._enter(State.CLOSED)
                self._tell(BreakerClosed(at=self._clock.now(), limit=self._name, key=self._key))

    def _count(self, ending: Ending, now: float) -> None:
        self._forget(now)
        if not self._parts or self._parts[-1].began_at + self._window_s / _PARTS <= now:
            self._parts.append(_Part(now))
        self._parts[-1].runs += 1
        if ending is Ending.FAILURE:
            self._parts[-1].failures += 1
            self._judge(now)

    def _forget(self, now: float) -> None:
        while self._parts and self._parts[0].began_at + self._window_s <= now:
            self._parts.popleft()

    def _judge(self, now: float) -> None:
        runs = sum(part.runs for part in self._parts)
        failures = sum(part.failures for part in self._parts)
        if runs >= self._breaker.min_runs and failures >= self._breaker.failure_ratio * runs:
            self._open(now, failures=failures, runs=runs)

    def _open(self, now: float, *, failures: int, runs: int) -> None:
        self._enter(State.OPEN)
        self._open_until = now + self._open_for_s
        self._tell(
            BreakerOpened(
                at=self._clock.now(),
                limit=self._name,
                key=self._key,
                failures=failures,
                runs=runs,
                open_for_s=self._open_for_s,
            )
        )

    def _enter(self, state: State) -> None:
        self._state = state
        self._round += 1
        self._parts.clear()
        self._probing = self._succeeded = 0
