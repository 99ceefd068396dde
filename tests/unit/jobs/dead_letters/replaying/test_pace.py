"""The pace of a replay: when its jobs are due, and how far ahead they are sent."""

from __future__ import annotations

import random

import pytest

from headgate.jobs.dead_letters.replaying.pace import (
    AHEAD_S,
    LATE_S,
    MAX_AHEAD_S,
    ReplayPace,
)


def _pace(
    interval_s: float, *, jitter: bool = False, ahead_s: float = AHEAD_S, seed: int = 1
) -> ReplayPace:
    rng = random.Random(seed)  # noqa: S311 - places jobs
    return ReplayPace(interval_s, jitter=jitter, ahead_s=ahead_s, now=0.0, rng=rng)


def test_jobs_are_due_one_interval_apart() -> None:
    pace = _pace(2.0)
    assert [pace.delay_s(0.0) for _ in range(4)] == [0, 2, 4, 6]


@pytest.mark.parametrize("jitter", [False, True])
def test_time_that_was_lost_is_not_made_up_for_by_a_burst(jitter: bool) -> None:
    pace = _pace(0.5, jitter=jitter)
    for _ in range(20):
        pace.delay_s(0.0)
    lost_until_s = 600.0  # a canary was waited for
    assert pace.room(lost_until_s, None) == AHEAD_S / 0.5 + (not jitter)
    due = [lost_until_s + pace.delay_s(lost_until_s) for _ in range(20)]
    assert due == sorted(due)
    assert due[-1] - due[0] >= 18 * 0.5


def test_a_replay_without_a_pace_waits_for_nothing() -> None:
    pace = _pace(0.0)
    assert (pace.wait_s(60.0), pace.room(60.0, 7), pace.delay_s(60.0)) == (0.0, 7, 0.0)


def test_a_moment_s_delay_does_not_slow_a_replay_down() -> None:
    pace = _pace(1.0)
    for second in range(10):
        pace.delay_s(second + LATE_S / 2)
    assert pace.delay_s(10.0) == 0.0


@pytest.mark.parametrize("ahead_s", [AHEAD_S, MAX_AHEAD_S])
@pytest.mark.parametrize("interval_s", [0.5, 20.0, 400.0, 5_400.0])
def test_no_job_is_taken_longer_before_it_is_due_than_it_may_be(
    interval_s: float, ahead_s: float
) -> None:
    for seed in range(50):
        pace, now, due = _pace(interval_s, jitter=True, ahead_s=ahead_s, seed=seed), 0.0, []
        for _ in range(10):
            now += pace.wait_s(now)
            delays = [pace.delay_s(now) for _ in range(pace.room(now, None) or 0)]
            assert max(delays) <= ahead_s
            due += [now + each for each in delays]
        turns = [int(each // interval_s) for each in due]
        assert turns == [*range(len(due))]  # one in each interval, and none moved on
