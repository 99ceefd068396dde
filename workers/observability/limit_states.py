"""The limits and breakers that let no job start now, as their events tell."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.jobs.core.events import (
    BreakerClosed,
    BreakerEvent,
    BreakerOpened,
    BreakerProbing,
    Event,
    LimitCleared,
    LimitEvent,
    LimitReached,
    any_of,
)
from headgate.jobs.records.fleet.worker_status import LimitState

_STATES: Mapping[type[LimitEvent], LimitState | None] = {
    LimitReached: LimitState.HOLDING,
    LimitCleared: None,
    BreakerOpened: LimitState.OPEN,
    BreakerProbing: LimitState.PROBING,
    BreakerClosed: None,
}
"""By event, the state that it begins; None ends one."""

_ORDER = (LimitState.OPEN, LimitState.PROBING, LimitState.HOLDING)


class LimitStates:
    """A subscriber that keeps the state of each limit that holds jobs back.

    Of a breaker that counts by key, each key has a state; the breaker has the first of these.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None], LimitState] = {}

    wants = staticmethod(any_of(*_STATES))

    def __call__(self, event: Event) -> None:
        """Track an event."""
        if not isinstance(event, LimitEvent) or type(event) not in _STATES:
            return
        place = (event.limit, event.key if isinstance(event, BreakerEvent) else None)
        if (state := _STATES[type(event)]) is None:
            self._known.pop(place, None)
        else:
            self._known[place] = state

    @property
    def now(self) -> Mapping[str, LimitState]:
        """The states by the limits' names, open breakers first."""
        states: dict[str, LimitState] = {}
        for wanted in _ORDER:
            of_it = {limit for (limit, _), state in self._known.items() if state is wanted}
            for limit in sorted(of_it):
                states.setdefault(limit, wanted)
        return states
