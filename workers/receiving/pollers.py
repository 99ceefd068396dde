"""The pollers of all queues, and the order in which they get room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from headgate.jobs.core.topology import Priority
from headgate.workers.receiving.demand import Demand
from headgate.workers.receiving.poller import Poller


class Pollers:
    """The pollers of all queues, which share one demand.

    Higher priorities come first; within one priority the poller that took room last comes last.

    Args:
        pollers: the pollers, in the order of their priority.
        demand: the demand that they share.
    """

    def __init__(self, pollers: Iterable[Poller], demand: Demand) -> None:
        self._demand = demand
        self._by_priority: dict[Priority, dict[Poller, None]] = {}
        for poller in pollers:
            self._by_priority.setdefault(poller.queue.priority, {})[poller] = None

    def __iter__(self) -> Iterator[Poller]:
        return chain.from_iterable(self._by_priority.values())

    def stop(self) -> None:
        """Start no more receives."""
        for poller in self:
            poller.stop()

    def notice(self) -> None:
        """Let the pollers receive for which a changed demand has room."""
        if not self._demand.is_open:
            return
        for priority, pollers in self._by_priority.items():
            self._notice(priority, pollers)

    def _notice(self, priority: Priority, pollers: dict[Poller, None]) -> None:
        has_room = self._demand.has_room(priority)
        for poller in [poller for poller in pollers if poller.is_eager]:
            if not has_room and not self._demand.is_owed(poller.queue):
                continue
            if poller.notice():
                pollers[poller] = pollers.pop(poller)
                has_room = self._demand.has_room(priority)
