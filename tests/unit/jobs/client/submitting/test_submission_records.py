"""Submissions are recorded where requested, and never fail because of their record."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Client
from headgate.jobs.client.submitting.submission_records import drain_records
from headgate.jobs.core.events import Event, Events, RecordsFailed, RecordsShed
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.records import journal
from headgate.jobs.records.items import asked_partition
from headgate.jobs.testing import LoopClock, MemorySqs, MemoryTable, VirtualClock
from tests.support.backends import async_over, over
from tests.support.clients import Kind, client_of


class Note(BaseModel):
    text: str = ""


def declared() -> App:
    app = App("shop")
    app.define("full", Note, records="full")
    app.define("plain", Note)
    return app


async def test_a_submission_of_a_type_with_full_records_is_written_down(kind: Kind) -> None:
    app, clock = declared(), VirtualClock()
    table, sqs = MemoryTable(clock), MemorySqs(clock)
    sqs.provision(app.topology)
    async with client_of(kind, app, sqs, table=table, clock=clock) as client:
        jobs = await client.submit_many(app.types["full"], [Note()] * 60, tenant="org-1")
        await client.submit(app.types["plain"], Note())
    assert table.calls == ["put"] * 3, "60 items, 25 to a request, and none for the other type"
    for job in jobs:
        item = await table.get(asked_partition(job.id), "submitted")
        assert item is not None
        assert item.data == {
            "at": clock.now().isoformat(),
            "type": "full",
            "queue": "jobs",
            "priority": "normal",
            "tenant": {"org": "org-1"},
            "source": "sdk",
        }


@pytest.mark.looptime
async def test_a_submission_that_can_not_be_recorded_is_still_sent(
    kind: Kind,
) -> None:
    app, clock = declared(), LoopClock()
    table, sqs = MemoryTable(clock), MemorySqs(clock)
    sqs.provision(app.topology)
    heard: list[Event] = []
    table.faults.leave_unprocessed(times=100)
    async with client_of(
        kind, app, sqs, table=table, clock=clock, events=Events(heard.append)
    ) as client:
        await client.submit(app.types["full"], Note())
    table.faults.clear()
    table.faults.raise_on("put", ServiceUnavailable("gone"), times=100)
    async with client:
        await client.submit(app.types["full"], Note())
    busy, gone = [event.error for event in heard if isinstance(event, RecordsFailed)]
    assert "the table was too busy" in busy
    assert gone == "gone"
    assert len(sqs.messages("shop-jobs-normal")) == 2


@pytest.mark.parametrize(("failures", "recorded"), [(1, 75), (2, 50), (100, 0)])
def test_a_write_that_fails_costs_the_records_of_its_own_jobs_unless_the_table_is_down(
    failures: int, recorded: int
) -> None:
    app, clock, heard = declared(), VirtualClock(), list[Event]()
    table, sqs = MemoryTable(clock), MemorySqs(clock)
    sqs.provision(app.topology)
    table.faults.raise_on("put", ServiceUnavailable("gone"), times=failures)
    backend = over(sqs.sync, table=table.sync, clock=clock)
    with Client(app, backend=backend, events=Events(heard.append)) as client:
        jobs = client.submit_many(app.types["full"], [Note()] * 100)
    found = [table.sync.get(asked_partition(job.id), "submitted") for job in jobs]
    assert sum(item is not None for item in found) == recorded
    told = [event.error for event in heard if isinstance(event, RecordsFailed)]
    assert told == ["gone"] * min(failures, 3) + ["gave up the other 25 items"] * (failures > 3)


@pytest.mark.looptime
async def test_an_event_loop_waits_for_no_record_of_what_it_submits() -> None:
    app, clock = declared(), LoopClock()
    table, sqs = MemoryTable(clock), MemorySqs(clock)
    sqs.provision(app.topology)
    table.faults.slow_down("put", 60, times=1)
    async with AsyncClient(app, backend=async_over(sqs, table=table, clock=clock)) as client:
        began = clock.monotonic()
        first = await client.submit(app.types["full"], Note())
        await client.submit_many(app.types["full"], [Note()] * 60)
        assert clock.monotonic() - began < 1
    assert await table.get(asked_partition(first.id), "submitted") is not None, "written at the end"
    assert len(table.calls) <= 5


@pytest.mark.looptime
async def test_records_that_find_no_room_while_the_table_is_down_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "ROOM", 40)
    app, clock = declared(), LoopClock()
    table, sqs = MemoryTable(clock), MemorySqs(clock)
    sqs.provision(app.topology)
    heard: list[Event] = []
    table.faults.slow_down("put", 60, times=10)
    table.faults.raise_on("put", ServiceUnavailable("gone"), times=10**6)
    backend = async_over(sqs, table=table, clock=clock)
    async with AsyncClient(app, backend=backend, events=Events(heard.append)) as client:
        for _ in range(3):
            await client.submit_many(app.types["full"], [Note(text="secret")] * 20)
        assert [each for each in heard if isinstance(each, RecordsShed)] == []
        await drain_records(client)
        table.faults.clear()
        found = await client.submit_many(app.types["full"], [Note()] * 20)
    assert [each.items for each in heard if isinstance(each, RecordsShed)] == [20]
    assert await table.get(asked_partition(found[-1].id), "submitted") is not None, "room again"
    assert len(sqs.messages("shop-jobs-normal")) == 80
