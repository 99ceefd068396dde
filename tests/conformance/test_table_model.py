"""`MemoryTable` behaves like AWS's own DynamoDB Local, whatever is asked of the two."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.jobs.aws.dynamo.table import AsyncDynamoTable
from headgate.jobs.aws.provision import create_table
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.testing import MemoryTable, VirtualClock
from tests.conformance.tables import START
from tests.support.environment import with_test_credentials

_PARTITIONS = ("a", "b")
_PLACES = ("run#1", "run#2", "done")

_numbers = st.integers(-(10**38) + 1, 10**38 - 1) | st.floats(
    allow_nan=False, allow_infinity=False, allow_subnormal=False
).filter(lambda number: number == 0 or 1e-130 <= abs(number) < 1e126)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_values = st.recursive(
    st.none() | st.booleans() | _numbers | _texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_texts.filter(bool), inner, max_size=3)
    ),
    max_leaves=6,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call, or a passage of time."""

    action: str
    partition: str = "a"
    place: str = "done"
    version: int = 0
    data: Any = None
    expires_in_s: float | None = None
    prefix: str = ""

    def item(self, run: str, clock: VirtualClock) -> Item:
        lasts = self.expires_in_s
        return Item(
            pk=f"{run}{self.partition}",
            sk=self.place,
            data={"value": self.data},
            version=self.version,
            expires_at=None if lasts is None else clock.now() + timedelta(seconds=lasts),
        )


_partitions, _places = st.sampled_from(_PARTITIONS), st.sampled_from(_PLACES)
_lasting = st.none() | st.floats(0.25, 30)
_steps = st.one_of(
    st.builds(
        Step,
        action=st.sampled_from(["put", "replace"]),
        partition=_partitions,
        place=_places,
        version=st.integers(1, 4),
        data=_values,
        expires_in_s=_lasting,
    ),
    st.builds(Step, action=st.just("get"), partition=_partitions, place=_places),
    st.builds(
        Step,
        action=st.just("query"),
        partition=_partitions,
        prefix=st.sampled_from(["", "run#", "done", "none"]),
    ),
    st.builds(Step, action=st.just("advance"), expires_in_s=st.floats(0.25, 20)),
)


async def _answer(table: AsyncTable, step: Step, run: str, clock: VirtualClock) -> object:
    item = step.item(run, clock)
    match step.action:
        case "put":
            return await table.put([item])
        case "replace":
            return await table.replace(item)
        case "get":
            return await table.get(item.pk, item.sk)
        case _:
            return await table.query(item.pk, prefix=step.prefix)


@pytest.fixture
async def tables(
    dynamodb: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[tuple[VirtualClock, AsyncTable, AsyncTable]]:
    """Yield a clock, DynamoDB Local and the in-memory table, both on that clock."""
    with_test_credentials(monkeypatch, tmp_path)
    await create_table("model", endpoint_url=dynamodb)
    clock = VirtualClock(START)
    async with AsyncDynamoTable("model", endpoint_url=dynamodb, clock=clock) as real:
        yield clock, real, MemoryTable(clock)


# All examples share the fixture, each in partitions of its own.
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(_steps, min_size=1, max_size=25))
async def test_any_sequence_of_calls_has_the_same_answers(
    tables: tuple[VirtualClock, AsyncTable, AsyncTable], steps: list[Step]
) -> None:
    clock, real, memory = tables
    run = uuid4().hex
    for step in steps:
        if step.action == "advance":
            clock.advance(step.expires_in_s or 0)
            continue
        expected = await _answer(real, step, run, clock)
        assert await _answer(memory, step, run, clock) == expected
