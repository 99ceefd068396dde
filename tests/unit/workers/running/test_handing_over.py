"""Waits beyond SQS's maximum: a one-time schedule owns the job, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from headgate import (
    App,
    AsyncClient,
    Backoff,
    Concurrency,
    JobContext,
    Priority,
    RateLimit,
    Retry,
    RetryBudget,
    RetryLater,
    Schedule,
)
from headgate.jobs.core.events import (
    Event,
    JobAlreadyDone,
    JobCompleted,
    JobDeadLettered,
    JobDeferred,
    JobRetryScheduled,
    JobStarted,
    SettlementFailed,
)
from headgate.jobs.core.existing.resources import MAX_RECEIVE_COUNT
from headgate.jobs.core.ports.transport import OutgoingMessage, VisibilityChange
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import AccessDenied, ServiceUnavailable
from headgate.jobs.execution.outcome import Reason
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.records.items import partition
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.schedules.firing import schedule_input
from headgate.jobs.submission.prepare import prepare
from headgate.jobs.testing import MemoryScheduler
from headgate.jobs.testing.inspection import StoredMessage
from tests.support.backends import async_over
from tests.support.bridge import DeployedBridge
from tests.unit.workers.rig import MAIL, Gate, Note, Rig, one_lane, without_threads

pytestmark = without_threads

DAY_S = 86_400
HALF_DAY_S = 13 * 3_600


def daily(attempts: int = 3) -> tuple[App, JobType[Note, None], list[int]]:
    """Return an app whose one type fails and is retried a day later, and its attempts."""
    app, mail = one_lane(
        Retry(max_attempts=attempts, backoff=Backoff.fixed(DAY_S)), visibility_s=300
    )
    made: list[int] = []

    @mail.job("charge")
    async def charge(_note: Note, ctx: JobContext) -> None:
        made.append(ctx.attempt)
        raise ConnectionError("refused")

    return app, charge, made


class Scheduled(Rig):
    """A rig with a scheduler that invokes the bridge as deployed."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.bridge = DeployedBridge(app, self.sqs, self.table, self.clock)
        self.schedules = MemoryScheduler(self.clock, fire=self.bridge)
        self.scheduler = self.schedules

    async def work_until(self, kind: type[Event], times: int = 1) -> None:
        """Have a worker run until the event has happened that often, without idling for days."""
        async with self.working():
            await self.happens(kind, times)

    def sqs_shows_in(self, message: StoredMessage) -> float:
        """Return the seconds until a hidden message becomes visible."""
        assert message.visible_at is not None
        return (message.visible_at - self.clock.now()).total_seconds()

    def next_due(self) -> datetime | None:
        """Return when the next message shows or schedule fires; None if nothing is left."""
        due = [
            message.visible_at or self.clock.now()
            for spec in self.app.topology.queues
            for message in self.sqs.messages(spec.name)
        ]
        return min(filter(None, [*due, self.schedules.next_due()]), default=None)

    async def fire_next(self) -> None:
        """Let the next schedule fire when it is due."""
        due = self.schedules.next_due()
        assert due is not None
        await _sleep((due - self.clock.now()).total_seconds())
        self.schedules.fire_due()


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(max(0.0, seconds))


async def test_a_retry_beyond_twelve_hours_leaves_the_queue_and_comes_when_it_is_due() -> None:
    app, charge, made = daily()
    rig = Scheduled(app)
    [job_id] = await rig.submit(charge)
    for attempt in (1, 2):
        async with rig.working():
            await rig.happens(JobRetryScheduled, times=attempt)
        assert rig.remaining() == 0
        await rig.fire_next()
    async with rig.working():
        [dead] = await rig.happens(JobDeadLettered)
    assert made == [1, 2, 3]
    assert dead.job_id == job_id
    starts = [event.at for event in rig.heard(JobStarted)]
    for waited in (starts[1] - starts[0], starts[2] - starts[1]):
        assert timedelta(days=1) <= waited < timedelta(days=1, minutes=2)
    assert [event.note for event in rig.heard(JobRetryScheduled)] == ["", ""]
    assert rig.schedules.schedules == []


@pytest.mark.parametrize(("left_h", "in_a_schedule"), [(7.5, True), (9.5, False)])
async def test_a_wait_leaves_its_message_in_time_for_the_run_that_follows(
    left_h: float, in_a_schedule: bool
) -> None:
    app, mail = one_lane(visibility_s=300)
    begun: list[int] = []

    @mail.job("sync", timeout=timedelta(hours=3))
    async def sync(_note: Note, ctx: JobContext) -> None:
        begun.append(ctx.attempt)
        if len(begun) == 1:
            raise RetryLater(after=timedelta(hours=4))

    rig = Scheduled(app)
    await rig.submit(sync)
    await asyncio.sleep(4 * DAY_S - left_h * 3_600)
    async with rig.working():
        await rig.happens(JobDeferred)
    assert len(rig.schedules.schedules) == in_a_schedule
    assert rig.remaining() == (not in_a_schedule)
    if in_a_schedule:
        await rig.fire_next()
    else:
        await asyncio.sleep(4 * 3_600)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert begun == [1, 1], "waiting uses up no attempt"


async def test_retry_later_beyond_twelve_hours_uses_up_no_attempt() -> None:
    app, mail = one_lane(Retry(max_attempts=2), visibility_s=300)
    made: list[int] = []

    @mail.job("charge")
    async def charge(_note: Note, ctx: JobContext) -> None:
        made.append(ctx.attempt)
        if len(made) < 4:
            raise RetryLater(after=timedelta(days=2))

    rig = Scheduled(app)
    await rig.submit(charge)
    for times in (1, 2, 3):
        async with rig.working():
            await rig.happens(JobDeferred, times=times)
        await rig.fire_next()
    async with rig.working():
        await rig.happens(JobCompleted)
    assert made == [1, 1, 1, 1]


async def test_a_delayed_job_that_is_retried_and_deferred_for_long_runs_each_time() -> None:
    app, mail = one_lane(Retry(max_attempts=3, backoff=Backoff.fixed(HALF_DAY_S)), visibility_s=300)
    made: list[int] = []

    @mail.job("charge")
    async def charge(_note: Note, ctx: JobContext) -> None:
        made.append(ctx.attempt)
        match len(made):
            case 1:
                raise ConnectionError("refused")
            case 2 | 3:
                raise RetryLater(after=timedelta(seconds=HALF_DAY_S))

    rig = Scheduled(app)
    async with AsyncClient(
        app, backend=async_over(rig.sqs, scheduler=rig.schedules, clock=rig.clock)
    ) as client:
        await client.submit(charge, Note(), delay=timedelta(hours=13))
    for kind, times in ((JobRetryScheduled, 1), (JobDeferred, 1), (JobDeferred, 2)):
        await rig.fire_next()
        rig.bridge.repeat()
        await rig.work_until(kind, times)
    await rig.fire_next()
    await rig.work_until(JobCompleted)
    assert made == [1, 2, 2, 2]
    assert rig.remaining() == 0


async def test_a_recurring_job_makes_all_its_daily_attempts() -> None:
    app, mail = one_lane(Retry(max_attempts=4, backoff=Backoff.fixed(DAY_S)), visibility_s=300)
    made: list[int] = []

    @mail.job("report", schedule=Schedule.rate(timedelta(days=30)))
    async def report(_note: Note, ctx: JobContext) -> None:
        made.append(ctx.attempt)
        raise ConnectionError("refused")

    rig = Scheduled(app)
    fired = schedule_input(app, report) | {
        "schedule_arn": "arn:aws:scheduler:eu-central-1:1:schedule/shop/report",
        "scheduled_time": rig.clock.now().isoformat(),
        "execution_id": "d32c5kddcf5bb8c3",
        "attempt_number": "1",
    }
    rig.bridge(json.dumps(fired))
    rig.bridge.repeat()
    for attempt in (1, 2, 3):
        await rig.work_until(JobRetryScheduled, attempt)
        await rig.fire_next()
        rig.bridge.repeat()
    await rig.work_until(JobDeadLettered)
    [dead] = rig.heard(JobDeadLettered)
    assert made == [1, 2, 3, 4]
    assert dead.reason == Reason.ATTEMPTS_EXHAUSTED


async def test_the_schedule_is_made_before_the_message_is_deleted() -> None:
    app, charge, _ = daily()
    rig = Scheduled(app)
    there: list[bool] = []

    async def look() -> None:
        there.append(bool(rig.schedules.schedules))

    rig.wire.requests["delete"] = look
    await rig.submit(charge)
    async with rig.working():
        await rig.happens(JobRetryScheduled)
    assert there == [True]


async def test_a_message_that_can_not_be_deleted_leaves_the_job_twice_under_one_id() -> None:
    app, charge, _ = daily()
    rig = Scheduled(app)
    rig.sqs.faults.fail_entries("delete", code="InvalidParameter", sender_fault=True)
    [job_id] = await rig.submit(charge)
    async with rig.working():
        await rig.happens(SettlementFailed)
    [held] = rig.schedules.schedules
    [stored] = rig.sqs.messages(MAIL)
    assert (
        DelayedJob.model_validate(json.loads(held.input)).job_id
        == job_id
        == str(parse(stored.body).id)
    )


async def test_a_once_job_that_a_schedule_holds_too_completes_once() -> None:
    app, mail = one_lane(Retry(max_attempts=3))
    made: list[str] = []

    @mail.job("charge", once=True)
    async def charge(_note: Note) -> None:
        made.append("begun")
        if len(made) == 1:
            raise RetryLater(after=timedelta(days=10))
        made.append("charged")

    async def away() -> None:
        raise ServiceUnavailable("SQS takes no deletes")

    rig = Scheduled(app)
    await rig.submit(charge)
    rig.wire.requests["delete"] = away
    await rig.work_until(SettlementFailed)  # its schedule is created, and its message stays
    del rig.wire.requests["delete"]
    await rig.work_until(JobCompleted)
    await rig.fire_next()
    await rig.work_until(JobAlreadyDone)
    assert made == ["begun", "begun", "charged"]


@pytest.mark.parametrize("why", ["no scheduler", "refused", "too large"])
async def test_a_wait_that_no_schedule_can_hold_continues_in_a_new_message(
    why: str,
) -> None:
    app, charge, made = daily(attempts=2)
    app.long_delays = why != "no scheduler"
    rig = Scheduled(app)
    if why == "refused":
        rig.schedules.error = AccessDenied("no scheduler:CreateSchedule")
    # In a schedule the text is escaped once more.
    [job_id] = await rig.submit(charge, '"' * 100_000 if why == "too large" else "")
    [first] = rig.sqs.messages(MAIL)
    await rig.work_until(JobRetryScheduled)
    [scheduled] = rig.heard(JobRetryScheduled)
    assert (scheduled.delay_s, scheduled.note) == (DAY_S, "")
    assert [event.action for event in rig.heard(SettlementFailed)] == (
        ["schedule"] if why == "refused" else []
    )
    [stored] = rig.sqs.messages(MAIL)
    assert stored.message_id != first.message_id
    assert parse(stored.body).attempts_used == 1
    assert rig.schedules.schedules == []

    await _sleep(rig.sqs_shows_in(stored))
    async with rig.working():
        await asyncio.sleep(1)  # it is not due
    assert made == [1]
    [waiting] = rig.sqs.messages(MAIL)
    await _sleep(rig.sqs_shows_in(waiting))
    async with rig.working():
        await asyncio.sleep(1)
    [waiting] = rig.sqs.messages(MAIL)
    await _sleep(rig.sqs_shows_in(waiting))
    await rig.work_until(JobDeadLettered)
    [dead] = rig.heard(JobDeadLettered)
    assert (dead.job_id, dead.attempt, dead.reason) == (job_id, 2, Reason.ATTEMPTS_EXHAUSTED)
    starts = [event.at for event in rig.heard(JobStarted)]
    assert timedelta(days=1) <= starts[1] - starts[0] < timedelta(days=1, minutes=1)
    assert made == [1, 2]


async def test_a_fifo_queue_keeps_its_order_and_so_its_message() -> None:
    app = App("shop")
    books = app.queue(
        "books",
        fifo=True,
        priorities=[Priority.NORMAL],
        retry=Retry(max_attempts=2, backoff=Backoff.fixed(DAY_S)),
    )

    @books.job("book", group_by=lambda note: note.text or "a")
    async def book(_note: Note) -> None:
        raise ConnectionError("refused")

    rig = Scheduled(app)
    await rig.submit(book)
    async with rig.working():
        [scheduled] = await rig.happens(JobRetryScheduled)
    assert rig.schedules.schedules == []
    assert "12 hours" in scheduled.note


async def test_a_retry_that_would_outlive_the_messages_retention_is_handed_over() -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(7_200)), visibility_s=300)

    @mail.job("charge")
    async def charge(_note: Note) -> None:
        raise ConnectionError("refused")

    rig = Scheduled(app)
    await rig.submit(charge)
    await _sleep(timedelta(days=4, hours=-2).total_seconds())
    async with rig.working():
        await rig.happens(JobRetryScheduled)
    assert rig.remaining() == 0
    await rig.fire_next()
    async with rig.working():
        await rig.happens(JobDeadLettered)


async def test_what_this_version_does_not_know_of_a_body_is_handed_over_too() -> None:
    app, charge, _ = daily()
    rig = Scheduled(app)
    now = rig.clock.now()
    prepared = prepare(app, app.topology, charge, Note(), {}, now=now, job_id=new_job_id(now))
    body = json.loads(prepared.message.body) | {"of_the_future": {"a": 1}}
    await rig.sqs.send(MAIL, [OutgoingMessage(body=json.dumps(body))])
    async with rig.working():
        await rig.happens(JobRetryScheduled)
    [held] = rig.schedules.schedules
    again = json.loads(DelayedJob.model_validate(json.loads(held.input)).body)
    assert again["of_the_future"] == {"a": 1}
    assert again["attempts_used"] == 1


async def test_a_handler_may_submit_with_a_long_delay() -> None:
    app, mail = one_lane()
    child = mail.define("child", Note)

    @child.handler
    async def run_child(_note: Note) -> None: ...

    @mail.job("parent")
    async def parent(_note: Note, ctx: JobContext) -> None:
        await ctx.submit(child, Note(text="later"), delay=timedelta(days=3))

    rig = Scheduled(app)
    [parent_id] = await rig.submit(parent)
    async with rig.working():
        await rig.happens(JobCompleted)
    [held] = rig.schedules.schedules
    envelope = parse(DelayedJob.model_validate(json.loads(held.input)).body)
    assert str(envelope.parent) == parent_id
    assert held.name == f"delay.{envelope.id}"


@pytest.mark.parametrize("scheduled", [True, False], ids=["with schedules", "without"])
async def test_a_wait_that_nothing_can_hold_ends_in_the_dead_letters_with_a_reason(
    scheduled: bool,
) -> None:
    app, mail = one_lane()

    @mail.job("wake-up")
    async def wake_up(_note: Note) -> None:
        raise RetryLater(timedelta(days=3_652_425), "in ten thousand years")

    rig = Scheduled(app) if scheduled else Rig(app)
    await rig.submit(wake_up)
    async with rig.working():
        [dead] = await rig.happens(JobDeadLettered)

    assert dead.reason == "wait-too-long"
    assert "in ten thousand years" in dead.error_message
    assert rig.remaining() == 0


NEARLY_FOUR_DAYS_S = timedelta(days=4, minutes=-30).total_seconds()


async def test_what_goes_back_unstarted_near_its_retentions_end_is_sent_anew() -> None:
    app, mail = one_lane()
    gate = Gate()
    work = mail.job("work", concurrency=Concurrency(1))(gate.__call__)
    mail.job("other")(gate.__call__)  # for which the queue is received all the same
    rig = Scheduled(app)
    ids = await rig.submit(work, "running", "waiting")
    before = {message.message_id for message in rig.sqs.messages(MAIL)}
    await _sleep(NEARLY_FOUR_DAYS_S)
    async with rig.working(concurrency=2, drain=timedelta(seconds=1)):
        await gate.reached(1)
    anew = rig.sqs.messages(MAIL)
    assert {str(parse(message.body).id) for message in anew} == set(ids)
    assert not before & {message.message_id for message in anew}
    assert [parse(message.body).attempts_used for message in anew] == [0, 0]
    await _sleep(timedelta(hours=1).total_seconds())
    gate.open("running", "waiting")
    await rig.work_until(JobCompleted, 2)
    assert {event.attempt for event in rig.heard(JobCompleted)} == {1}


async def test_an_unstarted_fifo_job_is_dead_lettered_before_sqs_deletes_it() -> None:
    app = App("shop")
    books = app.queue("books", fifo=True, priorities=[Priority.NORMAL])
    gate = Gate()
    book = books.job("book", group_by=lambda _note: "a")(gate.__call__)
    rig = Scheduled(app)
    ids = await rig.submit(book, "first", "second")
    await _sleep(NEARLY_FOUR_DAYS_S)
    async with rig.working(concurrency=2, drain=timedelta(seconds=1)):
        await gate.reached(1)
    assert rig.remaining() == 0
    dead = rig.heard(JobDeadLettered)
    assert {(event.job_id, event.reason) for event in dead} == {
        (each, Reason.WAIT_TOO_LONG) for each in ids
    }
    for each in ids:
        marks = {item.sk.rpartition("#")[2] for item in await rig.table.query(partition(each))}
        assert "dead" in marks
    [spec] = app.topology.queues
    reasons = [message.attributes["Reason"] for message in rig.sqs.messages(spec.dlq_name)]
    assert reasons == [Reason.WAIT_TOO_LONG] * 2


async def test_a_fifo_job_behind_a_limit_is_not_dead_lettered_without_a_reason() -> None:
    app = App("shop")
    books = app.queue("books", fifo=True, priorities=[Priority.NORMAL])

    @books.job("book", rate_limit=RateLimit(1, per=timedelta(hours=3)))
    async def book(_note: Note) -> None: ...

    @books.job("look")  # because of which the queue is received
    async def look(_note: Note) -> None: ...

    rig = Rig(app)
    [spec] = app.topology.queues
    await rig.submit(book, "waits", group="a")
    for receive in range(1, MAX_RECEIVE_COUNT):
        [message] = await rig.sqs.receive(spec.name, limit=1, wait_s=0)
        wait_s = 60 if receive == MAX_RECEIVE_COUNT - 1 else 0  # SQS grants one more
        change = VisibilityChange(receipt=message.receipt, timeout_s=wait_s)
        assert not await rig.sqs.change_visibility(spec.name, [change])
    await rig.submit(book, "runs", group="b")
    async with rig.working():
        await rig.happens(JobCompleted)  # the limit holds for three hours now
        await asyncio.sleep(4 * 3_600)
    [dead] = rig.sqs.messages(spec.dlq_name)
    assert dead.attributes["Reason"] == Reason.RECEIVED_TOO_OFTEN
    assert [event.reason for event in rig.heard(JobDeadLettered)] == [Reason.RECEIVED_TOO_OFTEN]


async def test_a_job_that_is_not_due_goes_back_unstarted_and_uses_nothing() -> None:
    app, mail = one_lane()
    made: list[int] = []

    @mail.job("work")
    async def work(_note: Note, ctx: JobContext) -> None:
        made.append(ctx.attempt)

    rig = Scheduled(app)
    now = rig.clock.now()
    prepared = prepare(app, app.topology, work, Note(), {}, now=now, job_id=new_job_id(now))
    due = now + timedelta(hours=2)
    body = json.loads(prepared.message.body) | {"not_before": due.isoformat()}
    await rig.sqs.send(MAIL, [OutgoingMessage(body=json.dumps(body))])
    async with rig.working():
        await asyncio.sleep(5)
    [waiting] = rig.sqs.messages(MAIL)
    assert waiting.visible_at is not None
    assert timedelta(0) <= waiting.visible_at - due < timedelta(seconds=1)
    assert made == []
    assert rig.heard(JobStarted) == []
    await _sleep(timedelta(hours=2).total_seconds())
    await rig.work_until(JobCompleted)
    assert made == [1]


@pytest.mark.parametrize("long_delays", [True, False])
async def test_jobs_of_every_kind_of_wait_live_through_a_fortnight_under_workers(
    long_delays: bool,
) -> None:
    app = App("shop", long_delays=long_delays)
    made: dict[str, list[int]] = {}

    def waiting(
        name: str, retry: Retry, fails: int, *, once: bool = False, later: float = 0
    ) -> Any:
        made[name] = []

        @app.job(name, retry=retry, once=once)
        async def handle(_note: Note, ctx: JobContext) -> None:
            made[name].append(ctx.attempt)
            if len(made[name]) > fails:
                return
            if later:
                raise RetryLater(after=timedelta(seconds=later))
            raise ConnectionError("refused")

        return handle

    types = [
        waiting("often", Retry(max_attempts=200, backoff=Backoff.fixed(3 * 3_600)), 110),
        waiting("half-daily", Retry(max_attempts=50, backoff=Backoff.fixed(HALF_DAY_S)), 24),
        waiting("charge", Retry(max_attempts=5, backoff=Backoff.fixed(5 * DAY_S)), 2, once=True),
        waiting("poll", Retry(max_attempts=2), 8, later=40 * 3_600),
    ]
    rig = Scheduled(app)
    ids = [(await rig.submit(each))[0] for each in types]
    ends = rig.clock.now() + timedelta(days=15)
    while (due := rig.next_due()) is not None and due < ends:
        await _sleep((due - rig.clock.now()).total_seconds())
        rig.schedules.fire_due()
        if rig.schedules.fired:
            rig.schedules.repeat()
        async with rig.working():
            await asyncio.sleep(2)
    assert made == {
        "often": [*range(1, 112)],
        "half-daily": [*range(1, 26)],
        "charge": [1, 2, 3],
        "poll": [1] * 9,
    }
    assert sorted(event.job_id for event in rig.heard(JobCompleted)) == sorted(ids)
    assert rig.remaining() == 0
    assert rig.heard(JobDeadLettered) == []
    assert rig.heard(SettlementFailed) == []


async def test_a_fifo_retry_that_a_budget_holds_back_is_dead_lettered_in_time() -> None:
    app = App("shop")
    books = app.queue(
        "books",
        fifo=True,
        priorities=[Priority.NORMAL],
        retry=Retry(max_attempts=9, backoff=Backoff.fixed(60)),
        retry_budget=RetryBudget(1, per=timedelta(hours=2), on_exhausted="wait"),
    )

    @books.job("book", group_by=lambda note: note.text)
    async def book(_note: Note) -> None:
        raise ConnectionError("refused")

    rig = Scheduled(app)
    await rig.submit(book, "a", "b")
    await _sleep(timedelta(days=4, hours=-2).total_seconds())
    await rig.work_until(JobDeadLettered)
    assert {event.reason for event in rig.heard(JobDeadLettered)} == {Reason.WAIT_TOO_LONG}
