"""Records written alongside jobs: all of them while there is room; dropped ones are counted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.core.events import Event, Events, RecordsFailed, RecordsShed, RecordsWritten
from headgate.jobs.core.ports.table import Item
from headgate.jobs.errors import AccessDenied, ServiceUnavailable, TransportError
from headgate.jobs.records.journal import ROOM, ROOM_BYTES, Journal
from headgate.jobs.testing import LoopClock, MemoryTable

pytestmark = pytest.mark.looptime


class Desk:
    """A journal over an in-memory table."""

    def __init__(self) -> None:
        clock = LoopClock()
        self.table = MemoryTable(clock)
        self.events: list[Event] = []
        self.journal = Journal(
            self.table,
            clock=clock,
            events=Events(self.events.append),
            rng=random.Random(1),  # noqa: S311 - spreads pauses
        )

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.journal.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def put(self, *names: str, size: int = 0) -> None:
        for name in names:
            self.journal.put(item(name), size=size)

    async def written(self) -> set[str]:
        return {item.sk for item in await self.table.query("job#1")}

    @property
    def shed(self) -> int:
        return sum(event.items for event in self.events if isinstance(event, RecordsShed))


def item(name: str, value: int = 0) -> Item:
    return Item(pk="job#1", sk=name, data={"value": value})


def names(count: int) -> list[str]:
    return [f"{number:05d}" for number in range(count)]


async def test_an_item_is_known_here_until_it_is_written() -> None:
    desk = Desk()
    desk.put("a")
    desk.table.faults.slow_down("put", 2)
    assert desk.journal.unwritten("job#2") == []
    async with desk.writing():
        for _ in range(2):
            assert desk.journal.unwritten("job#1") == [item("a")]
            await asyncio.sleep(1)
        await asyncio.sleep(2)
        assert desk.journal.unwritten("job#1") == []


async def test_what_is_put_is_written_twenty_five_to_a_request() -> None:
    desk = Desk()
    async with desk.writing():
        desk.put(*names(1000))
        await asyncio.sleep(5)
    assert desk.table.calls == ["put"] * 40
    assert await desk.written() == set(names(1000))
    assert sum(e.items for e in desk.events if isinstance(e, RecordsWritten)) == 1000


async def test_of_two_items_for_one_place_the_later_one_stands() -> None:
    desk = Desk()
    async with desk.writing():
        desk.table.faults.slow_down("put", 1)
        desk.journal.put(item("a", 1))
        await asyncio.sleep(0.5)
        desk.journal.put(item("a", 2))  # the first is under way
        desk.journal.put(item("a", 3))
        await asyncio.sleep(5)
    [standing] = await desk.table.query("job#1")
    assert standing.data == {"value": 3}


async def test_an_item_whose_writing_failed_takes_no_later_ones_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()

    async def fail_late(_items: Sequence[Item]) -> list[Item]:
        await asyncio.sleep(1)
        raise ServiceUnavailable("gone")

    async with desk.writing():
        with monkeypatch.context() as away:
            away.setattr(desk.table, "put", fail_late)
            desk.journal.put(item("a", 1))
            await asyncio.sleep(0.5)
            desk.journal.put(item("a", 2))
            await asyncio.sleep(0.7)  # the first has failed meanwhile
        await asyncio.sleep(5)
    [standing] = await desk.table.query("job#1")
    assert standing.data == {"value": 2}


async def test_what_the_table_leaves_unprocessed_is_written_later() -> None:
    desk = Desk()
    desk.table.faults.leave_unprocessed(times=3)
    desk.table.faults.leave_unprocessed(times=3, indexes=[0, 7])
    async with desk.writing():
        desk.put(*names(60))
        await asyncio.sleep(60)
    assert await desk.written() == set(names(60))
    assert desk.shed == 0


async def test_an_outage_within_the_room_costs_nothing_and_few_requests() -> None:
    desk = Desk()
    desk.table.faults.raise_on("put", ServiceUnavailable("gone"), times=10**6)
    async with desk.writing():
        desk.put(*names(ROOM))
        await asyncio.sleep(600)
        assert len(desk.table.calls) < 600 / 5
        desk.table.faults.clear()
        await asyncio.sleep(60)
    assert await desk.written() == set(names(ROOM))
    assert desk.shed == 0
    assert any(isinstance(event, RecordsFailed) for event in desk.events)


async def test_what_no_longer_fits_is_shed_and_counted() -> None:
    desk = Desk()
    async with desk.writing():
        desk.put(*names(ROOM + 123))
        desk.put(names(1)[0])  # it is already waiting
        await asyncio.sleep(60)
    assert desk.shed == 123
    assert len(await desk.written()) == ROOM


async def test_there_is_room_for_so_many_bytes() -> None:
    desk = Desk()
    async with desk.writing():
        desk.put("a", "b", "c", size=ROOM_BYTES // 2)
        await asyncio.sleep(60)
        desk.put("d", size=ROOM_BYTES)
        await asyncio.sleep(60)
    assert await desk.written() == {"a", "b", "d"}
    assert desk.shed == 1


async def test_an_item_that_can_not_be_stored_holds_up_no_other() -> None:
    desk = Desk()
    async with desk.writing():
        desk.put(*names(10))
        desk.journal.put(Item(pk="job#1", sk="bad", data={"value": object()}))
        desk.put(*(f"later-{number}" for number in range(30)))
        await asyncio.sleep(120)
    others = {*names(10), *(f"later-{number}" for number in range(30))}
    assert await desk.written() == {*others, "bad"}
    assert desk.shed == 0
    bare = await desk.table.get("job#1", "bad")
    assert bare is not None
    assert bare.data.keys() == {"refused"}
    [failed] = [event for event in desk.events if isinstance(event, RecordsFailed)]
    assert "can't be stored: data['value']" in failed.error


async def test_an_item_without_a_place_is_shed_and_holds_up_no_other() -> None:
    desk = Desk()
    async with desk.writing():
        desk.put(*names(10))
        desk.journal.put(Item(pk="job#1", sk="\ud800"))
        await asyncio.sleep(120)
    assert await desk.written() == {*names(10)}
    assert desk.shed == 1


async def test_a_refusal_of_every_request_sheds_nothing_while_there_is_room() -> None:
    desk = Desk()
    desk.table.missing = True
    async with desk.writing():
        desk.put(*names(100))
        await asyncio.sleep(600)
        desk.table.missing = False
        await asyncio.sleep(60)
    assert await desk.written() == set(names(100))
    assert desk.shed == 0


async def test_an_end_where_no_repetition_helps_is_not_waited_for() -> None:
    desk = Desk()
    desk.table.missing = True
    desk.put(*names(90))
    async with asyncio.timeout(1):
        await desk.journal.drain()
    assert desk.shed == 90


async def test_a_hopeless_fault_that_has_been_mended_does_not_end_the_drain() -> None:
    desk = Desk()
    desk.table.faults.raise_on("put", AccessDenied("no"), times=1)
    async with desk.writing():
        desk.put("a")
        await asyncio.sleep(60)
    assert await desk.written() == {"a"}
    desk.table.faults.leave_unprocessed(times=1)
    desk.put("b")
    await desk.journal.drain()
    assert await desk.written() == {"a", "b"}
    assert desk.shed == 0


async def test_at_the_end_all_that_waits_is_written() -> None:
    desk = Desk()
    desk.table.faults.raise_on("put", ServiceUnavailable("gone"), times=2)
    desk.put(*names(90))
    await desk.journal.drain()
    assert await desk.written() == set(names(90))


async def test_an_end_that_has_to_come_counts_what_was_left() -> None:
    desk = Desk()
    desk.table.faults.raise_on("put", ServiceUnavailable("gone"), times=10**6)
    desk.put(*names(90))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await desk.journal.drain()
    await asyncio.sleep(0)
    assert desk.shed == 90


@given(seed=st.integers(0, 10_000))
async def test_whatever_fails_what_was_put_is_written_or_counted_as_shed(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a test's own choices
    desk = Desk()
    async with desk.writing():
        for number in range(rng.randint(1, 300)):
            desk.put(f"{number:03d}")
            if rng.random() < 0.05:
                fault = rng.choice([ServiceUnavailable("gone"), TransportError("refused")])
                desk.table.faults.raise_on("put", fault, applied=rng.random() < 0.5)
            if rng.random() < 0.05:
                desk.table.faults.leave_unprocessed(indexes=[0, 3])
            if rng.random() < 0.05:
                desk.table.faults.slow_down("put", rng.random() * 3)
            if rng.random() < 0.1:
                await asyncio.sleep(rng.random())
        await asyncio.sleep(300)
    assert len(await desk.written()) + desk.shed >= number + 1
    assert desk.shed == 0 or number > 0


async def test_an_end_that_cuts_requests_short_starts_no_more_of_them() -> None:
    desk = Desk()
    desk.table.faults.slow_down("put", 3600, times=10**6)
    before = asyncio.all_tasks()
    async with desk.writing():
        desk.put(*names(200))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await desk.journal.drain()
        await asyncio.sleep(1)
        assert desk.shed == 200
    assert asyncio.all_tasks() == before


async def test_items_that_wait_for_a_second_show_that_they_come_too_fast() -> None:
    desk = Desk()
    desk.table.faults.slow_down("put", 2, times=10**6)
    async with desk.writing():
        desk.put(*names(150))
        await asyncio.sleep(0.9)
        assert not desk.journal.is_behind(urgent=False)
        await asyncio.sleep(0.2)
        assert desk.journal.is_behind(urgent=False)
        assert not desk.journal.is_behind(urgent=True)
        await asyncio.sleep(1)  # the last fifty are under way
        assert not desk.journal.is_behind(urgent=False)
        desk.put(*(f"later-{number}" for number in range(101)))
        assert desk.journal.is_behind(urgent=False), "they would wait for two seconds"


@pytest.mark.parametrize(("urgent", "most"), [(False, ROOM // 2), (True, ROOM * 3 // 4)])
async def test_a_part_of_the_room_is_left_to_jobs_that_run_already(urgent: bool, most: int) -> None:
    desk = Desk()
    desk.put(*names(most - 1))
    assert not desk.journal.is_behind(urgent=urgent)
    desk.put(names(most)[-1])
    assert desk.journal.is_behind(urgent=urgent)


async def test_a_table_that_takes_nothing_for_five_seconds_is_not_waited_for() -> None:
    desk = Desk()
    desk.table.faults.slow_down("put", 3600, times=4)
    async with desk.writing():
        desk.put(*names(200))
        for _ in range(4):
            await asyncio.sleep(1.1)
            assert desk.journal.is_behind(urgent=False)
        await asyncio.sleep(1.1)
        for name in ("x", "y", "z"):
            desk.put(name)
            await asyncio.sleep(2)
            assert not desk.journal.is_behind(urgent=False)


async def test_a_table_that_is_not_there_is_not_waited_for_at_all() -> None:
    desk = Desk()
    desk.table.missing = True
    async with desk.writing():
        desk.put(*names(ROOM - 1))
        await asyncio.sleep(2)
        assert not desk.journal.is_behind(urgent=False)


async def test_a_table_that_takes_a_part_of_each_request_is_asked_often() -> None:
    desk = Desk()
    desk.table.faults.leave_unprocessed(times=10**6, indexes=range(5, 25))
    async with desk.writing():
        desk.put(*names(500))
        await asyncio.sleep(25)
    assert await desk.written() == set(names(500))
