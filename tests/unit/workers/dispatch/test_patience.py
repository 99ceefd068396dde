"""The holding time and absence of messages that can't start, and the next poll of their queue."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Priority
from headgate.workers.dispatch.patience import Patience, Waiter
from headgate.workers.receiving.pace import Pace

GIVE_BACK_AFTER_S = 5.0
DAY_S = 86_400

FIRST = Waiter()
AGAIN = Waiter(receives=2)
LIMITED = Waiter(limit_s=1, places=1)


def _patience(seed: int = 0) -> Patience:
    return Patience(GIVE_BACK_AFTER_S, rng=random.Random(seed))  # noqa: S311 - spreads returns


# --- holding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiter", "held_s"),
    [
        (FIRST, 5),
        (AGAIN, 60),
        (replace(FIRST, is_known=False), 60),
        (replace(AGAIN, receives=5, returns=4), 120),
        (replace(AGAIN, receives=90, returns=80), 360),
        (LIMITED, 60),
        (replace(LIMITED, returns=4), 120),
        (replace(LIMITED, returns=900), 360),
        (replace(LIMITED, is_costly=True), 300),
        (replace(FIRST, is_costly=True), 5),
    ],
)
def test_a_message_is_held_for_as_long_as_the_table_says(waiter: Waiter, held_s: float) -> None:
    assert _patience().held_s(waiter) == held_s


@pytest.mark.parametrize(
    ("waiter", "of_limit", "of_queue"),
    [
        (LIMITED, 2, 200),
        (replace(LIMITED, places=24), 24, 200),
        (replace(LIMITED, startable_soon=50), 252, 450),
        (replace(LIMITED, startable_soon=-3), 2, 200),
        (replace(LIMITED, is_costly=True), 10, 200),
    ],
)
def test_as_much_is_held_as_fills_the_places_of_its_limit(
    waiter: Waiter, of_limit: int, of_queue: int
) -> None:
    assert _patience().most_of_limit(waiter) == of_limit
    assert _patience().most_of_queue(waiter) == of_queue


@pytest.mark.parametrize(("limit_s", "lasts"), [(None, False), (60, False), (61, True)])
def test_what_its_limit_holds_back_for_longer_is_not_held(
    limit_s: float | None, lasts: bool
) -> None:
    assert _patience().lasts(replace(LIMITED, limit_s=limit_s)) is lasts


# --- staying away --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiter", "too_much", "away_s"),
    [
        (FIRST, False, 0),
        (AGAIN, False, 0),
        (LIMITED, False, 5),
        (replace(LIMITED, returns=20), False, 5),
        (replace(LIMITED, limit_s=100), False, 100),
        (replace(LIMITED, limit_s=DAY_S), False, 3600),
        (LIMITED, True, 5),
        (replace(LIMITED, returns=1), True, 10),
        (replace(LIMITED, returns=3), True, 40),
        (replace(LIMITED, returns=900), True, 300),
        (replace(LIMITED, returns=900, limit_s=1000), True, 1000),
        (replace(LIMITED, returns=900, startable_soon=9), True, 30),
        (replace(LIMITED, is_costly=True), True, 60),
    ],
)
def test_what_goes_back_stays_away_as_long_as_its_limit_says_and_longer_each_time(
    waiter: Waiter, too_much: bool, away_s: int
) -> None:
    found = {_patience(seed).away_s(waiter, too_much=too_much) for seed in range(200)}
    assert away_s <= min(found)
    assert max(found) <= away_s * 1.2 + 1
    assert away_s == 0 or len(found) > 1, "returns have to be spread"


@given(st.integers(0, 900), st.booleans())
def test_with_each_return_a_message_is_held_no_shorter_and_away_no_shorter(
    returns: int, is_costly: bool
) -> None:
    before = replace(LIMITED, returns=returns, is_costly=is_costly)
    after = replace(before, returns=returns + 1)
    assert _patience().held_s(after) >= _patience().held_s(before)
    assert _patience(1).away_s(after, too_much=True) >= _patience(1).away_s(before, too_much=True)


@pytest.mark.parametrize("too_much", [False, True])
def test_a_thousand_receives_last_for_the_four_days_that_a_message_is_kept(too_much: bool) -> None:
    patience, waited_s = _patience(), 0.0
    for returns in range(1000):
        waiter = replace(LIMITED, receives=returns + 1, returns=returns)
        waited_s += patience.away_s(waiter, too_much=too_much)
        waited_s += 0 if too_much else patience.held_s(waiter)
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
