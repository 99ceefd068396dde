"""A batch with refused items: the others are written, and a bare mark of each refused one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.core.ports.table import Item, ListLine
from headgate.jobs.errors import ItemRefused, ServiceUnavailable
from headgate.jobs.records.writes import REFUSAL, WriteRefusal, bare_mark, put_batch, put_items
from headgate.jobs.testing import MemoryTable, VirtualClock

BAD: list[Any] = [object(), "\ud800", "x" * 500_000, 10**60, float("nan"), 1e-300, {"": 1}]


def item(name: str, value: Any = 1) -> Item:
    line = ListLine(list="failed#send#0", place=name, summary={"error_message": value})
    return Item(pk="job#1", sk=name, data={"attempt": 2, "value": value}, line=line)


def table() -> MemoryTable:
    return MemoryTable(VirtualClock())


@given(values=st.lists(st.sampled_from([1, "a", *BAD]), min_size=1, max_size=25))
async def test_every_item_of_a_batch_is_written_at_least_barely(values: list[Any]) -> None:
    items = [item(f"{number:02d}", value) for number, value in enumerate(values)]
    there = table()
    written = await put_items(there, items)
    found = await there.query("job#1")
    assert [each.sk for each in found] == [each.sk for each in items]
    assert all(each.data["attempt"] == 2 and each.line for each in found)
    refused = [refusal.item for refusal in written.refused]
    assert [each.sk for each in found if REFUSAL in each.data] == [each.sk for each in refused]
    assert {type(each.data["value"]) for each in refused} <= {type(value) for value in BAD}
    assert not written.left


async def test_a_batch_in_which_nothing_is_refused_costs_one_request() -> None:
    there = table()
    await put_items(there, [item(f"{number:02d}") for number in range(25)])
    assert there.calls == ["put"]


async def test_one_refused_among_twenty_five_costs_few_requests() -> None:
    there = table()
    items = [item(f"{number:02d}") for number in range(24)]
    await put_items(there, [*items, item("bad", object())])
    assert len(there.calls) <= 6, "a refused batch is no request: its items are looked at first"


async def test_an_item_whose_key_is_refused_is_told_apart() -> None:
    written = await put_items(table(), [item("a"), Item(pk="job#1", sk="\ud800")])
    [refusal] = written.refused
    assert (refusal.item.sk, refusal.marked) == ("\ud800", False)


async def test_what_a_busy_table_left_is_tried_again_whole() -> None:
    there = table()
    bad = item("bad", object())
    there.faults.leave_unprocessed()
    written = await put_items(there, [bad])
    assert list(written.left) == [bad]


async def test_a_table_that_is_away_is_no_refusal() -> None:
    there = table()
    there.faults.raise_on("put", ServiceUnavailable("away"))
    with pytest.raises(ServiceUnavailable):
        await put_items(there, [item("a"), item("bad", object())])


async def test_a_batch_tells_of_each_entry() -> None:
    there, heard = table(), list[WriteRefusal]()
    there.faults.leave_unprocessed(indexes=[0])
    items = [item("busy"), item("good"), item("bad", object()), Item(pk="job#1", sk="\ud800")]
    failures = await put_batch(there, items, on_refused=heard.append)
    assert [(each.index, each.sender_fault) for each in failures] == [(0, False), (3, True)]
    assert [refusal.item.sk for refusal in heard] == ["bad", "\ud800"]


async def test_a_refusal_that_nobody_hears_of_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert await put_batch(table(), [item("bad", object())]) == []
    assert "can't be stored" in caplog.text


def test_a_bare_mark_keeps_what_is_short() -> None:
    data = {"at": "2026", "attempt": 3, "ran_s": 0.5, "reason": None, "map": {}, "text": "y" * 999}
    bare = bare_mark(Item(pk="a", sk="b", data=data), "too large")
    kept = {"at": "2026", "attempt": 3, "ran_s": 0.5, "reason": None, "refused": "too large"}
    assert {name: bare.data[name] for name in kept} == kept
    assert len(bare.data["text"]) == 200
    assert bare.data.keys() == {*kept, "text"}


def test_a_refusal_is_an_error_of_its_own() -> None:
    assert not ItemRefused("no").transient
