"""Jobs with full records start no faster than the table takes their items, unless it is silent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headgate import App, Priority
from headgate.jobs.core.events import JobCompleted, RecordsFailed, RecordsShed, RecordsWritten
from headgate.jobs.records import journal
from headgate.jobs.records.items import partition
from tests.unit.workers.rig import LIMIT_S, Note, Rig, one_lane, without_threads

pytestmark = without_threads

ROOM = 400
JOBS = 600
FOR_EVER = 10**6
ITEMS_PER_S = 100
"""What the table takes: four requests at once of 25 items each, which last a second."""

TEXTS = [str(number) for number in range(JOBS)]


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fewer items wait than the jobs of a test have."""
    monkeypatch.setattr(journal, "ROOM", ROOM)


def slow(rig: Rig, by_s: float = 100 / ITEMS_PER_S) -> None:
    rig.table.faults.slow_down("put", by_s, times=FOR_EVER)


async def items_of(rig: Rig, job_ids: list[str]) -> list[int]:
    rig.table.faults.clear()
    return [len(await rig.table.query(partition(job_id))) for job_id in job_ids]


async def test_jobs_run_as_fast_as_the_table_takes_their_records() -> None:
    app, mail = one_lane(records="full")

    @mail.job("work")
    async def work(_note: Note) -> None: ...

    rig = Rig(app)
    job_ids = await rig.submit(work, *TEXTS)
    slow(rig)
    began = rig.clock.monotonic()
    async with rig.working():
        await rig.happens(JobCompleted, JOBS)
        took_s = rig.clock.monotonic() - began
    least_s = 2 * JOBS / ITEMS_PER_S
    assert least_s - 3 <= took_s <= 1.1 * least_s
    assert rig.heard(RecordsShed) == []
    assert await items_of(rig, job_ids) == [2] * JOBS


async def test_a_table_that_leaves_out_what_is_too_much_is_used_to_the_full() -> None:
    app, mail = one_lane(records="full")

    @mail.job("work")
    async def work(_note: Note) -> None: ...

    rig = Rig(app)
    job_ids = await rig.submit(work, *TEXTS)
    rig.table.faults.leave_unprocessed(times=FOR_EVER, indexes=range(5, 25))
    async with rig.working():
        await rig.happens(JobCompleted, JOBS)
    assert rig.heard(RecordsShed) == []
    assert await items_of(rig, job_ids) == [2] * JOBS


async def test_a_table_that_hangs_stops_no_job_and_sheds_are_told() -> None:
    app, mail = one_lane(records="full")

    @mail.job("work")
    async def work(_note: Note) -> None: ...

    rig = Rig(app)
    await rig.submit(work, *TEXTS)
    slow(rig, LIMIT_S)
    began = rig.clock.monotonic()
    async with rig.working():
        await rig.happens(JobCompleted, JOBS)
        assert rig.clock.monotonic() - began <= 5 + 2
        await rig.happens(RecordsShed)
    assert rig.remaining() == 0
    assert sum(event.items for event in rig.heard(RecordsShed)) == 2 * JOBS


async def test_a_table_that_refuses_everything_holds_up_nothing() -> None:
    app, mail = one_lane(records="full")

    @mail.job("work")
    async def work(_note: Note) -> None: ...

    rig = Rig(app)
    await rig.submit(work, *TEXTS)
    began = rig.clock.monotonic()
    async with rig.working():
        rig.table.missing = True
        await rig.happens(JobCompleted, JOBS)
        assert rig.clock.monotonic() - began <= 1
        await rig.happens(RecordsFailed)


async def test_jobs_without_full_records_and_critical_ones_wait_for_no_table() -> None:
    app = App("shop", records="full")
    gates = {
        "slow": app.queue("slow", priorities=[Priority.HIGH]),
        "urgent": app.queue("urgent", priorities=[Priority.CRITICAL]),
        "other": app.queue("other", priorities=[Priority.LOW]),
    }

    @gates["slow"].job("work")
    async def work(_note: Note) -> None: ...

    @gates["urgent"].job("now")
    async def now(_note: Note) -> None: ...

    @gates["other"].job("plain", records="outcomes")
    async def plain(_note: Note) -> None: ...

    rig = Rig(app)
    await rig.submit(work, *TEXTS)
    slow(rig)
    async with rig.working():
        await rig.happens(JobCompleted, 200)
        for job in (now, plain):
            sent_at = rig.clock.now()
            [job_id] = await rig.submit(job)
            await rig.happens(JobCompleted, len(rig.heard(JobCompleted)) + 1)
            ended = {event.job_id: event.at for event in rig.heard(JobCompleted)}
            assert ended[job_id] - sent_at <= timedelta(seconds=0.1)
        assert len(rig.heard(JobCompleted)) < JOBS
        await rig.happens(JobCompleted, JOBS + 2)
    assert rig.heard(RecordsShed) == []


async def test_a_worker_that_stops_has_time_for_the_records_that_wait() -> None:
    app, mail = one_lane(records="full", visibility_s=600)

    @mail.job("work")
    async def work(_note: Note) -> None: ...

    rig = Rig(app)
    await rig.submit(work, *TEXTS)
    slow(rig)
    async with rig.working():
        await rig.happens(JobCompleted, 300)
    assert rig.report is not None
    assert rig.report.clean
    assert rig.heard(RecordsShed) == []
    assert rig.in_flight() == 0
    assert rig.remaining() == JOBS - len(rig.heard(JobCompleted))


async def test_jobs_of_a_fifo_group_wait_in_their_order() -> None:
    app = App("shop", records="full")
    ran: list[str] = []
    line = app.queue("line", fifo=True, priorities=[Priority.NORMAL])

    @line.job("work")
    async def work(note: Note) -> None:
        ran.append(note.text)

    rig = Rig(app)
    await rig.submit(work, *TEXTS[:300], group="one")
    slow(rig)
    async with rig.working():
        await rig.happens(JobCompleted, 300)
    assert ran == TEXTS[:300]
    assert rig.heard(RecordsShed) == []


async def test_after_an_outage_the_records_that_wait_are_written_first() -> None:
    app, mail = one_lane(records="full")

    @mail.job("work")
    async def work(_note: Note) -> None: ...

    rig = Rig(app)
    job_ids = await rig.submit(work, *TEXTS[:150])
    rig.table.missing = True
    async with rig.working():
        await rig.happens(JobCompleted, 150)
        rig.table.missing = False
        slow(rig)
        await rig.happens(RecordsWritten)
        job_ids += await rig.submit(work, *TEXTS[150:])
        await rig.happens(JobCompleted, JOBS)
    assert rig.heard(RecordsShed) == []
    assert await items_of(rig, job_ids) == [2] * JOBS
