"""A function that dies harms no other job: neighbours run on, and only the killer is blamed."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest

from headgate import Backoff, DoNotRetry, Retry
from headgate.jobs.core.events import JobQuarantined
from tests.support.functions import Function, Note, function_of_mail, submitted

DEAD, QUARANTINE = "shop-mail-normal-dlq", "shop-quarantine"

function_of = partial(
    function_of_mail, retry=Retry(max_attempts=5, backoff=Backoff.fixed(10)), visibility_s=300
)
"""Return a function whose one type runs that handler; see `function_of_mail`."""


def quarantined(deployed: Function, ids: list[str]) -> list[int]:
    """Return the positions of quarantined jobs among these ids."""
    return sorted(ids.index(each.attributes["JobId"]) for each in deployed.messages(QUARANTINE))


@pytest.mark.parametrize("takes_s", [0.0, 0.3, 8.0])
@pytest.mark.parametrize("place", range(4))
def test_a_job_that_kills_its_function_takes_no_neighbour_with_it(
    place: int, takes_s: float
) -> None:
    runs: Counter[str] = Counter()

    async def send(note: Note) -> None:
        runs[note.text] += 1
        if note.text == "kills":
            await asyncio.sleep(2)
            await deployed.loop.die()
        await asyncio.sleep(takes_s)

    with function_of(send) as deployed:
        texts = ["a", "b", "c"]
        texts.insert(place, "kills")
        ids = submitted(deployed, *texts)
        deployed.drain()
        assert quarantined(deployed, ids) == [place]
        assert deployed.messages(DEAD) == []
        assert deployed.heard(JobQuarantined) == 1
    assert runs["kills"] <= 4
    most = 1 if takes_s < 2 else 3
    assert all(1 <= runs[each] <= most for each in "abc"), runs


def test_a_job_that_blocks_its_function_costs_no_other_job_anything() -> None:
    completed: Counter[str] = Counter()

    async def send(note: Note) -> None:
        if note.text == "blocks":
            await deployed.loop.block()
        completed[note.text] += 1

    with function_of(send) as deployed:
        ids = submitted(deployed, "blocks", "a", "b", "c")
        deployed.drain()
        assert quarantined(deployed, ids) == [0]
        assert deployed.messages(DEAD) == []
    assert completed.keys() == {"a", "b", "c"}


def test_a_killer_is_judged_when_its_message_shows_at_the_timeout() -> None:
    async def send(note: Note) -> None:
        if note.text == "kills":
            await asyncio.sleep(20)
            await deployed.loop.die()

    with function_of(send, visibility_s=30) as deployed:
        ids = submitted(deployed, "a", "kills", "b")
        deployed.drain()
        assert quarantined(deployed, ids) == [1]
    assert deployed.deaths <= 6


def test_two_killers_are_told_apart_from_what_runs_beside_them() -> None:
    async def send(note: Note) -> None:
        await asyncio.sleep(3)
        if note.text.startswith("kills"):
            await deployed.loop.die()

    with function_of(send) as deployed:
        ids = submitted(deployed, "a", "kills", "b", "kills", "c")
        deployed.drain()
        assert quarantined(deployed, ids) == [1, 3]
        assert deployed.messages(DEAD) == []


def test_suspects_run_alone_after_everything_else_is_settled() -> None:
    running: set[str] = set()
    beside: list[tuple[str, ...]] = []
    deaths = iter([True, True, True])

    async def send(note: Note) -> None:
        running.add(note.text)
        if note.text == "suspect":
            beside.append(tuple(sorted(running)))
            await asyncio.sleep(1)
            if next(deaths, False):
                running.clear()
                await deployed.loop.die()
        await asyncio.sleep(2)
        running.discard(note.text)

    with function_of(send) as deployed:
        submitted(deployed, "suspect")
        for _ in range(3):  # the first death leaves no start, so it is not attributed to the job
            deployed.invoke()
            deployed.clock.advance(301)
        submitted(deployed, "a", "b", "c")
        deployed.invoke()
    assert beside[-1] == ("suspect",)
    assert deployed.messages() == []


def test_whatever_await_a_function_dies_at_no_job_is_lost_or_blamed() -> None:
    def world() -> tuple[Any, Counter[str]]:
        ends: Counter[str] = Counter()

        async def send(note: Note) -> None:
            await asyncio.sleep(0.4)
            if note.text == "fails" and not ends["failed"]:
                ends["failed"] += 1
                raise ConnectionError
            await asyncio.sleep(1.2 if note.text == "long" else 0)
            ends[note.text] += 1

        return function_of(send), ends

    step, steps = 0, 1
    while step < steps:
        step += 1
        opened, ends = world()
        with opened as deployed:
            submitted(deployed, "a", "fails", "long")
            asyncio.run(
                deployed.sqs.receive(deployed.queue, limit=10, wait_s=0)
            )  # a throttled delivery
            deployed.clock.advance(301)
            died = deployed.invoke(dies_after=step) is None
            steps = max(steps, step + died)
            deployed.clock.advance(301)
            deployed.invoke(dies_after=step)
            deployed.drain()
            assert ends.keys() >= {"a", "fails", "long"}, f"lost when it died at step {step}"
            assert deployed.messages(DEAD) == [], f"step {step}"
            assert deployed.messages(QUARANTINE) == [], f"step {step}"
    assert steps > 20


def test_a_suspect_of_a_fifo_group_runs_alone_and_the_rest_in_order() -> None:
    order: list[str] = []

    async def send(note: Note) -> None:
        await asyncio.sleep(2)
        if note.text == "kills":
            await deployed.loop.die()
        order.append(note.text)

    with function_of(send, fifo=True) as deployed:
        ids = submitted(deployed, "kills", "a1", "a2", group="a")
        ids += submitted(deployed, "b1", "b2", group="b")
        deployed.drain()
        assert quarantined(deployed, ids) == [0]
        assert deployed.messages(f"{DEAD}.fifo") == []
    assert [each for each in dict.fromkeys(order) if each[0] == "a"] == ["a1", "a2"]
    assert [each for each in dict.fromkeys(order) if each[0] == "b"] == ["b1", "b2"]


def test_a_dead_letter_leaves_its_queue_before_a_neighbour_can_end_the_function() -> None:
    async def send(note: Note) -> None:
        if note.text == "kills":
            await asyncio.sleep(0.04)
            await deployed.loop.die()
        raise DoNotRetry("no")

    with function_of(send) as deployed:
        submitted(deployed, "dies", "kills")
        deployed.invoke()
        assert deployed.deaths == 1
        assert len(deployed.messages(DEAD)) == 1
        assert len(deployed.messages()) == 1
