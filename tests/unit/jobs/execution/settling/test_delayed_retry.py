"""The place where a job waits for its next attempt: its message, a schedule, or a new message."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import Accepts, App, Backoff, Encryption, JobContext, Priority, Retry, RetryLater
from headgate.jobs.core.batching import EntryRejected
from headgate.jobs.core.events import (
    Events,
    JobDeadLettered,
    JobRetryScheduled,
    JobStarted,
    SettlementFailed,
)
from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Reason
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.actions import Release, Way
from headgate.jobs.messages.envelope import parse
from headgate.jobs.records.cancellation import CANCELLATIONS
from headgate.jobs.records.state import JobState
from headgate.jobs.schedules.delayed_job import DelayedJob, delayed, retry_name, schedule_of
from headgate.jobs.testing import Harness
from headgate.jobs.testing.next_message import DrainUnfinished

DAY_S, HOUR_S = 86_400, 3_600


class Note(BaseModel):
    text: str = ""


class Life:
    """A type that is retried again and again, for days, and its record of attempts."""

    def __init__(self, retry: Retry, *, fails: int, **of_app: Any) -> None:
        self.app = App("shop", **of_app)
        self.seen: list[int] = []

        @self.app.job("work", retry=retry)
        def work(_note: Note, ctx: JobContext) -> None:
            self.seen.append(ctx.attempt)
            if len(self.seen) <= fails:
                raise ConnectionError("refused")

        self.work = work
        self.jobs = Harness(self.app)

    @property
    def starts(self) -> list[float]:
        """Return the times of its starts, in seconds since the first one."""
        at = [event.at for event in self.jobs.events if isinstance(event, JobStarted)]
        return [(each - at[0]).total_seconds() for each in at]

    def sent(self) -> list[OutgoingMessage]:
        """Return the messages that are sent from now on, as they come to be."""
        sent: list[OutgoingMessage] = []
        send = self.jobs.sqs.send

        async def noted(queue: str, messages: Any) -> Any:
            sent.extend(messages)
            return await send(queue, messages)

        self.jobs.sqs.send = noted  # type: ignore[method-assign]  # as a spy
        return sent


@pytest.mark.parametrize("long_delays", [True, False])
@pytest.mark.parametrize(
    ("every_s", "fails"),
    [(3 * HOUR_S, 80), (13 * HOUR_S, 20), (5 * DAY_S, 4)],
    ids=["three hours", "thirteen hours", "five days"],
)
def test_a_job_retried_beyond_the_queues_retention_makes_every_attempt(
    long_delays: bool, every_s: int, fails: int
) -> None:
    retry = Retry(max_attempts=1000, backoff=Backoff.fixed(every_s))
    life = Life(retry, fails=fails, long_delays=long_delays)
    handle = life.jobs.client.submit(life.work, Note())
    life.jobs.drain()
    assert life.seen == [*range(1, fails + 2)]
    assert len(life.jobs.completed(life.work)) == 1
    assert life.starts == [every_s * number for number in range(fails + 1)]
    scheduled = [each for each in life.jobs.events if isinstance(each, JobRetryScheduled)]
    assert {(each.delay_s, each.note) for each in scheduled} == {(every_s, "")}
    assert len(handle.history().attempts) == fails + 1


def test_a_job_that_is_delivered_more_often_than_sqs_grants_goes_on() -> None:
    life = Life(Retry(max_attempts=1000, backoff=Backoff.fixed(60)), fails=990, records="off")
    life.jobs.client.submit(life.work, Note())
    life.jobs.drain()
    assert life.seen == [*range(1, 992)]
    assert life.jobs.dead_letters() == []


@pytest.mark.parametrize("long_delays", [True, False])
def test_a_job_that_puts_itself_off_for_weeks_uses_no_attempt(long_delays: bool) -> None:
    app = App("shop", long_delays=long_delays)
    seen: list[int] = []

    @app.job("poll", retry=Retry(max_attempts=2))
    def poll(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        if len(seen) <= 12:
            raise RetryLater(after=timedelta(hours=40))

    jobs = Harness(app)
    jobs.client.submit(poll, Note())
    jobs.drain()
    assert seen == [1] * 13
    assert len(jobs.completed(poll)) == 1


@pytest.mark.parametrize("kind", ["fifo", "foreign"])
def test_a_message_that_can_not_be_resent_is_dead_lettered_in_time(kind: str) -> None:
    app = App("shop")
    queue = app.queue("books", fifo=kind == "fifo", priorities=[Priority.NORMAL])
    retry = Retry(max_attempts=1000, backoff=Backoff.fixed(13 * HOUR_S))
    seen: list[int] = []

    @queue.job(
        "book",
        retry=retry,
        group_by=(lambda _note: "a") if kind == "fifo" else None,
        accepts=Accepts.json() if kind == "foreign" else None,
    )
    def book(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        raise ConnectionError("refused")

    jobs = Harness(app)
    [spec] = app.topology.queues
    if kind == "fifo":
        jobs.client.submit(book, Note())
    else:
        sent = OutgoingMessage(body='{"text": "a"}', attributes={"JobType": "book"})
        assert jobs.sqs.sync.send(spec.name, [sent]) == []
    began = jobs.clock.now()
    jobs.drain()
    [letter] = jobs.dead_letters(book)
    assert letter.attributes["Reason"] == Reason.WAIT_TOO_LONG
    assert letter.attributes["ErrorMessage"] == "refused"
    [dead] = [event for event in jobs.events if isinstance(event, JobDeadLettered)]
    assert dead.reason == Reason.WAIT_TOO_LONG
    assert timedelta(days=3) < dead.at - began < spec.retention
    assert seen == [*range(1, len(seen) + 1)]
    assert 7 <= len(seen) <= 9


def test_a_payload_in_the_object_store_is_kept_for_as_long_as_its_job_goes_on() -> None:
    retry = Retry(max_attempts=10, backoff=Backoff.fixed(5 * DAY_S))
    life = Life(retry, fails=3)
    life.jobs.client.submit(life.work, Note(text="x" * 400_000))
    [stored] = life.jobs.store.objects
    written: list[float] = []
    put = life.jobs.store.put

    async def noted(key: str, content: bytes) -> None:
        written.append(life.jobs.clock.monotonic())
        await put(key, content)

    life.jobs.store.put = noted  # type: ignore[method-assign]  # as a spy
    life.jobs.drain()
    assert life.seen == [1, 2, 3, 4]
    assert [round(each / DAY_S) for each in written] == [0, 5, 10]
    assert set(life.jobs.store.objects) == {stored}


def test_a_job_handed_over_by_two_deliveries_has_one_schedule() -> None:
    life = Life(Retry(max_attempts=3, backoff=Backoff.fixed(DAY_S)), fails=99)
    jobs = life.jobs
    jobs.client.submit(life.work, Note())
    jobs.sqs.faults.fail_entries("delete")  # so that the message is redelivered
    with pytest.raises(EntryRejected, match="InternalError"):
        jobs.drain()
    [held] = jobs.scheduler.schedules
    token = DelayedJob.model_validate(json.loads(held.input)).token
    jobs.clock.advance(timedelta(minutes=10))
    jobs.drain()
    assert token.endswith("-1")
    assert len(jobs.dead_lettered(life.work)) == 1
    assert len([each for each in jobs.events if isinstance(each, JobDeadLettered)]) == 1
    assert asyncio.run(_depth(jobs)) == 0


def test_a_leftover_schedule_of_an_earlier_hand_over_is_ignored() -> None:
    life = Life(Retry(max_attempts=3, backoff=Backoff.fixed(DAY_S)), fails=99)
    app, jobs = life.app, life.jobs
    job_id = jobs.client.submit(life.work, Note()).id
    [spec] = [each for each in app.topology.queues if jobs.sqs.messages(each.name)]
    [message] = jobs.sqs.messages(spec.name)
    earlier = delayed(
        OutgoingMessage(body=message.body),
        queue_name=spec.name,
        job_id=job_id,
        job_type="work",
        due=jobs.clock.now() + timedelta(days=30),
        token="another-message-1",  # noqa: S106 - no secret
    )
    standing = schedule_of(earlier, app.topology, retry_name(job_id), jobs.clock.now())
    assert asyncio.run(jobs.scheduler.create(standing, token="t"))  # noqa: S106 - no secret
    jobs.drain()
    assert life.seen == [1, 2, 3, 1, 2, 3], "it was sent anew; what stood fired on its own day"


def test_a_message_within_a_second_of_the_end_of_its_time_is_sent_anew() -> None:
    life = Life(Retry(max_attempts=2), fails=0)
    app, jobs = life.app, life.jobs
    jobs.client.submit(life.work, Note())
    spec = app.topology.queue("jobs", Priority.NORMAL)
    [stored] = jobs.sqs.messages(spec.name)
    lives = spec.retention - spec.spare - timedelta(milliseconds=400)
    message = ReceivedMessage(
        message_id="m-1",
        receipt="r-1",
        body=stored.body,
        receive_count=1,
        sent_at=jobs.clock.now() - lives,
    )
    delivery = Delivery(message=message, queue=spec, received_at=jobs.clock.monotonic())
    run = Run(Executor(Means(app=app, clock=jobs.clock, events=Events())), delivery)
    action = run.unstarted(3_600).action
    assert isinstance(action, Release)
    assert action.way is Way.ANEW, "hidden for 0 s it would come again and again until then"


async def _depth(jobs: Harness) -> int:
    return sum([len(jobs.sqs.messages(spec.name)) for spec in jobs.app.topology.queues])


def test_what_a_body_says_beyond_this_version_is_sent_anew_too() -> None:
    life = Life(Retry(max_attempts=2, backoff=Backoff.fixed(DAY_S)), fails=2, long_delays=False)
    life.jobs.client.submit(life.work, Note())
    [spec] = [each for each in life.app.topology.queues if life.jobs.sqs.messages(each.name)]
    [stored] = life.jobs.sqs.messages(spec.name)
    body = json.loads(stored.body) | {"of_the_future": {"a": 1}}
    life.jobs.sqs.sync.send(spec.name, [OutgoingMessage(body=json.dumps(body))])
    sent = life.sent()
    life.jobs.drain()
    futures = [json.loads(each.body).get("of_the_future") for each in sent]
    assert {"a": 1} in futures
    assert all(parse(each.body).not_before is not None for each in sent)


@pytest.mark.parametrize("options", [{}, {"once": True}, {"encrypted": True}, {"fifo": True}])
@pytest.mark.parametrize("long_delays", [True, False])
@pytest.mark.parametrize("minutes", [1, 20])
def test_without_records_a_job_that_polls_is_not_taken_for_a_killer(
    options: dict[str, bool], minutes: int, *, long_delays: bool
) -> None:
    encryption = Encryption() if options.get("encrypted") else None
    app = App("shop", records="off", long_delays=long_delays, encryption=encryption)
    queue = app.queue("mail", fifo=options.get("fifo", False), priorities=[Priority.NORMAL])
    seen: list[int] = []

    @queue.job("poll", once=options.get("once", False), expires=timedelta(hours=1))
    def poll(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        if len(seen) <= 60:
            raise RetryLater(timedelta(minutes=minutes), "not shipped yet")

    jobs = Harness(app)
    group = "g" if options.get("fifo") else None
    jobs.client.submit(poll, Note(), group=group)
    jobs.drain()

    assert len(seen) == 61
    assert len(jobs.completed(poll)) == 1
    assert options.get("fifo") or set(seen) == {1}


@pytest.mark.parametrize("every_s", [20 * 60, 13 * HOUR_S, 5 * DAY_S])
@pytest.mark.parametrize("long_delays", [True, False])
def test_without_records_a_long_wait_before_a_retry_uses_up_no_attempt(
    *, long_delays: bool, every_s: int
) -> None:
    retry = Retry(max_attempts=5, backoff=Backoff.fixed(every_s))
    life = Life(retry, fails=4, records="off", long_delays=long_delays)
    life.jobs.client.submit(life.work, Note())
    sent = life.sent()
    life.jobs.drain()
    assert life.seen == [1, 2, 3, 4, 5]
    assert life.starts == [every_s * number for number in range(5)]
    halves = every_s / (12 * HOUR_S)
    assert len(sent) <= 4 * (2 * halves + 3), "a message each quarter of an hour costs much"


def test_with_records_a_deferred_job_stays_in_its_message() -> None:
    app = App("shop")

    @app.job("poll")
    def poll(_note: Note) -> None:
        raise RetryLater(timedelta(minutes=1))

    jobs = Harness(app)
    jobs.client.submit(poll, Note())
    with pytest.raises(DrainUnfinished):
        jobs.drain(max_runs=2)
    [message] = jobs.sqs.messages("shop-jobs-normal")
    assert message.receive_count == 2


@pytest.mark.parametrize("fails", [True, False])
def test_a_job_cancelled_before_a_schedule_held_it_never_runs_again(fails: bool) -> None:
    app, seen = App("shop"), []

    @app.job("work", retry=Retry(backoff=Backoff.fixed(5 * DAY_S)))
    def work(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        jobs.client.handle(ctx.id).cancel()  # no worker has read of it when the attempt ends
        if fails:
            raise ConnectionError("refused")
        raise RetryLater(after=timedelta(days=5))

    jobs = Harness(app)
    job = jobs.client.submit(work, Note())

    jobs.drain()

    assert len(seen) == 1
    assert job.state() is JobState.CANCELLED
    assert not jobs.scheduler.schedules


def test_a_job_is_held_while_nothing_tells_of_cancellations() -> None:
    life = Life(Retry(backoff=Backoff.fixed(5 * DAY_S)), fails=1)
    query = life.jobs.table.query

    async def failing(pk: str, *, prefix: str = "") -> Any:
        if pk == CANCELLATIONS:
            raise TransportError("the table is down")
        return await query(pk, prefix=prefix)

    life.jobs.table.query = failing  # type: ignore[method-assign]  # as an outage of one request
    life.jobs.client.submit(life.work, Note())

    life.jobs.drain()

    assert life.seen == [1, 2]
    failed = [each for each in life.jobs.events if isinstance(each, SettlementFailed)]
    assert [(each.action, each.error) for each in failed] == [("cancel", "the table is down")]
