"""Pauses in which messages gather: fewer receives for jobs that come one by one."""

from __future__ import annotations

from headgate.workers.receiving.gathering import Gathering


def gathering(pause_s: float = 0.05) -> Gathering:
    return Gathering(pause_s)


def test_a_receive_that_brings_messages_at_once_is_followed_by_a_pause() -> None:
    queue = gathering()
    queue.brought(3, took_s=0.01, full=False)
    assert queue.pause_s() == 0.05


def test_a_pause_follows_each_receive_once() -> None:
    queue = gathering()
    queue.brought(3, took_s=0.01, full=False)
    assert [queue.pause_s(), queue.pause_s()] == [0.05, 0]


def test_messages_that_come_more_seldom_than_a_pause_lasts_are_not_made_to_wait() -> None:
    queue = gathering()
    queue.brought(1, took_s=0.06, full=False)
    assert queue.pause_s() == 0


def test_a_full_batch_is_followed_by_the_next_receive_at_once() -> None:
    queue = gathering()
    queue.brought(10, took_s=0.01, full=True)
    assert queue.pause_s() == 0


def test_an_empty_queue_is_polled_without_pauses() -> None:
    queue = gathering()
    queue.brought(0, took_s=0.01, full=False)
    assert queue.pause_s() == 0


def test_a_lane_that_gathers_nothing_never_pauses_and_may_always_receive_more() -> None:
    queue = gathering(0)
    queue.brought(3, took_s=0, full=False)
    assert queue.pause_s() == 0
    queue.brought(10, took_s=0, full=True)
    assert not queue.is_usual


def test_a_full_batch_after_a_pause_is_no_backlog_if_as_many_came_before() -> None:
    queue = gathering()
    for _ in range(2):
        queue.brought(8, took_s=0.01, full=False)
        queue.pause_s()
    queue.brought(10, took_s=0.01, full=True)
    assert queue.is_usual
    queue.brought(10, took_s=0.01, full=True)
    assert not queue.is_usual


def test_a_backlog_once_drained_is_no_measure_of_what_gathers() -> None:
    queue = gathering()
    for _ in range(100):
        queue.brought(10, took_s=0.01, full=True)
    queue.brought(1, took_s=0.01, full=False)
    queue.pause_s()
    for _ in range(3):
        queue.brought(10, took_s=0.01, full=True)
    assert not queue.is_usual


def test_a_full_batch_from_far_away_is_a_backlog_though_it_took_longer_than_a_pause() -> None:
    queue = gathering()
    queue.brought(10, took_s=0.2, full=True)
    assert not queue.is_usual
    assert queue.pause_s() == 0
