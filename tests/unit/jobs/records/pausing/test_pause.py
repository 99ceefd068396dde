"""The items of pauses, and how long a paused message stays away."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import App, Pause, Priority
from headgate.jobs.core.events import Event, Events, QueuePaused, QueueResumed
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.records.cancellation import CANCELLATIONS
from headgate.jobs.records.pausing.pause import (
    MOST_PAUSES,
    PauseTarget,
    pause_item,
    read_pauses,
)
from headgate.jobs.records.pausing.paused import Paused
from headgate.jobs.testing import VirtualClock

NOW = datetime(2026, 1, 2, tzinfo=UTC)
QUEUE = PauseTarget(kind="queue", name="mail")
LOW = PauseTarget(kind="queue", name="mail", priority=Priority.LOW)
TYPE = PauseTarget(kind="type", name="send")
TENANT = PauseTarget(kind="tenant", name="acme#high")


def pause(target: PauseTarget = QUEUE, *, lasts: timedelta = timedelta(hours=1)) -> Pause:
    return Pause(target=target, at=NOW, until=NOW + lasts, reason="why", actor="ada")


def spec(priority: Priority = Priority.LOW) -> QueueSpec:
    app = App("shop")
    app.queue("mail", priorities=[Priority.HIGH, Priority.LOW])
    return app.topology.queue("mail", priority)


@pytest.mark.parametrize("target", [QUEUE, LOW, TYPE, TENANT], ids=str)
def test_a_pause_is_read_as_it_was_written(target: PauseTarget) -> None:
    item = pause_item(pause(target))
    assert read_pauses([item]) == ([pause(target)], 0)
    assert (item.pk, item.expires_at) == (CANCELLATIONS, NOW + timedelta(hours=1))
    assert item.sk < "0", "it comes before the ids of jobs"


@pytest.mark.parametrize(
    "change",
    [
        {"at": "yesterday"},
        {"until": "2026-01-02T00:00:00"},
        {"until": None},
        {"reason": 5},
        {"reason": "x" * 301},
        {"actor": None},
        {"actor": "x" * 101},
        {"kind": "app"},
        {"kind": ["queue"]},
        {"name": ""},
        {"name": "x" * 129},
        {"name": "other"},
        {"priority": "urgent"},
        {"priority": "low"},
        {"kind": "type", "priority": "low"},
    ],
    ids=str,
)
def test_a_strange_pause_pauses_nothing_and_is_counted(change: dict[str, Any]) -> None:
    item = pause_item(pause())
    strange = replace(item, data={**item.data, **change})
    assert read_pauses([strange, pause_item(pause(TYPE))]) == ([pause(TYPE)], 1)


def test_no_more_pauses_are_known_than_there_may_be() -> None:
    targets = [PauseTarget(kind="tenant", name=str(n)) for n in range(MOST_PAUSES + 3)]
    found, strange = read_pauses([pause_item(pause(target)) for target in targets])
    assert (len(found), strange) == (MOST_PAUSES, 3)


def test_cancellations_are_no_pauses() -> None:
    assert read_pauses([Item(pk=CANCELLATIONS, sk="0" * 32, data={"reason": ""})]) == ([], 0)


@pytest.mark.parametrize(
    ("target", "covered"),
    [
        (QUEUE, True),
        (LOW, True),
        (replace(LOW, priority=Priority.HIGH), False),
        (PauseTarget(kind="queue", name="jobs"), False),
        (TYPE, True),
        (PauseTarget(kind="type", name="acme"), False),
        (PauseTarget(kind="tenant", name="acme"), True),
        (PauseTarget(kind="tenant", name="send"), False),
    ],
    ids=str,
)
def test_a_pause_covers_what_it_names_and_nothing_else(target: PauseTarget, covered: bool) -> None:
    assert pause(target).covers(spec(), "send", "acme") is covered


def test_a_message_stays_away_for_a_tenth_of_the_pause_but_not_beyond_its_end() -> None:
    long = pause(lasts=timedelta(days=3))
    seconds = (0, 20, 100, 3_600, 36_000, 200_000, 3 * 86_400 - 7)
    away = [long.away_s(NOW + timedelta(seconds=after)) for after in seconds]
    assert away == [5.0, 5.0, 10.0, 360.0, 3_600.0, 3_600.0, 7.0]
    assert long.away_s(NOW - timedelta(minutes=5)) == 5.0  # by a clock that is slow


def test_a_message_stays_away_for_longer_with_each_return_but_not_longer_than_the_pause() -> None:
    long = pause(lasts=timedelta(days=3))
    after_five_minutes = NOW + timedelta(seconds=300)
    away = [long.away_s(after_five_minutes, returns) for returns in (0, 1, 2, 3, 4, 2_000)]
    assert away == [30.0, 30.0, 30.0, 40.0, 60.0, 60.0]
    assert [long.away_s(NOW + timedelta(seconds=s), 9) for s in (0, 7, 50)] == [5.0, 7.0, 50.0]
    assert long.away_s(NOW + timedelta(hours=1), 9) == 360.0
    assert long.away_s(long.until - timedelta(seconds=7), 9) == 7.0


def test_the_longest_pause_uses_up_no_message() -> None:
    long = pause(lasts=timedelta(days=14) * 0.75)
    receives, now = 0, NOW
    while not long.is_over(now):
        now += timedelta(seconds=long.away_s(now, receives))
        receives += 1
    assert receives < spec().worn_at / 2


# --- what a worker knows -------------------------------------------------------------------------


def knowing(*pauses: Pause) -> tuple[Paused, VirtualClock, list[Event]]:
    clock, told = VirtualClock(start=NOW), list[Event]()
    paused = Paused(clock=clock, events=Events(told.append))
    paused.read([pause_item(each) for each in pauses])
    return paused, clock, told


def test_a_queue_stops_with_its_own_pause_or_with_those_of_all_its_types() -> None:
    assert knowing(pause(LOW))[0].stops(spec(), {"send"})
    assert not knowing(pause(LOW))[0].stops(spec(Priority.HIGH), {"send"})
    assert knowing(pause(TYPE))[0].stops(spec(), {"send"})
    assert not knowing(pause(TYPE))[0].stops(spec(), {"send", "other"})
    assert not knowing(pause(TYPE))[0].stops(spec(), set())
    assert not knowing(pause(TENANT))[0].stops(spec(), {"send"})


def test_a_pause_that_is_over_by_this_clock_is_none() -> None:
    paused, clock, told = knowing(pause())
    assert paused.of(spec(), None, None) == pause()
    clock.advance(3_600)
    assert paused.of(spec(), None, None) is None
    assert not paused.stops(spec(), {"send"})
    paused.read([pause_item(pause())])  # the table deletes late
    assert [type(event) for event in told] == [QueuePaused, QueueResumed]
    assert not paused.any


def test_of_several_pauses_the_longest_counts() -> None:
    longer = pause(TYPE, lasts=timedelta(hours=2))
    assert knowing(pause(), longer)[0].of(spec(), "send", None) == longer


def test_a_pause_is_told_once_and_again_when_it_changes() -> None:
    paused, _, told = knowing(pause())
    assert paused.read([pause_item(pause())]) == (False, 0)
    longer = pause(lasts=timedelta(hours=2))
    assert paused.read([pause_item(longer)]) == (True, 0)
    assert paused.read([]) == (False, 0)
    assert [type(event) for event in told] == [QueuePaused, QueuePaused, QueueResumed]
