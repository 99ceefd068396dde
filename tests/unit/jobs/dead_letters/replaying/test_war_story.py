"""The promise behind `python -m benchmarks.war_story`, in small."""

from __future__ import annotations

from datetime import timedelta

from benchmarks.war_story.run import tell
from benchmarks.war_story.world import Story

SMALL = Story(
    webhooks=200,
    most_per_s=20,
    quiet_s=20,
    spread=timedelta(minutes=1),
    canary=5,
    workers=1,
    concurrency=20,
)


def test_a_spread_replay_delivers_everything_to_an_endpoint_that_a_redrive_fells() -> None:
    replay, redrive = tell("replay", SMALL), tell("redrive", SMALL)
    assert (replay["delivered"], replay["died_again"], replay["falls"]) == (200, 0, 0)
    assert max(replay["requests"]) <= SMALL.most_per_s
    assert redrive["falls"] >= 1
    assert redrive["died_again"] > redrive["delivered"]
