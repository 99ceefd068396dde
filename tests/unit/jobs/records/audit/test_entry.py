"""Entries of the audit, written and read again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate.jobs.records.audit.entry import (
    AuditEntry,
    AuditOutcome,
    AuditTarget,
    begun_item,
    ended_item,
    new_place,
    read_begun,
    stamp,
    with_end,
)

AT = datetime(2026, 11, 1, 8, tzinfo=UTC)
KEEP = timedelta(days=365)
ENTRY = AuditEntry(
    id=new_place(AT),
    at=AT,
    actor="ada",
    action="purge",
    target=AuditTarget(kind="dead letters", name="types=send-email"),
    reason="a flood",
    detail="without copies",
)
ENDED = replace(
    ENTRY, outcome=AuditOutcome.DONE, ended_at=AT + timedelta(minutes=2), count=3, result="r"
)


def test_an_entry_is_read_as_it_was_written() -> None:
    assert read_begun(begun_item(ENTRY, KEEP)) == ENTRY
    assert with_end(ENTRY, ended_item(ENDED, KEEP)) == ENDED


def test_both_items_of_an_entry_expire_together() -> None:
    begun, ended = begun_item(ENTRY, KEEP), ended_item(ENDED, KEEP)
    assert begun.expires_at == ended.expires_at == AT + KEEP


def test_items_of_an_entry_are_only_ever_created() -> None:
    assert (begun_item(ENTRY, KEEP).version, ended_item(ENDED, KEEP).version) == (1, 1)


def test_later_entries_come_first_and_an_outcome_right_after_its_entry() -> None:
    later = replace(ENTRY, id=new_place(AT + timedelta(microseconds=1)))
    places = [
        begun_item(later, KEEP).sk,
        ended_item(replace(ENDED, id=later.id), KEEP).sk,
        begun_item(ENTRY, KEEP).sk,
        ended_item(ENDED, KEEP).sk,
    ]
    assert sorted(places) == places


def test_of_entries_made_at_one_time_the_later_comes_first() -> None:
    places = [new_place(AT) for _ in range(3)]
    assert sorted(places) == places[::-1]


def test_an_entry_without_an_outcome_has_no_end() -> None:
    with pytest.raises(ValueError, match="has no outcome"):
        ended_item(ENTRY, KEEP)


def test_texts_are_cut_and_take_one_line() -> None:
    told = replace(ENTRY, actor="a" * 500, reason="one\ntwo\x1b[2J", detail="x" * 1_000)
    found = read_begun(begun_item(told, KEEP))
    assert found is not None
    assert (len(found.actor), found.reason, len(found.detail)) == (100, "one two\\x1b[2J", 300)


@pytest.mark.parametrize(
    "data",
    [
        {"at": None},
        {"at": "soon"},
        {"at": (AT + timedelta(hours=1)).isoformat()},
        {"actor": 5},
        {"actor": ""},
        {"actor": "x" * 101},
        {"action": None},
        {"action": "x" * 41},
        {"kind": []},
        {"name": {"a": 1}},
        {"reason": "x" * 301},
        {"detail": 1},
    ],
    ids=str,
)
def test_an_item_that_no_client_wrote_is_no_entry(data: dict[str, Any]) -> None:
    item = begun_item(ENTRY, KEEP)
    assert read_begun(replace(item, data={**item.data, **data})) is None


def test_an_item_at_another_place_is_no_entry() -> None:
    item = begun_item(ENTRY, KEEP)
    for place in ("x", stamp(AT), f"{stamp(AT)}-xyz", new_place(AT - timedelta(seconds=1))):
        assert read_begun(replace(item, sk=place)) is None


@pytest.mark.parametrize(
    "data",
    [
        {"at": 5},
        {"outcome": "perhaps"},
        {"outcome": ["done"]},
        {"count": -1},
        {"count": "many"},
        {"result": "x" * 301},
        {"error_type": None},
    ],
    ids=str,
)
def test_an_item_that_no_client_wrote_is_no_outcome(data: dict[str, Any]) -> None:
    item = ended_item(ENDED, KEEP)
    assert with_end(ENTRY, replace(item, data={**item.data, **data})) is None


def test_an_outcome_is_of_its_own_entry_alone() -> None:
    other = replace(ENDED, id=new_place(AT))
    assert with_end(ENTRY, ended_item(other, KEEP)) is None
