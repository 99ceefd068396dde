"""Delays longer than SQS's: from the submission through a one-time schedule to the run."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headgate import (
    App,
    AsyncClient,
    Client,
    JobFilter,
    Keep,
    Priority,
    Retry,
    RetryLater,
    Tenant,
)
from headgate.jobs.core.events import JobRetryScheduled, JobStarted, JobSubmitted
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import (
    AccessDenied,
    DelayInvalid,
    MessageUnreadable,
    PartlySubmitted,
    PayloadTooLarge,
    ServiceUnavailable,
    Throttled,
)
from headgate.jobs.handles.handle import JobHandle
from headgate.jobs.messages.envelope import parse
from headgate.jobs.records.items import asked_partition
from headgate.jobs.records.state import JobState
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.schedules.delayed_job import (
    MAX_INPUT_BYTES,
    DelayedJob,
    literally,
)
from headgate.jobs.schedules.inputs import parse_input
from headgate.jobs.testing import DrainUnfinished, Harness, MemoryScheduler, MemorySqs, VirtualClock
from tests.support.backends import async_over, over

QUEUE = "shop-test-jobs-normal"


class Note(BaseModel):
    text: str = ""


def declared() -> tuple[App, JobType[Note, None], list[str]]:
    """Return an app whose one type records the ids of its jobs."""
    app = App("shop", stage="test")
    ran: list[str] = []

    @app.job("note", other_priorities=["high"])
    def note(_note: Note, ctx: JobContext) -> None:
        ran.append(ctx.id)

    return app, note, ran


def test_a_delay_of_three_days_fires_once_and_at_the_right_minute() -> None:
    app, note, ran = declared()
    jobs = Harness(app)
    due = jobs.clock.now() + timedelta(days=3)
    job = jobs.client.submit(note, Note(text="a"), delay=timedelta(days=3))

    assert len(jobs.scheduler.schedules) == 1
    assert not any(jobs.sqs.messages(spec.name) for spec in app.topology.queues)
    jobs.drain()

    [started] = [event for event in jobs.events if isinstance(event, JobStarted)]
    assert ran == [job.id]
    assert started.at == due
    assert started.waited_s == 0
    assert jobs.scheduler.schedules == []
    jobs.clock.advance(timedelta(days=30))
    jobs.drain()
    assert ran == [job.id]


def test_a_time_far_ahead_is_kept_to_the_second_in_any_time_zone() -> None:
    app, note, _ = declared()
    jobs = Harness(app)
    at = datetime.fromisoformat("2026-02-03T08:15:42+05:30")
    jobs.client.submit(note, Note(), at=at)
    jobs.drain()
    [started] = [event for event in jobs.events if isinstance(event, JobStarted)]
    assert started.at == at


def test_a_cancelled_delay_never_fires() -> None:
    app, note, ran = declared()
    jobs = Harness(app)
    job = jobs.client.submit(note, Note(), delay=timedelta(days=3))

    assert jobs.client.schedules.cancel_delayed(job.id)
    assert not jobs.client.schedules.cancel_delayed(job.id)
    jobs.clock.advance(timedelta(days=30))
    jobs.drain()

    assert ran == []


def test_a_job_that_has_been_sent_can_not_be_cancelled_that_way() -> None:
    app, note, ran = declared()
    jobs = Harness(app)
    job = jobs.client.submit(note, Note(), delay=timedelta(days=3))
    jobs.clock.advance(timedelta(days=3))
    assert not jobs.client.schedules.cancel_delayed(job.id)
    jobs.drain()
    assert ran == [job.id]


def test_a_job_is_not_cancelled_by_deleting_the_schedule_that_has_fired() -> None:
    app, note, ran = declared()
    jobs = Harness(app)
    jobs.scheduler.lingers = timedelta(minutes=10)
    job = jobs.client.submit(note, Note(), delay=timedelta(days=3))
    jobs.clock.advance(timedelta(days=3))
    assert [each.name for each in jobs.scheduler.schedules] == [f"delay.{job.id}"]
    assert not jobs.client.schedules.cancel_delayed(job.id)
    jobs.drain()
    assert ran == [job.id]
    assert not jobs.client.schedules.cancel_delayed(job.id)


async def test_an_async_client_says_as_well_that_a_schedule_has_fired() -> None:
    app, note, ran = declared()
    jobs = Harness(app)
    jobs.scheduler.lingers = timedelta(minutes=10)
    job = await jobs.async_client.submit(note, Note(), delay=timedelta(days=3))
    jobs.clock.advance(timedelta(days=3))
    await jobs.adrain()
    assert not await jobs.async_client.schedules.cancel_delayed(job.id)
    assert ran == [job.id]


def test_a_schedule_that_may_fire_while_it_is_deleted_stays_and_the_job_comes() -> None:
    app, note, ran = declared()
    jobs = Harness(app)
    job = jobs.client.submit(note, Note(), delay=timedelta(days=3))
    fires_in = timedelta(days=3) - timedelta(minutes=1)
    jobs.clock.advance(fires_in - timedelta(seconds=29))
    assert not jobs.client.schedules.cancel_delayed(job.id)
    jobs.drain()
    assert ran == [job.id]


def test_a_client_whose_clock_is_behind_goes_by_the_scheduler_s() -> None:
    app, note, _ = declared()
    clock, behind = VirtualClock(), VirtualClock()
    sqs, scheduler = MemorySqs(clock), MemoryScheduler(clock)
    scheduler.lingers = timedelta(minutes=10)
    client = Client(app, backend=over(sqs.sync, scheduler=scheduler.sync, clock=behind))
    job = client.submit(note, Note(), delay=timedelta(hours=1))
    clock.advance(timedelta(hours=1))
    behind.advance(timedelta(minutes=56))
    assert not client.schedules.cancel_delayed(job.id)


def test_a_handle_does_not_call_a_job_cancelled_that_its_schedule_has_sent() -> None:
    app, note, _ = declared()
    jobs = Harness(app)
    jobs.scheduler.lingers = timedelta(minutes=10)
    job = jobs.client.submit(note, Note(), delay=timedelta(days=3))
    jobs.drain()
    assert job.state() is JobState.COMPLETED
    job.cancel("too late")
    assert job.state() is JobState.COMPLETED


@pytest.mark.parametrize("by_handle", [False, True])
@pytest.mark.parametrize("level", ["full", "outcomes", "failures"])
def test_a_job_cancelled_in_its_schedule_is_cancelled_to_all_who_look(
    level: RecordsLevel, *, by_handle: bool
) -> None:
    app, note, _ = declared()
    app.records = level
    jobs = Harness(app)
    tenant = Tenant(org="org-1")
    job = jobs.client.submit(note, Note(), delay=timedelta(days=3), tenant=tenant)
    _cancel(jobs, job, by_handle=by_handle)

    for later in (timedelta(0), timedelta(days=20)):
        jobs.clock.advance(later)
        assert job.wait(1) is JobState.CANCELLED
        [listed] = jobs.client.jobs.list(JobFilter(states=("cancelled",), tenants=("org-1",))).jobs
        assert (listed.id, listed.tenant, listed.queue) == (job.id, tenant, "jobs")
        assert [each.state for each in jobs.client.jobs.count().counts] == ["cancelled"]


@pytest.mark.parametrize("by_handle", [False, True])
def test_a_job_cancelled_while_it_is_held_for_a_retry_retries_no_more(*, by_handle: bool) -> None:
    app = App("shop", keep=Keep(failed=timedelta(days=90)))

    @app.job("fragile", retry=Retry(max_attempts=3, backoff=Backoff.fixed(86_400)))
    def fragile(_note: Note) -> None:
        raise ConnectionError("down")

    jobs = Harness(app)
    job = jobs.client.submit(fragile, Note())
    with pytest.raises(DrainUnfinished):
        jobs.drain(max_runs=1)
    jobs.clock.advance(timedelta(minutes=1))
    _cancel(jobs, job, by_handle=by_handle)

    jobs.clock.advance(timedelta(days=60))
    jobs.drain()
    assert job.state() is JobState.CANCELLED
    [listed] = jobs.client.jobs.list().jobs
    assert (listed.id, listed.state, listed.attempts) == (job.id, "cancelled", 1)
    assert [each.state for each in jobs.client.jobs.count().counts] == ["cancelled"]


def _cancel(jobs: Harness, job: JobHandle[None], *, by_handle: bool) -> None:
    if by_handle:
        job.cancel("a mistake")
    else:
        assert jobs.client.schedules.cancel_delayed(job.id)


def test_without_records_a_job_is_cancelled_in_its_schedule_and_none_is_written() -> None:
    app, note, ran = declared()
    app.records = "off"
    jobs = Harness(app)
    job = jobs.client.submit(note, Note(), delay=timedelta(days=3))
    assert jobs.client.schedules.cancel_delayed(job.id)
    jobs.drain()
    assert ran == []
    assert jobs.table.sync.query(asked_partition(job.id)) == []


def test_a_handle_of_another_type_takes_no_job_out_of_its_schedule() -> None:
    app, note, ran = declared()
    other = app.job("other")(lambda: None)
    jobs = Harness(app)
    job = jobs.client.submit(note, Note(), delay=timedelta(days=3))
    jobs.client.handle(job.id, other).cancel()
    jobs.drain()
    assert ran == [job.id]


def test_a_cancellation_that_is_not_recorded_says_that_the_job_is_not_sent() -> None:
    app, note, ran = declared()
    jobs = Harness(app)
    job = jobs.client.submit(note, Note(), delay=timedelta(days=3))
    jobs.table.faults.leave_unprocessed(times=10)
    with pytest.raises(Throttled, match="was cancelled and will not be sent"):
        jobs.client.schedules.cancel_delayed(job.id)
    jobs.drain()
    assert ran == []


async def test_an_async_client_holds_and_cancels_as_a_plain_one() -> None:
    app, note, ran = declared()
    jobs = Harness(app)
    notes = [Note(text=str(number)) for number in range(25)]
    held = await jobs.async_client.submit_many(note, notes, delay=timedelta(hours=2))
    assert len(jobs.scheduler.schedules) == 25
    assert await jobs.async_client.schedules.cancel_delayed(held[0].id)
    await jobs.adrain()
    assert sorted(ran) == sorted(job.id for job in held[1:])


def test_fifteen_minutes_are_still_sqs_own_delay() -> None:
    app, note, _ = declared()
    jobs = Harness(app)
    jobs.client.submit(note, Note(), delay=timedelta(minutes=15))
    assert jobs.scheduler.schedules == []
    jobs.client.submit(note, Note(), delay=timedelta(minutes=15, seconds=1))
    assert len(jobs.scheduler.schedules) == 1


def test_the_schedule_is_one_time_in_utc_named_after_the_job_and_deletes_itself() -> None:
    app, note, _ = declared()
    jobs = Harness(app)
    job = jobs.client.submit(note, Note(), at=datetime(2026, 2, 1, 12, 0, 30, tzinfo=UTC))
    [schedule] = jobs.scheduler.schedules
    assert schedule.group == "shop-test"
    assert schedule.name == f"delay.{job.id}"
    assert len(schedule.name) <= 64
    assert schedule.expression == "at(2026-02-01T11:59:30)"  # SQS holds it for the last minute
    assert schedule.timezone == "UTC"
    assert schedule.delete_when_done
    assert schedule.function == "shop-test-bridge"
    assert schedule.role == "shop-test-scheduler"
    assert schedule.dead_letters == "shop-test-schedules-dlq"


def test_what_arrives_is_the_message_as_it_was_prepared() -> None:
    app, note, _ = declared()
    jobs = Harness(app)
    at = jobs.clock.now() + timedelta(days=1)
    job = jobs.client.submit(
        note,
        Note(text="<aws.scheduler.scheduled-time> \uffff ünïcode"),
        at=at,
        priority=Priority.HIGH,
        max_attempts=9,
        tenant="org-1",
    )
    jobs.clock.advance(timedelta(days=1))
    [stored] = jobs.sqs.messages("shop-test-jobs-high")
    envelope = parse(stored.body)
    assert str(envelope.id) == job.id
    assert envelope.payload == {"text": "<aws.scheduler.scheduled-time> \uffff ünïcode"}
    assert envelope.not_before == at
    assert envelope.submitted_at == at - timedelta(days=1)
    assert envelope.options is not None
    assert envelope.options.attempts == 9
    assert envelope.tenant is not None
    assert stored.group == envelope.tenant.org == "org-1"
    assert stored.attributes == {"JobType": "note", "Priority": "high", "Source": "sdk"}


def test_the_submission_is_told_with_its_whole_delay() -> None:
    app, note, _ = declared()
    jobs = Harness(app)
    jobs.client.submit(note, Note(), delay=timedelta(days=3))
    [event] = [event for event in jobs.events if isinstance(event, JobSubmitted)]
    assert event.delay_s == 3 * 86_400


def test_a_fifo_queue_takes_delays_through_schedules() -> None:
    app = App("shop", stage="test")
    ledger = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    ran: list[str] = []

    @ledger.job("book", group_by=lambda note: note.text)
    def book(note: Note) -> None:
        ran.append(note.text)

    jobs = Harness(app)
    jobs.client.submit(book, Note(text="late"), delay=timedelta(hours=1))
    jobs.client.submit(book, Note(text="soon"), delay=timedelta(seconds=5))
    jobs.drain()
    starts = [event.at for event in jobs.events if isinstance(event, JobStarted)]
    assert ran == ["soon", "late"]
    begin = starts[0] - timedelta(minutes=1)  # schedules are only accurate to the minute
    assert starts == [begin + timedelta(minutes=1), begin + timedelta(hours=1)]


def test_a_payload_that_no_schedule_holds_is_refused_before_anything_is_sent() -> None:
    app, note, _ = declared()
    jobs = Harness(app)
    large = Note(text="x" * MAX_INPUT_BYTES)
    with pytest.raises(PayloadTooLarge, match=r"EventBridge Scheduler takes 262,144"):
        jobs.client.submit(note, large, delay=timedelta(days=1))
    jobs.client.submit(note, large)
    assert jobs.scheduler.schedules == []


def test_an_app_without_long_delays_refuses_them() -> None:
    app = App("shop", long_delays=False)
    note: JobType[Note, None] = app.define("note", Note)
    with pytest.raises(DelayInvalid, match="long_delays=False"):
        Harness(app).client.submit(note, Note(), delay=timedelta(days=1))


def test_a_delay_beyond_the_calendar_is_refused() -> None:
    app, note, _ = declared()
    with pytest.raises(DelayInvalid, match="after the year 9999"):
        Harness(app).client.submit(note, Note(), delay=timedelta.max)


@pytest.mark.parametrize("jobs_in_all", [1, 3])
def test_a_refusal_of_the_scheduler_is_raised_as_one_of_sqs(jobs_in_all: int) -> None:
    app, note, _ = declared()
    clock = VirtualClock()
    scheduler = MemoryScheduler(clock)
    scheduler.error = AccessDenied("no")
    sqs = MemorySqs(clock)
    client = Client(app, backend=over(sqs.sync, scheduler=scheduler.sync, clock=clock))
    with pytest.raises(AccessDenied):
        client.submit_many(note, [Note()] * jobs_in_all, delay=timedelta(days=1))


async def test_jobs_scheduled_before_the_failure_are_not_reported_as_refused() -> None:
    app, note, _ = declared()
    clock = VirtualClock()

    class Failing(MemoryScheduler):
        asked = 0

        async def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
            self.asked += 1
            if self.asked > 2:
                raise AccessDenied("no more")
            return await super().create(schedule, token=token)

    client = AsyncClient(
        app, backend=async_over(MemorySqs(clock), scheduler=Failing(clock), clock=clock)
    )
    with pytest.raises(PartlySubmitted) as refused:
        await client.submit_many(note, [Note()] * 5, delay=timedelta(days=1))
    assert len(refused.value.refusals) == 3


def test_waits_beyond_twelve_hours_end_on_time_and_keep_the_attempt_count() -> None:
    app = App("shop", stage="test")
    attempts: list[tuple[int, timedelta]] = []
    jobs: list[Harness] = []
    start: list[datetime] = []

    @app.job("note", retry=Retry(max_attempts=3, backoff=Backoff.fixed(86_400)))
    def note(_note: Note, ctx: JobContext) -> None:
        at = jobs[0].clock.now()
        start.append(at)
        attempts.append((ctx.attempt, at - start[0]))
        if len(attempts) == 2:
            raise RetryLater(after=timedelta(days=2))
        raise ConnectionError("refused")

    jobs.append(Harness(app))
    job = jobs[0].client.submit(note, Note())
    jobs[0].drain()

    days = [(number, passed / timedelta(days=1)) for number, passed in attempts]
    assert days == [(1, 0), (2, 1), (2, 3), (3, 4)]
    [letter] = jobs[0].dead_letters(note)
    assert letter.attributes["JobId"] == job.id
    assert letter.attributes["Attempts"] == "3"


def test_a_delayed_job_reads_back_from_its_input() -> None:
    job = DelayedJob(
        delayed_until=datetime(2026, 1, 1, tzinfo=UTC),
        job_id="1",
        type="note",
        queue_name=QUEUE,
        body="{}",
        attributes={"JobType": "note"},
    )
    event = json.loads(job.to_input())
    assert parse_input(event) == job


def test_an_invalid_delayed_job_is_refused_without_showing_its_values() -> None:
    with pytest.raises(MessageUnreadable, match=r"one-time schedule: .*; body: ") as refused:
        parse_input({"delayed_until": "2026-01-01T00:00:00Z", "body": ["hunter2"]})
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None


def test_a_context_attribute_within_a_payload_stays_text() -> None:
    text = literally('{"a": "<aws.scheduler.attempt-number>"}')
    assert "<aws.scheduler." not in text
    assert json.loads(text) == {"a": "<aws.scheduler.attempt-number>"}


def test_a_job_that_is_held_for_a_retry_can_be_cancelled_too() -> None:
    app = App("shop", stage="test")
    attempts: list[int] = []

    @app.job("note", retry=Retry(backoff=Backoff.fixed(172_800)))
    def note(_note: Note, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        raise ConnectionError("refused")

    jobs = Harness(app)
    job = jobs.client.submit(note, Note())

    @app.on_retry
    def cancel(_event: JobRetryScheduled) -> None:
        assert jobs.client.schedules.cancel_delayed(job.id)

    jobs.drain()
    jobs.clock.advance(timedelta(days=3))
    jobs.drain()
    assert attempts == [1]


@given(delay_s=st.floats(0, timedelta(days=400).total_seconds()))
def test_whatever_the_delay_the_job_starts_once_in_the_second_that_it_is_due(
    delay_s: float,
) -> None:
    app, note, ran = declared()
    jobs = Harness(app)
    begin = jobs.clock.now()
    delay = timedelta(seconds=delay_s)
    job = jobs.client.submit(note, Note(), delay=delay)
    jobs.drain()
    [started] = [event for event in jobs.events if isinstance(event, JobStarted)]
    assert ran == [job.id]
    assert started.at == begin + timedelta(seconds=ceil(delay.total_seconds()))


def test_the_handle_of_a_delayed_job_cancels_it_and_its_schedule() -> None:
    app, note, ran = declared()
    jobs = Harness(app)
    job = jobs.client.submit(note, Note(), delay=timedelta(days=30))
    job.cancel("no more needed")
    assert jobs.scheduler.schedules == []
    jobs.drain()
    assert ran == []


async def test_an_async_handle_of_a_delayed_job_cancels_its_schedule_too() -> None:
    app, note, _ = declared()
    jobs = Harness(app)
    job = await jobs.async_client.submit(note, Note(), delay=timedelta(days=30))
    await job.cancel()
    assert jobs.scheduler.schedules == []


def test_a_spool_keeps_no_delayed_job_since_it_would_send_it_at_once(tmp_path: Path) -> None:
    app, note, _ = declared()
    clock = VirtualClock()
    scheduler = MemoryScheduler(clock)
    scheduler.error = ServiceUnavailable("no answer")
    sqs = MemorySqs(clock)
    sqs.provision(app.topology)
    with (
        Client(
            app,
            spool=tmp_path / "spool",
            backend=over(sqs.sync, scheduler=scheduler.sync, clock=clock),
        ) as client,
        pytest.raises(ServiceUnavailable),
    ):
        client.submit(note, Note(), delay=timedelta(days=1))
    assert sqs.messages(QUEUE) == []
