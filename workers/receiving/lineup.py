"""The order in which pollers get room.

Higher priorities come first. Within one priority the poller that has waited longest comes first,
and a second receive from a queue comes after the first ones of all others: a few full batches cost
fewer requests than many small ones, but no queue waits for another's backlog to end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

from headgate.jobs.core.topology import QueueSpec
from headgate.workers.dispatch.shares import peers_of
from headgate.workers.receiving.demand import Demand


class QueueReceiver(Protocol):
    """A receiver of one queue's messages: a `workers.receiving.poller.Poller`."""

    queue: QueueSpec

    def take_room(self) -> bool:
        """Start to receive if there is room; return True if so."""
        ...

    def grow(self) -> bool:
        """Start one more receive concurrently if there is room; return True if so."""
        ...


@dataclass(slots=True)
class _Place:
    """The pollers of peers: queues of one priority with equal shares."""

    waiting: dict[QueueReceiver, None] = field(default_factory=dict)
    """Pollers that receive nothing, in the order in which they began to wait."""
    growing: dict[QueueReceiver, None] = field(default_factory=dict)
    """Pollers that could receive more concurrently, the least recently grown first."""


class Lineup:
    """The pollers of all queues that would receive more, given room.

    Args:
        queues: the queues.
        demand: has the room.
    """

    def __init__(self, queues: Iterable[QueueSpec], demand: Demand) -> None:
        self._demand = demand
        self._places = {peers: _Place() for peers in sorted(set(map(peers_of, queues)))}
        self._by_rank = [
            [self._places[peers] for peers in of_rank]
            for _, of_rank in groupby(self._places, key=lambda peers: peers[0])
        ]

    def wait(self, receiver: QueueReceiver) -> None:
        """Let a poller wait for room, behind its peers."""
        self._place(receiver).waiting[receiver] = None

    def leave(self, receiver: QueueReceiver) -> None:
        """Let a poller wait no more."""
        self._place(receiver).waiting.pop(receiver, None)

    def may_grow(self, receiver: QueueReceiver, *, may_grow: bool) -> None:
        """Note whether a poller could receive more concurrently."""
        growing = self._place(receiver).growing
        if may_grow:
            growing[receiver] = None
        else:
            growing.pop(receiver, None)

    def has_others(self, receiver: QueueReceiver) -> bool:
        """Return True if peers of a poller wait for room."""
        return bool(self._place(receiver).waiting)

    def notice(self) -> None:
        """Let the pollers receive for which a changed demand has room."""
        if not self._demand.is_open:
            return
        for places in self._by_rank:
            for place in places:
                self._serve(place.waiting, _take_room)
            for place in places:
                while self._serve(place.growing, _grow):
                    pass

    def _serve(
        self, receivers: dict[QueueReceiver, None], act: Callable[[QueueReceiver], bool]
    ) -> bool:
        """Let pollers act while there is room; those that have come last. Return True if any."""
        has_acted = has_room = False
        is_known = False  # if there is room: that changes only with what the pollers do
        for receiver in tuple(receivers):
            queue = receiver.queue
            if not is_known:
                has_room, is_known = self._demand.has_room(queue.priority), True
            if not (has_room or self._demand.is_owed(queue)):
                if self._demand.owes_alike(queue):
                    break
            elif act(receiver):
                has_acted, is_known = True, False
        return has_acted

    def _place(self, receiver: QueueReceiver) -> _Place:
        return self._places[peers_of(receiver.queue)]


def _take_room(receiver: QueueReceiver) -> bool:
    return receiver.take_room()


def _grow(receiver: QueueReceiver) -> bool:
    return receiver.grow()
