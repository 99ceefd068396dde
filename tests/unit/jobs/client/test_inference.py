"""States of jobs that no record tells: inferred from the id, the schedules and the retention."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from headgate import App, AsyncJobHandle, Backoff, JobState, Keep, Retry, Tenant
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.errors import RecordsOff, ResultTimeout
from headgate.jobs.messages.job_ids import new_job_id, time_of
from headgate.jobs.records.history import JobRecord
from headgate.jobs.records.items import partition
from headgate.jobs.testing.next_message import DrainUnfinished
from headgate.testing import Harness, MemoryBackend
from tests.support.clients import Kind, client_of
from tests.support.story import Story

DAY = timedelta(days=1)


class Shop:
    """An app with types of several levels, a client of one kind, and AWS in memory."""

    def __init__(self, kind: Kind, records: RecordsLevel = "outcomes") -> None:
        self.app = App("shop", records=records)
        self.send = self.app.define("send", dict)
        self.backend = MemoryBackend(self.app)
        self.clock = self.backend.clock
        self.client = client_of(
            kind,
            self.app,
            self.backend.sqs,
            table=self.backend.table,
            scheduler=self.backend.scheduler,
            clock=self.clock,
            sleep=self.clock.advance,
        )

    async def look(self, job: AsyncJobHandle[Any]) -> JobRecord:
        return await job.history()


@pytest.fixture
def shop(kind: Kind) -> Shop:
    return Shop(kind)


async def test_a_job_that_no_worker_has_begun_is_waiting_and_said_to_be_inferred(
    shop: Shop,
) -> None:
    job = await shop.client.submit(shop.send, {})
    record = await shop.look(job)
    assert (record.state, record.inferred) == (JobState.WAITING, True)
    assert "nothing is recorded of it: it waits in its queue, which keeps it until" in (
        record.explanation
    )
    assert record.submitted_at == time_of(UUID(job.id))


async def test_a_job_waits_until_its_queues_retention_is_over(shop: Shop) -> None:
    job = await shop.client.submit(shop.send, {})
    # An id's time may be ahead of a clock that was set back, as by the test before.
    submitted_at = time_of(UUID(job.id))
    assert submitted_at is not None
    shop.clock.advance(submitted_at - shop.clock.now() + 4 * DAY - timedelta(seconds=1))
    assert await job.state() is JobState.WAITING
    shop.clock.advance(1)
    record = await shop.look(job)
    assert (record.state, record.inferred) == (JobState.UNKNOWN, False)
    assert "no queue has kept it since" in record.explanation


async def test_only_an_id_that_can_be_none_is_unknown(shop: Shop) -> None:
    now = shop.clock.now()
    for job_id, said in (
        (uuid4(), "no job has such an id: it is not a UUIDv7"),
        (new_job_id(now + DAY), "no job has the id yet"),
        (UUID(int=UUID("0196a2b4-0000-7000-8000-000000000001").int | 0xFFFF << 112), "UUIDv7"),
    ):
        record = await shop.look(shop.client.handle(str(job_id)))
        assert (record.state, record.inferred) == (JobState.UNKNOWN, False)
        assert said in record.explanation
    assert await shop.client.handle(str(new_job_id(now))).state() is JobState.WAITING


async def test_a_job_in_a_one_time_schedule_is_delayed_until_it_fires(shop: Shop) -> None:
    due = shop.clock.now() + 3 * DAY
    job = await shop.client.submit(shop.send, {}, at=due)
    record = await shop.look(job)
    assert (record.state, record.not_before, record.inferred) == (JobState.DELAYED, due, False)
    assert record.explanation == "a one-time schedule holds it until it is due"
    shop.clock.advance(3 * DAY)
    assert await job.state() is JobState.WAITING


async def test_a_short_delay_needs_no_schedule_and_its_job_waits(shop: Shop) -> None:
    job = await shop.client.submit(shop.send, {}, delay=600)
    assert await job.state() is JobState.WAITING


async def test_a_delay_that_is_recorded_needs_no_look_at_schedules(shop: Shop) -> None:
    job = shop.client.handle(str(new_job_id(shop.clock.now())), shop.send)
    due = shop.clock.now() + timedelta(minutes=10)
    story = Story(job.id, start=shop.clock.now()).submitted(not_before=due.isoformat())
    await shop.backend.table.put(story.items)
    record = await shop.look(job)
    assert (record.state, record.inferred, record.explanation) == (JobState.DELAYED, False, "")
    shop.clock.advance(601)
    assert await job.state() is JobState.WAITING


@pytest.mark.parametrize(
    "options", [{"records": "failures"}, {"keep": 0}, {"keep": Keep(timedelta(0))}]
)
async def test_nothing_is_inferred_of_a_type_whose_completed_jobs_leave_no_record(
    kind: Kind, options: dict[str, object]
) -> None:
    shop = Shop(kind)
    silent = shop.app.define("silent", dict, **options)  # type: ignore[call-overload]  # of three kinds
    job = await shop.client.submit(silent, {})
    for handle in (job, shop.client.handle(job.id)):  # without its type it may be of this one
        record = await shop.look(handle)
        assert record.state is JobState.UNKNOWN
        assert "of the type 'silent': it may wait, run or have completed" in record.explanation
    assert await (await shop.client.submit(shop.send, {})).state() is JobState.WAITING


async def test_a_job_waits_no_longer_than_its_completion_would_be_kept(kind: Kind) -> None:
    shop = Shop(kind)
    brief = shop.app.define("brief", dict, keep=timedelta(hours=1))
    job = await shop.client.submit(brief, {})
    assert await job.state() is JobState.WAITING
    shop.clock.advance(3_660)
    for handle in (job, shop.client.handle(job.id)):  # without its type it may be of this one
        record = await shop.look(handle)
        assert (record.state, record.inferred) == (JobState.UNKNOWN, False)
        assert "as those of the type 'brief' do by then" in record.explanation
    assert await shop.client.handle(job.id, shop.send).state() is JobState.WAITING


async def test_a_handle_knows_the_short_retention_that_its_submission_has_set(shop: Shop) -> None:
    job = await shop.client.submit(shop.send, {}, keep=3_600)
    shop.clock.advance(3_660)
    assert await job.state() is JobState.UNKNOWN
    by_id = await shop.look(shop.client.handle(job.id))
    assert (by_id.state, by_id.inferred) == (JobState.WAITING, True)


async def test_without_records_no_state_is_told(kind: Kind) -> None:
    shop = Shop(kind, records="off")
    job = await shop.client.submit(shop.send, {})
    with pytest.raises(RecordsOff, match="declare it with records='outcomes'"):
        await job.state()


async def test_a_wait_that_ends_names_the_inferred_state(shop: Shop) -> None:
    job = await shop.client.submit(shop.send, {})
    with pytest.raises(ResultTimeout, match="its state is waiting"):
        await job.wait(timeout=3)


async def test_the_id_of_another_types_job_is_no_waiting_job(shop: Shop) -> None:
    story = Story(str(new_job_id(shop.clock.now())), job_type="other").run(1, "failed")
    await shop.backend.table.put(story.items)
    record = await shop.look(shop.client.handle(story.job_id, shop.send))
    assert (record.state, record.inferred) == (JobState.UNKNOWN, False)
    assert record.explanation == "the id is that of a job of the type 'other'"


async def test_a_job_that_shall_be_cancelled_waits_until_a_worker_has_it(shop: Shop) -> None:
    job = await shop.client.submit(shop.send, {})
    await job.cancel("a mistake")
    record = await shop.look(job)
    assert (record.state, record.cancel_reason) == (JobState.WAITING, "a mistake")


async def test_strange_items_in_the_jobs_partition_are_no_record(shop: Shop) -> None:
    job = await shop.client.submit(shop.send, {})
    await shop.backend.table.put([Item(pk=partition(job.id), sk="claim", data={"owner": "w-1"})])
    assert await job.state() is JobState.WAITING


# --- together with workers ------------------------------------------------------------------------


def test_a_job_that_waits_twelve_hours_and_more_for_its_next_attempt_is_retrying() -> None:
    app = App("shop")

    @app.job(
        "send",
        other_priorities=["high"],
        retry=Retry(max_attempts=2, backoff=Backoff.fixed(20 * 3600)),
    )
    async def send(_payload: dict[str, str]) -> None:
        raise ConnectionError("refused")

    jobs = Harness(app)
    submitted_at = jobs.clock.now()
    job = jobs.client.submit(send, {}, tenant="org-1", priority="high")
    assert job.state() is JobState.WAITING
    with pytest.raises(DrainUnfinished):
        jobs.drain(max_runs=1)
    assert (job.state(), len(jobs.scheduler.schedules)) == (JobState.RETRYING, 1)
    jobs.drain()
    record = job.history()
    assert record.state is JobState.DEAD
    assert [each.what for each in record.timeline] == ["failed", "failed", "dead"]
    assert (record.tenant, record.priority) == (Tenant(org="org-1"), "high")
    assert record.submitted_at == submitted_at


def test_a_paused_job_waits_and_completes_once_it_is_resumed() -> None:
    app = App("shop")

    @app.job("send")
    async def send(_payload: dict[str, str]) -> None: ...

    jobs = Harness(app)
    jobs.client.pauses.create(job_type="send")
    job = jobs.client.submit(send, {})
    assert job.state() is JobState.WAITING
    assert jobs.client.pauses.remove(job_type="send")
    jobs.drain()
    assert (job.state(), job.history().explanation) == (JobState.COMPLETED, "")
