"""Excess messages return spread over the time that the function needs for them."""

from __future__ import annotations

import random
from collections import deque

import pytest

from headgate.lambdas.spreading import MOST_S, away_s, spread


def _delays(**surplus: float) -> list[int]:
    rng = random.Random(0)  # noqa: S311 - of a test
    fields = {"started": 0, "at_once": 10, "took_s": 10.0, **surplus}
    return [away_s(rng=rng, **fields) for _ in range(2000)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("surplus", "longest_s"),
    [
        ({"unstarted": 10, "started": 10}, 10),
        ({"unstarted": 25, "started": 10}, 25),
        ({"unstarted": 5, "started": 10}, 5),
        ({"unstarted": 10, "started": 0, "at_once": 10}, 10),
        ({"unstarted": 3, "started": 0, "at_once": 10}, 10),
        ({"unstarted": 10_000, "started": 1, "at_once": 1}, MOST_S),
        ({"unstarted": 1, "started": 1_000}, 1),
    ],
)
def test_delays_are_spread_over_as_many_invocations_as_the_surplus_needs(
    surplus: dict[str, float], longest_s: int
) -> None:
    delays = _delays(**surplus)
    assert min(delays) == 1
    assert max(delays) == longest_s
    assert sum(delays) / len(delays) == pytest.approx((1 + longest_s) / 2, rel=0.1)


def test_a_function_that_has_started_nothing_and_holds_nothing_gives_nothing_back() -> None:
    rng = random.Random(0)  # noqa: S311 - of a test
    assert spread([deque()], started=0, at_once=10, took_s=10.0, rng=rng) == []
