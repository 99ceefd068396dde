"""The guarantees of every `jobs.core.ports.table.AsyncTable`, whichever server is behind it.

Items expire by a clock that the test owns, years ahead of the server's: no server deletes them.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate.jobs.core.ports.table import Item, ListLine
from headgate.jobs.errors import TableMissing, TransportError
from tests.conformance.servers import needs
from tests.conformance.tables import TableFeature, TableUnderTest

# aiohttp warns of requests over 1 MiB.
_large_requests = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")

_FULL = 409_600  # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html


def _item(at: TableUnderTest, sk: str = "a", **changes: Any) -> Item:
    return replace(Item(pk=at.pk, sk=sk, data={"by": "me"}), **changes)


def _nothing(at: TableUnderTest, sk: str = "a") -> Item:
    return Item(pk=at.pk, sk=sk)


def _in(at: TableUnderTest, **after: float) -> datetime:
    return at.clock.now() + timedelta(**after)


async def _put(at: TableUnderTest, *items: Item) -> None:
    assert await at.table.put(items) == []


async def _names(at: TableUnderTest, prefix: str = "") -> list[str]:
    return [item.sk for item in await at.table.query(at.pk, prefix=prefix)]


# --- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty text"),
        "naïve ☃ 𝄞 \x00\t\n",
        None,
        True,
        False,
        pytest.param([], id="empty list"),
        pytest.param({}, id="empty map"),
        pytest.param([1, [2, [None, {"a": [True, ""]}]], {}], id="nested lists"),
        pytest.param({"a": {"b": {"c": [{"d": 1.5}]}}, "#:x y.z": 1}, id="nested maps"),
    ],
)
async def test_a_value_comes_back_as_it_was_put(at: TableUnderTest, value: Any) -> None:
    item = _item(at, data={"value": value})

    await _put(at, item)

    assert await at.table.get(at.pk, "a") == item


@pytest.mark.parametrize(
    "number",
    [
        *(0, 1, -1, 2**53 + 1, 10**38 - 1, 1 - 10**38, 0.1, -2.5, 1 / 3, 1e23, 1e40, 1.5e-7),
        *(1e-130, 9.99e125, 5e22, 123456789.123456789),
    ],
)
async def test_a_number_comes_back_equal_to_what_was_put(at: TableUnderTest, number: float) -> None:
    await _put(at, _item(at, data={"number": number}))

    found = await at.table.get(at.pk, "a")

    assert found is not None
    assert found.data["number"] == number


async def test_whole_numbers_are_integers_and_booleans_are_not_numbers(at: TableUnderTest) -> None:
    await _put(at, _item(at, data={"whole": 3.0, "flag": True, "one": 1, "half": 0.5}))

    found = await at.table.get(at.pk, "a")

    assert found is not None
    kinds = {name: type(value) for name, value in found.data.items()}
    assert kinds == {"whole": int, "flag": bool, "one": int, "half": float}


async def test_an_item_keeps_its_version_and_its_expiry(at: TableUnderTest) -> None:
    item = _item(at, version=7, expires_at=_in(at, hours=1))

    await _put(at, item)

    assert await at.table.get(at.pk, "a") == item
    assert await at.table.query(at.pk) == [item]


async def test_what_the_caller_changes_later_is_not_changed_in_the_table(
    at: TableUnderTest,
) -> None:
    values = ["before"]
    await _put(at, _item(at, data={"values": values}))
    values.append("after")

    first = await at.table.get(at.pk, "a")
    assert first is not None
    first.data["values"].append("read")

    second = await at.table.get(at.pk, "a")
    assert second is not None
    assert second.data == {"values": ["before"]}


# --- put -----------------------------------------------------------------------------------------


async def test_putting_replaces_what_stands_in_the_place(at: TableUnderTest) -> None:
    await _put(at, _item(at, data={"old": 1, "both": 1}, version=3))
    newer = _item(at, data={"both": 2})

    await _put(at, newer)

    assert await at.table.query(at.pk) == [newer]


async def test_twenty_five_items_are_put_at_once(at: TableUnderTest) -> None:
    names = [f"{number:02}" for number in range(25)]

    await _put(at, *(_item(at, name) for name in names))

    assert await _names(at) == names


async def test_putting_nothing_is_fine(at: TableUnderTest) -> None:
    await _put(at)


async def test_more_than_twenty_five_items_are_refused(at: TableUnderTest) -> None:
    with pytest.raises(TransportError, match="25"):
        await at.table.put([_item(at, str(number)) for number in range(26)])

    assert await _names(at) == []


async def test_two_items_of_one_place_are_refused_and_named(at: TableUnderTest) -> None:
    with pytest.raises(TransportError, match="sk='twice'"):
        await at.table.put([_item(at, "twice"), _item(at, "once"), _item(at, "twice")])

    assert await _names(at) == []


def _of_size(at: TableUnderTest, sk: str, size: int) -> Item:
    overhead = sum(map(len, ("pk", at.pk, "sk", sk, "data", "k"))) + 4  # 4: a map of one entry
    return _item(at, sk, data={"k": "x" * (size - overhead)})


@needs(TableFeature.FULL_SIZE)
async def test_an_item_may_have_400_kib(at: TableUnderTest) -> None:
    item = _of_size(at, "full", _FULL)

    await _put(at, item)

    assert await at.table.get(at.pk, "full") == item


@_large_requests
async def test_an_item_over_400_kib_is_refused_and_named(at: TableUnderTest) -> None:
    with pytest.raises(TransportError, match=r"sk='over'.*409601 bytes"):
        await at.table.put([_item(at, "fine"), _of_size(at, "over", _FULL + 1)])

    assert await _names(at) == []


def _deep(levels: int) -> Any:
    return {"k": _deep(levels - 1)} if levels else 1


@pytest.mark.parametrize(
    ("value", "why"),
    [
        pytest.param(float("inf"), "infinite", id="infinity"),
        pytest.param(float("nan"), "infinite or NaN", id="nan"),
        pytest.param(10**38, "38 digits", id="39 digits"),
        pytest.param(1e126, "too large", id="too large"),
        pytest.param(1e-131, "too small", id="too small"),
        pytest.param("\ud800", "surrogate", id="half a surrogate pair"),
        pytest.param({"": 1}, "not empty", id="a name that is empty"),
        pytest.param({1: 1}, "strings", id="a name that is a number"),
        pytest.param(b"x", "bytes is not a JSON type", id="bytes"),
        pytest.param(
            datetime(2026, 1, 1, tzinfo=UTC), "datetime is not a JSON type", id="datetime"
        ),
        pytest.param(_deep(31), "nested", id="too deep"),
    ],
)
async def test_what_cant_be_stored_is_refused_and_the_place_is_named(
    at: TableUnderTest, value: Any, why: str
) -> None:
    bad = _item(at, "bad", data={"fine": 1, "result": value})

    with pytest.raises(TransportError, match=rf"sk='bad'.*data\['result'\].*{why}"):
        await at.table.put([_item(at, "good"), bad])
    with pytest.raises(TransportError, match=r"sk='bad'"):
        await at.table.replace(replace(bad, version=1))

    assert await _names(at) == []


async def test_values_may_be_nested_as_deep_as_dynamodb_allows(at: TableUnderTest) -> None:
    item = _item(at, data=_deep(31))

    await _put(at, item)

    assert await at.table.get(at.pk, "a") == item


@pytest.mark.parametrize("sk", ["", "x" * 1025, "ä" * 513], ids=["empty", "long", "long in UTF-8"])
async def test_a_key_has_to_have_1_to_1024_bytes(at: TableUnderTest, sk: str) -> None:
    with pytest.raises(TransportError, match="1 to 1024 bytes"):
        await at.table.put([_item(at, sk)])


async def test_an_expiry_without_a_time_zone_is_refused(at: TableUnderTest) -> None:
    naive = _in(at, hours=1).replace(tzinfo=None)
    with pytest.raises(TransportError, match="no time zone"):
        await at.table.put([_item(at, expires_at=naive)])


# --- query and get -------------------------------------------------------------------------------


async def test_a_query_is_in_the_order_of_the_bytes_of_sk(at: TableUnderTest) -> None:
    names = ["", "!", "A", "a", "aa", "a\U0001f600", "a\uffff", "b", "Z", "é", "10", "9"]
    names = [f"s{name}" for name in names]
    await _put(at, *(_item(at, name) for name in names))

    assert await _names(at) == sorted(names, key=str.encode)


async def test_a_query_reads_only_what_starts_with_its_prefix(at: TableUnderTest) -> None:
    await _put(at, *(_item(at, name) for name in ("run#1", "run#10", "run#2", "done", "run")))

    assert await _names(at, "run#1") == ["run#1", "run#10"]
    assert await _names(at, "run") == ["run", "run#1", "run#10", "run#2"]
    assert await _names(at, "none") == []


async def test_a_query_reads_one_partition(at: TableUnderTest) -> None:
    other = f"{at.pk}x"
    await _put(at, _item(at), _item(at, pk=other, sk="b"))

    assert await _names(at) == ["a"]
    assert [item.sk for item in await at.table.query(other)] == ["b"]
    assert await at.table.query(f"{at.pk}y") == []


@_large_requests
async def test_a_query_reads_more_than_one_page(at: TableUnderTest) -> None:
    names = [f"{number:02}" for number in range(9)]  # 2.7 MB: a page holds at most 1 MiB
    for start in range(0, 9, 3):
        batch = names[start : start + 3]
        await _put(at, *(_item(at, name, data={"text": "x" * 300_000}) for name in batch))

    assert await _names(at) == names


async def test_pages_of_a_partition_follow_one_another(at: TableUnderTest) -> None:
    names = [f"{number:02}" for number in range(7)]
    await _put(at, *(_item(at, name) for name in names))

    found, after = list[str](), ""
    for _ in range(4):
        page = await at.table.page(at.pk, after=after, limit=3)
        found += [item.sk for item in page.items]
        after = page.after
        if not after:
            break

    assert found == names
    assert after == ""
    assert (await at.table.page(f"{at.pk}y")).items == []


@_large_requests
async def test_a_scan_finds_what_has_a_text_at_a_path_page_by_page(at: TableUnderTest) -> None:
    long = "x" * 300_000
    name = f"org of {at.pk}"
    for number in range(5):
        tenant = {"org": name if number % 2 else "other"}
        await at.table.put([Item(pk=f"{at.pk}{number}", sk="s", data={"t": tenant, "long": long})])
    await at.table.put([Item(pk=at.pk, sk="s", data={"t": name})])

    found, after, pages = list[Item](), "", 0
    while pages == 0 or after:
        page = await at.table.scan(("t", "org"), name, after=after)
        found, after, pages = [*found, *page.items], page.after, pages + 1

    assert sorted(item.pk for item in found) == [f"{at.pk}1", f"{at.pk}3"]
    assert pages > 1


async def test_a_page_reads_a_mebibyte_at_most(at: TableUnderTest) -> None:
    names = [f"{number:02}" for number in range(6)]
    for start in range(0, 6, 3):
        batch = names[start : start + 3]
        await _put(at, *(_item(at, name, data={"text": "x" * 300_000}) for name in batch))

    first = await at.table.page(at.pk)
    second = await at.table.page(at.pk, after=first.after)

    assert 3 <= len(first.items) < 6
    assert [item.sk for item in (*first.items, *second.items)] == names


async def test_what_has_expired_is_not_read(at: TableUnderTest) -> None:
    await _put(
        at,
        _item(at, "soon", expires_at=_in(at, seconds=60)),
        _item(at, "later", expires_at=_in(at, seconds=61)),
        _item(at, "never"),
    )
    assert await _names(at) == ["later", "never", "soon"]

    at.clock.advance(60)

    assert await _names(at) == ["later", "never"]
    assert await at.table.get(at.pk, "soon") is None
    assert await at.table.get(at.pk, "later") is not None


async def test_an_expiry_is_rounded_up_to_the_second(at: TableUnderTest) -> None:
    await _put(at, _item(at, expires_at=_in(at, seconds=1.25)))

    at.clock.advance(1.75)
    found = await at.table.get(at.pk, "a")
    assert found is not None
    assert found.expires_at == _in(at, seconds=0.25)

    at.clock.advance(0.25)
    assert await at.table.get(at.pk, "a") is None


async def test_getting_what_is_not_there_is_none(at: TableUnderTest) -> None:
    await _put(at, _item(at))

    assert await at.table.get(at.pk, "b") is None
    assert await at.table.get(f"{at.pk}x", "a") is None


# --- replace -------------------------------------------------------------------------------------


async def test_version_1_is_created_where_there_is_nothing(at: TableUnderTest) -> None:
    item = _item(at, version=1, expires_at=_in(at, hours=1))

    assert await at.table.replace(item) is None

    assert await at.table.get(at.pk, "a") == item


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_version_1_is_refused_where_an_item_exists(at: TableUnderTest, version: int) -> None:
    standing = _item(at, data={"by": "other"}, version=version, expires_at=_in(at, hours=1))
    await _put(at, standing)

    assert await at.table.replace(_item(at, version=1)) == standing

    assert await at.table.get(at.pk, "a") == standing


async def test_version_1_is_created_over_what_has_expired(at: TableUnderTest) -> None:
    await _put(at, _item(at, version=4, expires_at=_in(at, seconds=10)))
    mine = _item(at, data={"by": "next"}, version=1)

    at.clock.advance(9.5)
    assert await at.table.replace(mine) is not None
    at.clock.advance(0.5)

    assert await at.table.replace(mine) is None
    assert await at.table.get(at.pk, "a") == mine


async def test_the_next_version_replaces_the_one_before(at: TableUnderTest) -> None:
    for version in (1, 2, 3):
        item = _item(at, data={"round": version}, version=version)
        assert await at.table.replace(item) is None
        assert await at.table.get(at.pk, "a") == item


@pytest.mark.parametrize("version", [2, 3, 5])
async def test_any_other_version_is_refused_with_what_stands_there(
    at: TableUnderTest, version: int
) -> None:
    standing = _item(at, data={"by": "other", "n": 1.5}, version=3)
    await _put(at, standing)

    assert await at.table.replace(_item(at, version=version)) == standing

    assert await at.table.get(at.pk, "a") == standing


async def test_a_later_version_of_nothing_is_refused_with_nothing(at: TableUnderTest) -> None:
    assert await at.table.replace(_item(at, version=2)) == _nothing(at)
    assert await at.table.get(at.pk, "a") is None


async def test_a_later_version_of_what_has_expired_is_refused_with_nothing(
    at: TableUnderTest,
) -> None:
    await _put(at, _item(at, version=1, expires_at=_in(at, seconds=10)))
    at.clock.advance(10)

    assert await at.table.replace(_item(at, version=2)) == _nothing(at)


async def test_version_0_replaces_nothing(at: TableUnderTest) -> None:
    with pytest.raises(TransportError, match="count from 1"):
        await at.table.replace(_item(at))


@needs(TableFeature.CONCURRENT_WRITERS)
async def test_of_many_that_create_at_once_one_does(at: TableUnderTest) -> None:
    mine = [_item(at, data={"by": number}, version=1) for number in range(10)]

    answers = await asyncio.gather(*map(at.table.replace, mine))

    [winner] = [item for item, answer in zip(mine, answers, strict=True) if answer is None]
    assert [answer for answer in answers if answer is not None] == [winner] * 9
    assert await at.table.get(at.pk, "a") == winner


@needs(TableFeature.CONCURRENT_WRITERS)
async def test_of_many_that_replace_one_version_at_once_one_does(at: TableUnderTest) -> None:
    await _put(at, _item(at, version=1))
    mine = [_item(at, data={"by": number}, version=2) for number in range(10)]

    answers = await asyncio.gather(*map(at.table.replace, mine))

    assert answers.count(None) == 1
    assert await at.table.get(at.pk, "a") == mine[answers.index(None)]


async def test_after_an_answer_was_lost_the_writer_is_told_by_the_data(at: TableUnderTest) -> None:
    mine = _item(at, data={"owner": "worker-1/41"}, version=1)
    assert await at.table.replace(mine) is None  # the caller never sees the answer

    assert await at.table.replace(mine) == mine


# --- no table ------------------------------------------------------------------------------------


async def test_a_missing_table_is_named_by_every_method(at: TableUnderTest) -> None:
    item = _item(at, version=1)
    async with at.missing() as table:
        for call in (
            table.put([item]),
            table.query(at.pk),
            table.get(at.pk, "a"),
            table.replace(item),
            table.lines("a"),
            table.delete([(at.pk, "a")]),
        ):
            with pytest.raises(TableMissing, match="nowhere"):
                await call


# --- lines ---------------------------------------------------------------------------------------


def _listed(at: TableUnderTest, sk: str, place: str = "", **changes: Any) -> Item:
    line = ListLine(list=at.pk, place=place or sk, summary={"says": sk})
    return _item(at, sk, line=line, **changes)


async def _places(at: TableUnderTest, **bounds: Any) -> list[str]:
    found = await at.table.lines(at.pk, **bounds)
    return [item.line.place for item in found if item.line is not None]


async def test_a_list_is_read_from_its_end(at: TableUnderTest) -> None:
    await _put(at, *(_listed(at, name) for name in ("b", "c", "a")), _item(at, "unlisted"))

    assert await _places(at) == ["c", "b", "a"]
    assert await _places(at, limit=2) == ["c", "b"]


async def test_a_line_tells_its_item_and_its_summary_and_no_data(at: TableUnderTest) -> None:
    item = _listed(at, "a", "7", data={"much": "of it"}, expires_at=_in(at, hours=1))
    await _put(at, item)

    assert await at.table.lines(at.pk) == [replace(item, data={})]


async def test_an_item_keeps_its_line(at: TableUnderTest) -> None:
    await _put(at, item := _listed(at, "a"))

    assert await at.table.get(at.pk, "a") == item


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"after": "b"}, ["d", "c"]),
        ({"before": "c"}, ["b", "a"]),
        ({"after": "a", "before": "d"}, ["c", "b"]),
        ({"after": "a", "before": "d", "limit": 1}, ["c"]),
        ({"after": "d"}, []),
    ],
)
async def test_a_list_is_read_between_bounds_that_are_left_out(
    at: TableUnderTest, bounds: dict[str, Any], expected: list[str]
) -> None:
    await _put(at, *(_listed(at, name) for name in "abcd"))

    assert await _places(at, **bounds) == expected


async def test_a_line_goes_where_its_item_goes(at: TableUnderTest) -> None:
    await _put(at, _listed(at, "moves", "1"), _listed(at, "leaves", "2"), _listed(at, "stays", "3"))
    await _put(at, _listed(at, "moves", "4"), _item(at, "leaves"))

    assert await _places(at) == ["4", "3"]


async def test_lines_of_what_has_expired_are_not_read(at: TableUnderTest) -> None:
    await _put(at, *(_listed(at, f"old-{n}", expires_at=_in(at, hours=1)) for n in range(9)))
    await _put(at, _listed(at, "a-lasting-one"))
    at.clock.advance(timedelta(hours=2))

    assert await _places(at, limit=1) == ["a-lasting-one"]


# --- delete --------------------------------------------------------------------------------------


async def test_deleting_removes_items_and_tolerates_missing_ones(
    at: TableUnderTest,
) -> None:
    await _put(at, *(_listed(at, name) for name in "abc"))

    assert await at.table.delete([(at.pk, "a"), (at.pk, "c"), (at.pk, "never")]) == []

    assert await _names(at) == ["b"]
    assert await _places(at) == ["b"]


async def test_no_more_than_25_are_deleted_at_once_and_none_twice(at: TableUnderTest) -> None:
    with pytest.raises(TransportError, match="25"):
        await at.table.delete([(at.pk, str(number)) for number in range(26)])
    with pytest.raises(TransportError, match="duplicate"):
        await at.table.delete([(at.pk, "a"), (at.pk, "a")])


async def test_deleting_nothing_is_fine(at: TableUnderTest) -> None:
    assert await at.table.delete([]) == []
