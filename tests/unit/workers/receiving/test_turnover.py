"""The rate of finished jobs: at once in a burst, and averaged in the long run."""

from __future__ import annotations

import pytest

from headgate.workers.receiving.turnover import Turnover


def test_a_steady_rate_is_told_as_it_is() -> None:
    turnover = Turnover(0)
    for number in range(1000):
        turnover.add(number / 100)
    assert turnover.within(1, 10) == pytest.approx(100, rel=0.1)
    assert turnover.within(0.02, 10) == pytest.approx(2, rel=0.1)


def test_a_backlog_after_an_idle_time_is_noticed_within_a_tenth_of_a_second() -> None:
    turnover = Turnover(0)
    for number in range(100):
        turnover.add(60 + number / 1000)
    assert turnover.within(0.02, 60.1) >= 10


def test_while_nothing_ends_the_rate_falls_to_nothing() -> None:
    turnover = Turnover(0)
    for _ in range(100):
        turnover.add(0)
    assert turnover.within(1, 10) < 0.01


def test_one_job_that_ends_is_no_rate() -> None:
    turnover = Turnover(0)
    turnover.add(10)
    assert turnover.within(1, 10) == 1
