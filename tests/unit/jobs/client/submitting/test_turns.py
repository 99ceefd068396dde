"""`jobs.client.submitting.turns`: overlapping calls of a lane run one after the other, in order."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.client.submitting.turns import Turns

pytestmark = pytest.mark.looptime


@given(
    calls=st.lists(
        st.tuples(st.sets(st.sampled_from("abc"), min_size=1), st.booleans()), max_size=12
    ),
    seed=st.integers(0, 2**32),
)
async def test_calls_take_turns_in_order_also_where_some_are_cancelled(
    calls: list[tuple[set[str], bool]], seed: int
) -> None:
    rng, turns = random.Random(seed), Turns()  # noqa: S311 - a test's own choices
    inside: Counter[str] = Counter()
    came: list[tuple[int, str]] = []

    async def call(number: int, lanes: set[str]) -> None:
        async with turns.of(lanes):
            came.extend((number, lane) for lane in sorted(lanes))
            inside.update(lanes)
            assert max(inside.values()) == 1
            try:
                await asyncio.sleep(rng.random())
            finally:
                inside.subtract(lanes)

    tasks = [asyncio.create_task(call(number, lanes)) for number, (lanes, _) in enumerate(calls)]
    for task, (_, cancelled) in zip(tasks, calls, strict=True):
        if cancelled:
            await asyncio.sleep(rng.random())
            task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert result is None or isinstance(result, asyncio.CancelledError)
    for lane in "abc":
        numbers = [number for number, its in came if its == lane]
        assert numbers == sorted(numbers)
    await asyncio.wait_for(turns.all_over(), 1)
