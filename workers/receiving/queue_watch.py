"""The state of each queue that a worker receives from, and the end of a worker without any."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Event, PollFailed, PollReceived, any_of
from headgate.jobs.errors import QueuesMissing
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.worker")

_LATELY_S = 60.0
"""Maximum age of the answers that queues are missing for which a worker ends. Polls that fail pause
for at most half a minute."""


@dataclass(slots=True)
class QueueState:
    """One queue, as its receives show it."""

    answered_at: float | None = None
    """Monotonic time of the last receive that succeeded; None before the first."""
    error: str = ""
    """Error of the latest receive; empty if that succeeded, or none has ended yet."""
    missing: bool = False
    """True if SQS has answered that the queue doesn't exist; other failures leave it unchanged."""
    missed_at: float = 0.0
    """Monotonic time of the latest such answer."""


class QueueWatch:
    """A subscriber that tracks the state of each queue.

    Args:
        queues: the physical names of the queues.
        clock: tells the time.
    """

    def __init__(self, queues: Iterable[str], *, clock: Clock) -> None:
        self._clock = clock
        self._states = {name: QueueState() for name in queues}
        self._missing = 0
        """Number of queues that don't exist."""
        self._none = asyncio.Event()
        """Set while none of the queues exists."""
        self._some = asyncio.Event()
        """Set while a queue exists, or may exist."""
        self._some.set()

    wants = staticmethod(any_of(PollReceived, PollFailed))

    def __call__(self, event: Event) -> None:
        """Track an event."""
        match event:
            case PollReceived(queue=queue) if queue in self._states:
                self._missing -= self._states[queue].missing
                self._states[queue] = QueueState(answered_at=self._clock.monotonic())
            case PollFailed(queue=queue) if queue in self._states:
                state = self._states[queue]
                state.error = event.error
                if event.missing:
                    self._missing += not state.missing
                    state.missing, state.missed_at = True, self._clock.monotonic()
            case _:
                return
        here, gone = (self._none, self._some) if self.none_exists else (self._some, self._none)
        here.set()
        gone.clear()

    @property
    def states(self) -> Mapping[str, QueueState]:
        """The states, by physical name."""
        return self._states

    @property
    def missing(self) -> tuple[str, ...]:
        """The queues that don't exist, by SQS's answers."""
        return tuple(name for name, state in self._states.items() if state.missing)

    @property
    def none_exists(self) -> bool:
        """True if SQS has answered that no queue exists."""
        return self._missing == len(self._states)

    @property
    def has_received(self) -> bool:
        """True once a receive has succeeded."""
        return any(state.answered_at is not None for state in self._states.values())

    @property
    def is_usable(self) -> bool:
        """True if a receive has succeeded on a queue that is not known to be missing since."""
        states = self._states.values()
        return any(state.answered_at is not None and not state.missing for state in states)

    async def none_for(self, grace_s: float) -> NoReturn:
        """Wait until none of the queues has existed for ``grace_s`` without interruption.

        SQS has to confirm it until the end: a single answer before an outage must not end the
        worker during it.

        Raises:
            QueuesMissing: none of the queues has existed for that long.
        """
        while True:
            await self._none.wait()
            missing = QueuesMissing(self.missing)
            _log.error("%s; stopping in %g s unless one of them appears", missing, grace_s)
            try:
                async with asyncio.timeout(grace_s):
                    await self._some.wait()
            except TimeoutError:
                if self._is_said_lately:
                    raise missing from None

    @property
    def _is_said_lately(self) -> bool:
        oldest = min((state.missed_at for state in self._states.values()), default=math.inf)
        return self._clock.monotonic() - oldest <= _LATELY_S
