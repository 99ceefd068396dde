"""A retry policy laid out in time."""

from __future__ import annotations

from pydantic import BaseModel

from headgate import App, Backoff, Retry
from headgate.jobs.deployment.retry_timeline import timeline


class Note(BaseModel):
    text: str = ""


def test_each_attempt_comes_between_the_sums_of_the_shortest_and_the_longest_waits() -> None:
    retry = Retry(max_attempts=4, backoff=Backoff.exponential(base=10, cap=30, jitter="equal"))
    planned = timeline(App("shop").define("note", Note, retry=retry))
    assert [(each.attempt, each.earliest_s, each.latest_s) for each in planned] == [
        (1, 0, 0),
        (2, 5, 10),
        (3, 15, 30),
        (4, 30, 60),
    ]


def test_a_wait_is_cut_to_the_twelve_hours_that_sqs_can_hide_a_message() -> None:
    retry = Retry(max_attempts=2, backoff=Backoff.fixed(100_000))
    [_, second] = timeline(App("shop").define("note", Note, retry=retry))
    assert second.latest_s == 43_200
