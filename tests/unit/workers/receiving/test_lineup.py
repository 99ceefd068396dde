"""The order in which pollers get room: by priority, then by how long they have waited."""

from __future__ import annotations

from typing import cast

import pytest

from headgate import App
from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.workers.receiving.demand import Demand
from headgate.workers.receiving.lineup import Lineup

_APP = App("shop", priorities="all")
_APP.queue("mail")
_APP.queue("text")
_QUEUES = {(spec.group, spec.priority): spec for spec in _APP.topology.queues}


class Room:
    """A demand with room for some receives, of whichever queue comes first."""

    def __init__(self, receives: int) -> None:
        self.receives = receives
        self.is_open = True

    def has_room(self, _priority: Priority) -> bool:
        return self.receives > 0

    def is_owed(self, _queue: QueueSpec) -> bool:
        return False

    def owes_alike(self, _queue: QueueSpec) -> bool:
        return True


class Receiver:
    """A poller that takes room whenever there is any."""

    def __init__(self, queue: QueueSpec, room: Room, lineup: Lineup, log: list[str]) -> None:
        self.queue = queue
        self._room = room
        self._lineup = lineup
        self._log = log
        self.most = 2
        """Number of concurrent receives beside the first one."""

    def take_room(self) -> bool:
        self._lineup.leave(self)
        return self._take("")

    def grow(self) -> bool:
        self.most -= 1
        return self.most >= 0 and self._take("+")

    def _take(self, sign: str) -> bool:
        self._room.receives -= 1
        self._log.append(f"{self.queue.group}-{self.queue.priority}{sign}")
        return True


class Stage:
    """A lineup, and a receiver of each queue."""

    def __init__(self, receives: int) -> None:
        self.room = Room(receives)
        self.lineup = Lineup(_APP.topology.queues, cast("Demand", self.room))
        self.log: list[str] = []
        self.of = {
            key: Receiver(spec, self.room, self.lineup, self.log) for key, spec in _QUEUES.items()
        }


def test_the_lineup_is_by_priority_then_by_waiting_time() -> None:
    stage = Stage(4)
    for key in (
        ("mail", Priority.LOW),
        ("mail", Priority.HIGH),
        ("text", Priority.HIGH),
        ("text", Priority.CRITICAL),
        ("text", Priority.LOW),
    ):
        stage.lineup.wait(stage.of[key])
    stage.lineup.notice()
    assert stage.log == ["text-critical", "mail-high", "text-high", "mail-low"]
    stage.room.receives = 4
    stage.lineup.wait(stage.of["mail", Priority.LOW])
    stage.lineup.notice()
    assert stage.log[4:] == ["text-low", "mail-low"]


@pytest.mark.parametrize("receives", [1, 2, 4, 9])
def test_a_second_receive_from_a_queue_comes_after_the_first_ones_of_others(receives: int) -> None:
    stage = Stage(receives)
    mail, text = stage.of["mail", Priority.LOW], stage.of["text", Priority.LOW]
    for receiver in (mail, text):
        stage.lineup.may_grow(receiver, may_grow=True)
    stage.lineup.wait(text)
    stage.lineup.notice()
    expected = ["text-low", "mail-low+", "text-low+", "mail-low+", "text-low+"]
    assert stage.log == expected[:receives]


def test_while_no_more_may_be_held_nobody_receives() -> None:
    stage = Stage(4)
    stage.lineup.wait(stage.of["mail", Priority.CRITICAL])
    stage.room.is_open = False
    stage.lineup.notice()
    assert stage.log == []
