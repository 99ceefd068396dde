"""The pauses that a worker knows, and the messages that they concern."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, QueuePaused, QueueResumed
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.records.pausing.pause import Pause, PauseTarget, read_pauses


class Paused:
    """Keeps the known pauses; each ends by this process's own clock, whatever the table says.

    Args:
        clock: tells the time.
        events: receives an event when something is paused, and when it is resumed.
    """

    def __init__(self, *, clock: Clock, events: Events) -> None:
        self._clock = clock
        self._events = events
        self._known: Mapping[PauseTarget, Pause] = {}

    @property
    def any(self) -> bool:
        """True while pauses are known, of which some may have ended."""
        return bool(self._known)

    def of(self, queue: QueueSpec, job_type: str | None, tenant: str | None) -> Pause | None:
        """Return the pause of a job that lasts longest, or None; see `Pause.covers`."""
        covering = (each for each in self.now() if each.covers(queue, job_type, tenant))
        return max(covering, key=lambda each: each.until, default=None)

    def stops(self, queue: QueueSpec, types: AbstractSet[str]) -> bool:
        """Return True if nothing of a queue may start: it is paused, or all its types are."""
        if not self._known:
            return False
        now = list(self.now())
        if any(each.covers_queue(queue) for each in now):
            return True
        paused = {each.target.name for each in now if each.target.kind == "type"}
        return bool(types) and types <= paused

    def read(self, items: Iterable[Item]) -> tuple[bool, int]:
        """Replace the pauses by those among the items at the beginning of the partition.

        Returns:
            True if there are new ones; and the number of items that should be pauses and are none.
        """
        found, strange = read_pauses(items)
        now = self._clock.now()
        before = self._known
        self._known = {each.target: each for each in found if not each.is_over(now)}
        begun = [each for target, each in self._known.items() if before.get(target) != each]
        for pause in begun:
            self._events.emit(_paused(pause, self._clock))
        for target in before.keys() - self._known.keys():
            self._events.emit(_resumed(before[target], self._clock))
        return bool(begun), strange

    def now(self) -> Iterable[Pause]:
        """Return the pauses that last."""
        now = self._clock.now()
        return (each for each in self._known.values() if not each.is_over(now))


def _paused(pause: Pause, clock: Clock) -> QueuePaused:
    target = pause.target
    return QueuePaused(
        at=clock.now(),
        kind=target.kind,
        target=target.name,
        priority=target.priority,
        since=pause.at,
        until=pause.until,
        reason=pause.reason,
        actor=pause.actor,
    )


def _resumed(pause: Pause, clock: Clock) -> QueueResumed:
    target = pause.target
    return QueueResumed(
        at=clock.now(), kind=target.kind, target=target.name, priority=target.priority
    )
