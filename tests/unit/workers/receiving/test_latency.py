"""The usual latency of receives: steady, lowered at once, and raised slowly."""

from __future__ import annotations

import pytest

from headgate.workers.receiving.latency import Latency


def test_a_steady_latency_is_learnt() -> None:
    latency, now = Latency(), 0.0
    for _ in range(200):
        latency.add(now, now := now + 0.08)
    assert latency.seconds == pytest.approx(0.08, rel=0.05)


def test_a_faster_answer_counts_at_once() -> None:
    latency, now = Latency(), 0.0
    for _ in range(10):
        latency.add(now, now := now + 0.002)
    assert latency.seconds < 0.003


def test_a_moment_in_which_all_receives_are_held_up_raises_it_once() -> None:
    latency = Latency()
    usual = latency.seconds
    for number in range(200):
        latency.add(number / 1000, 2)
    assert usual < latency.seconds <= 1.05 * usual


def test_receives_after_such_a_moment_may_raise_it_again() -> None:
    latency = Latency()
    latency.add(0, 2)
    raised = latency.seconds
    latency.add(1, 3)
    assert latency.seconds == raised, "under way together with the one that has counted"
    latency.add(2, 4)
    assert latency.seconds > raised
