"""The holding time and absence of messages that can't start, and the next poll of their queue."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Priority
from headgate.workers.dispatch.patience import GoesBack, Patience, Stays, Waiter
from headgate.workers.limits.guards import Block
from headgate.workers.receiving.pace import Pace

GIVE_BACK_AFTER_S = 5.0
DAY_S = 86_400

FIRST = Waiter()
AGAIN = Waiter(receives=2, attempts=1)
ONE_AT_ONCE = Block("concurrency:app", retry_in_s=1, places=1)
LIMITED = Waiter(block=ONE_AT_ONCE, of_limit=1, of_queue=1)
COSTLY = replace(LIMITED, attempts=None)

STAYS, SURPLUS = Stays(), Stays(is_surplus=True)


class NoJitter(random.Random):
    """Spreads nothing."""

    def randint(self, a: int, b: int) -> int:
        """Return the least."""
        del b
        return a


def _patience(rng: random.Random | None = None) -> Patience:
    return Patience(GIVE_BACK_AFTER_S, rng=NoJitter() if rng is None else rng)


def _limited(
    waiter: Waiter = LIMITED,
    /,
    *,
    retry_in_s: float = 1,
    places: int = 1,
    startable_soon: float = 0,
) -> Waiter:
    return replace(waiter, block=Block("concurrency:app", retry_in_s, places, startable_soon))


# --- the table -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiter", "decision"),
    [
        # a worker that stops, or a message that it has lost, waits for nothing
        (replace(FIRST, is_stopping=True), GoesBack(0)),
        (replace(FIRST, is_stopping=True, due_in_s=90), GoesBack(0)),
        (replace(FIRST, is_lost=True), GoesBack(0)),
        (replace(FIRST, is_lost=True, is_behind=True), GoesBack(0)),
        # a job that is not due
        (replace(FIRST, due_in_s=89.1), GoesBack(90)),
        # behind others of a FIFO group, however long
        (replace(FIRST, is_behind=True, waited_s=DAY_S), STAYS),
        # for a slot
        (FIRST, STAYS),
        (replace(FIRST, waited_s=5), STAYS),
        (replace(FIRST, waited_s=5.1), GoesBack(0)),
        (replace(AGAIN, waited_s=60.1), GoesBack(0)),
        # for a limit, as many as have a place there
        (replace(LIMITED, waited_s=60), STAYS),
        (replace(LIMITED, waited_s=60.1), GoesBack(5)),
        (replace(LIMITED, of_limit=2, waited_s=60), STAYS),
        (_limited(replace(LIMITED, of_limit=24), places=24), STAYS),
        (_limited(replace(LIMITED, of_limit=252), startable_soon=50), STAYS),
        # too much for its limit
        (replace(LIMITED, of_limit=3), SURPLUS),
        (replace(LIMITED, of_limit=3, waited_s=2), SURPLUS),
        (replace(LIMITED, of_limit=3, waited_s=2.1), GoesBack(5)),
        (replace(LIMITED, of_limit=3, waited_s=2.1, receives=4), GoesBack(17)),
        (replace(LIMITED, of_limit=3, waited_s=DAY_S, receives=4), GoesBack(17)),
        (_limited(replace(LIMITED, of_limit=25), places=24), SURPLUS),
        (_limited(replace(LIMITED, of_limit=253), startable_soon=50), SURPLUS),
        (replace(COSTLY, of_limit=10), STAYS),
        (replace(COSTLY, of_limit=11), SURPLUS),
        # too much for its queue
        (replace(LIMITED, of_queue=200), STAYS),
        (replace(LIMITED, of_queue=201), GoesBack(5)),
        (replace(LIMITED, of_queue=201, receives=4), GoesBack(17)),
        (_limited(replace(LIMITED, of_queue=450, of_limit=250), startable_soon=50), STAYS),
        (_limited(replace(LIMITED, of_queue=451, of_limit=250), startable_soon=50), GoesBack(5)),
        # of many keys that let jobs start, as much as of one, each
        (replace(LIMITED, of_queue=220, limits=11), STAYS),
        (replace(LIMITED, of_queue=221, limits=11), GoesBack(5)),
        (replace(LIMITED, of_queue=401, limits=1000), GoesBack(5)),
        (_limited(replace(LIMITED, of_queue=320, limits=11), startable_soon=2), STAYS),
        (_limited(replace(LIMITED, of_queue=331, limits=11), startable_soon=2), GoesBack(5)),
        # a limit that lasts longer than the message would be held
        (_limited(retry_in_s=60), STAYS),
        (_limited(retry_in_s=61), GoesBack(61)),
        (_limited(replace(LIMITED, receives=5), retry_in_s=61), STAYS),
    ],
)
def test_what_becomes_of_a_message_that_can_not_start(
    waiter: Waiter, decision: Stays | GoesBack
) -> None:
    assert _patience().decide(waiter) == decision


# --- holding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiter", "held_s"),
    [
        (FIRST, 5),
        (AGAIN, 60),
        (replace(FIRST, is_known=False), 60),
        (replace(AGAIN, receives=5, attempts=0), 120),
        (replace(AGAIN, receives=90, attempts=9), 360),
        (LIMITED, 60),
        (replace(LIMITED, receives=5), 120),
        (replace(LIMITED, receives=901), 360),
        (COSTLY, 300),
        (replace(FIRST, attempts=None), 5),
    ],
)
def test_a_message_is_held_for_as_long_as_the_table_says(waiter: Waiter, held_s: float) -> None:
    assert _patience().decide(replace(waiter, waited_s=held_s)) == STAYS
    assert isinstance(_patience().decide(replace(waiter, waited_s=held_s + 0.1)), GoesBack)


# --- staying away --------------------------------------------------------------------------------

TOO_MUCH = replace(LIMITED, of_queue=1000)
HELD_LONG = replace(LIMITED, waited_s=DAY_S)


@pytest.mark.parametrize(
    ("waiter", "away_s"),
    [
        (HELD_LONG, 5),
        (replace(HELD_LONG, receives=21), 5),
        (_limited(HELD_LONG, retry_in_s=100), 100),
        (_limited(HELD_LONG, retry_in_s=DAY_S), 3600),
        (TOO_MUCH, 5),
        (replace(TOO_MUCH, receives=2), 8),
        (replace(TOO_MUCH, receives=4), 17),
        (replace(TOO_MUCH, receives=901), 300),
        (_limited(replace(TOO_MUCH, receives=901), retry_in_s=1000), 1000),
        (_limited(replace(TOO_MUCH, receives=901), startable_soon=9), 30),
        (replace(TOO_MUCH, attempts=None), 60),
    ],
)
def test_returned_messages_stay_away_as_the_limit_says_and_then_longer(
    waiter: Waiter, away_s: int
) -> None:
    assert _patience().decide(waiter) == GoesBack(away_s)
    found = {_away_s(waiter, random.Random(seed)) for seed in range(200)}  # noqa: S311 - spreads returns
    assert away_s <= min(found)
    assert max(found) <= away_s * 1.2 + 1
    assert len(found) > 1, "returns have to be spread"


def _away_s(waiter: Waiter, rng: random.Random | None = None) -> int:
    decision = _patience(rng).decide(waiter)
    assert isinstance(decision, GoesBack)
    return decision.away_s


@given(st.integers(0, 900), st.sampled_from([0, None]))
def test_with_each_return_a_message_is_held_no_shorter_and_away_no_shorter(
    returns: int, attempts: int | None
) -> None:
    before = replace(LIMITED, receives=returns + 1, attempts=attempts, waited_s=120)
    after = replace(before, receives=returns + 2)
    if _patience().decide(before) == STAYS:
        assert _patience().decide(after) == STAYS
    assert _away_s(replace(after, of_queue=1000)) >= _away_s(replace(before, of_queue=1000))


@pytest.mark.parametrize("too_much", [False, True])
def test_a_thousand_receives_last_for_the_four_days_that_a_message_is_kept(too_much: bool) -> None:
    waited_s, rng = 0.0, random.Random(0)  # noqa: S311 - spreads returns
    for receives in range(1, 1001):
        waiter = replace(TOO_MUCH if too_much else HELD_LONG, receives=receives)
        waited_s += _away_s(waiter, rng)
        if not too_much:
            waited_s += next(
                held_s
                for held_s in range(60, 400, 15)
                if _patience().decide(replace(LIMITED, receives=receives, waited_s=held_s + 0.1))
                != STAYS
            )
    assert waited_s > (3.7 if too_much else 4) * DAY_S


# --- pace ----------------------------------------------------------------------------------------


def _in_vain(pace: Pace, now: float) -> float:
    pace.brought(10)
    return pace.in_vain(10, now)


@pytest.mark.parametrize(("priority", "longest_s"), [(Priority.CRITICAL, 0.25), (Priority.LOW, 1)])
def test_pauses_grow_while_all_that_comes_goes_back_and_are_bounded(
    priority: Priority, longest_s: float
) -> None:
    pace, now = Pace(priority), 100.0
    pauses = []
    for _ in range(8):
        pauses.append(_in_vain(pace, now))
        assert pace.is_pausing(now)
        now += pauses[-1]
        assert not pace.is_pausing(now)
    assert pauses == [longest_s * part for part in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 1, 1, 1)]


@pytest.mark.parametrize("useful", ["one stays", "nothing comes"])
def test_a_receive_that_was_not_in_vain_ends_the_pauses(useful: str) -> None:
    pace = Pace(Priority.LOW)
    for now in range(6):
        _in_vain(pace, now)
    if useful == "one stays":
        pace.brought(10)
        assert pace.in_vain(9, 10) == 0
    pace.brought(0)
    assert not pace.is_in_vain
    assert _in_vain(pace, 20) == 1 / 16


def test_what_goes_back_later_makes_no_pause() -> None:
    pace = Pace(Priority.LOW)
    _in_vain(pace, 0)
    assert pace.in_vain(5, 10) == 0
    assert not pace.is_pausing(10)
