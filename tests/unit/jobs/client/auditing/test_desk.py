"""``client.audit``: pages, filters, and what nobody's client has written."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from headgate import App, acting_as
from headgate.jobs.client.auditing import desk
from headgate.jobs.core.ports.table import Item
from headgate.jobs.errors import ConfigurationError, ServiceUnavailable
from headgate.jobs.records.audit.entry import AUDIT
from headgate.jobs.testing import Harness
from tests.support.clients import Kind, awaited


class Shop:
    """An app in which tenants are paused, one an hour."""

    def __init__(self, kind: Kind) -> None:
        app = App("shop")
        app.define("note", dict)
        self.jobs = Harness(app)
        self.client: Any
        self.client = awaited(self.jobs.client) if kind == "Client" else self.jobs.async_client

    async def act(self, count: int) -> None:
        for number in range(count):
            with acting_as("Ada" if number % 2 else "bob"):
                await self.client.pauses.create(tenant=f"org-{number}")
            self.jobs.clock.advance(timedelta(hours=1))

    async def names(self, **wanted: Any) -> list[str]:
        """Return the targets of the entries on all pages."""
        found, after = list[str](), ""
        while True:
            page = await self.client.audit.list(after=after, **wanted)
            found += [each.target.name for each in page.entries]
            if not (after := page.next):
                return found


@pytest.fixture
def shop(kind: Kind) -> Shop:
    return Shop(kind)


async def test_the_latest_comes_first(shop: Shop) -> None:
    await shop.act(3)
    assert await shop.names() == ["org-2", "org-1", "org-0"]


async def test_an_audit_without_entries_is_empty(shop: Shop) -> None:
    page = await shop.client.audit.list()
    assert (page.entries, page.next, page.skipped) == ([], "", 0)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
async def test_pages_have_each_entry_once_with_its_outcome(shop: Shop, limit: int) -> None:
    await shop.act(7)
    assert await shop.names(limit=limit) == [f"org-{number}" for number in reversed(range(7))]
    page = await shop.client.audit.list(limit=limit)
    assert len(page.entries) == min(limit, 7)
    assert all(each.outcome == "done" for each in page.entries)
    assert bool(page.next) == (limit < 7)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
async def test_an_entry_is_whole_wherever_a_request_ends(
    shop: Shop, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_CHUNK", chunk)
    await shop.act(9)
    assert await shop.names(limit=2) == [f"org-{number}" for number in reversed(range(9))]
    assert await shop.names(actor="ada") == ["org-7", "org-5", "org-3", "org-1"]


async def test_entries_are_chosen_by_time(shop: Shop) -> None:
    start = shop.jobs.clock.now()
    await shop.act(5)
    assert await shop.names(since=timedelta(hours=2)) == ["org-4", "org-3"]
    assert await shop.names(until=timedelta(hours=3)) == ["org-1", "org-0"]
    since, until = start + timedelta(hours=1), start + timedelta(hours=3)
    assert await shop.names(since=since, until=until, limit=1) == ["org-2", "org-1"]


async def test_entries_are_chosen_by_actor_action_and_target(shop: Shop) -> None:
    await shop.act(4)
    await shop.client.pauses.remove(tenant="org-1")
    assert await shop.names(actor="ADA") == ["org-3", "org-1"]
    assert await shop.names(action="resume") == ["org-1"]
    assert await shop.names(target="ORG-1") == ["org-1", "org-1"]
    assert await shop.names(target="tenant org-3", action="pause", actor="ada") == ["org-3"]
    assert await shop.names(action="purge") == []


async def test_a_page_ends_early_where_too_much_lies_in_between(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_CHUNK", 2)
    monkeypatch.setattr(desk, "_MOST_REQUESTS", 2)
    await shop.act(9)
    page = await shop.client.audit.list(target="org-0")
    assert (page.entries, bool(page.next)) == ([], True)
    assert await shop.names(target="org-0") == ["org-0"]


async def test_what_no_client_wrote_is_left_out_and_counted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.act(2)
    table = shop.jobs.table
    own = await table.query(AUDIT)
    forged = replace(own[0], sk=own[0].sk[:-8] + "00000000", data={**own[0].data, "actor": 5})
    strange = [
        Item(pk=AUDIT, sk="#"),
        Item(pk=AUDIT, sk="x#outcome", data={"outcome": "done"}),
        Item(pk=AUDIT, sk="z" * 900, data={"at": "soon"}),
        forged,
        replace(own[1], data={"outcome": {"a": 1}}),  # the outcome of the last action
    ]
    await table.put(strange)
    page = await shop.client.audit.list()
    assert [(each.target.name, each.outcome) for each in page.entries] == [
        ("org-1", None),
        ("org-0", "done"),
    ]
    assert page.skipped == 5
    monkeypatch.setattr(desk, "_CHUNK", 2)
    monkeypatch.setattr(desk, "_MOST_REQUESTS", 1)
    assert await shop.names() == ["org-1", "org-0"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"limit": 0}, "limit must lie between 1 and 1,000"),
        ({"limit": 1_001}, "limit must lie between"),
        ({"after": "soon!"}, "the end of no page"),
        ({"after": "_w"}, "the end of no page"),
        ({"since": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001 - that is the mistake
        ({"since": 60, "until": 3_600}, "nothing is both since"),
    ],
)
async def test_what_can_not_be_asked_for_is_refused(
    shop: Shop, wanted: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await shop.client.audit.list(**wanted)


async def test_a_table_that_is_away_is_an_error(shop: Shop) -> None:
    shop.jobs.table.faults.raise_on("page", ServiceUnavailable("no table"))
    with pytest.raises(ServiceUnavailable):
        await shop.client.audit.list()
