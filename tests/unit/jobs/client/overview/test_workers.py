"""``client.workers``: who lives, who fell silent, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headgate import App
from headgate.jobs.client.overview.workers import AsyncWorkerDesk
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.errors import ServiceUnavailable, SettingsInvalid
from headgate.jobs.records.fleet.worker_status import (
    KEPT,
    SILENT_AFTER_S,
    WORKER_STATUSES,
    WorkerStatus,
    status_item,
)
from headgate.testing import Harness
from tests.support.clients import Kind, awaited
from tests.support.statuses import STATUS


class Shop:
    """An app's workers as a client sees them, on a clock that stands still."""

    def __init__(self, kind: Kind, records: RecordsLevel = "outcomes") -> None:
        app = App("shop", records=records)

        @app.job("send")
        def send() -> None: ...

        self.harness = Harness(app)
        client: Any = self.harness.async_client
        self.workers: AsyncWorkerDesk = (
            awaited(self.harness.client) if kind == "Client" else client
        ).workers

    def status(self, name: str, age_s: float = 0) -> WorkerStatus:
        """Return a status that was written so many seconds ago."""
        seen_at = self.harness.clock.now() - timedelta(seconds=age_s)
        return replace(
            STATUS, name=name, seen_at=seen_at, started_at=seen_at - timedelta(hours=1), running=()
        )

    async def put(self, *items: Item) -> None:
        await self.harness.table.put(items)


@pytest.fixture
def shop(kind: Kind) -> Shop:
    return Shop(kind)


async def test_no_worker_is_listed_before_one_has_written(shop: Shop) -> None:
    found = await shop.workers.list()
    assert (found.workers, found.silent, found.skipped, found.complete) == ([], [], 0, True)


async def test_a_worker_that_has_not_written_for_three_beats_is_silent_for_an_hour(
    shop: Shop,
) -> None:
    ages = {"a": 0.0, "b": SILENT_AFTER_S, "c": SILENT_AFTER_S + 1, "d": KEPT.total_seconds() + 1}
    await shop.put(*(status_item(shop.status(name, age)) for name, age in ages.items()))
    found = await shop.workers.list()
    assert [each.name for each in found.workers] == ["a", "b"]
    assert [each.name for each in found.silent] == ["c"]


async def test_a_clock_that_is_a_little_ahead_is_believed_and_one_far_ahead_is_not(
    shop: Shop,
) -> None:
    await shop.put(
        status_item(shop.status("ahead", -60)), status_item(shop.status("far-ahead", -600))
    )
    found = await shop.workers.list()
    assert [each.name for each in found.workers] == ["ahead"]
    assert (found.silent, found.skipped) == ([], 1)


async def test_strange_items_are_counted_and_hide_no_worker(shop: Shop) -> None:
    await shop.put(
        Item(pk=WORKER_STATUSES, sk="0"),
        status_item(shop.status("a")),
        Item(pk=WORKER_STATUSES, sk="z", data={"at": 7}),
    )
    found = await shop.workers.list()
    assert [each.name for each in found.workers] == ["a"]
    assert found.skipped == 2


async def test_a_table_full_of_strangers_bounds_what_is_read(shop: Shop) -> None:
    for start in range(0, 4_100, 25):
        await shop.put(*(Item(pk=WORKER_STATUSES, sk=f"{n:05}") for n in range(start, start + 25)))
    shop.harness.table.calls.clear()
    found = await shop.workers.list()
    assert (found.skipped, found.complete) == (4_000, False)
    assert shop.harness.table.calls == ["page"] * 4


async def test_a_table_that_is_away_is_said(shop: Shop) -> None:
    shop.harness.table.faults.raise_on("page", ServiceUnavailable("the table is away"))
    with pytest.raises(ServiceUnavailable, match="the table is away"):
        await shop.workers.list()


async def test_an_app_without_records_has_no_table_to_list_workers_from(kind: Kind) -> None:
    with pytest.raises(SettingsInvalid, match=r"'shop' write no table.*records='failures'"):
        await Shop(kind, records="off").workers.list()
