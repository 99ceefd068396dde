"""Crashes told from failures, and attempts from deliveries, by workers' records."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Backoff, Concurrency, JobContext, Retry, RetryLater
from headgate.jobs.core.events import (
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobFailed,
    JobQuarantined,
    JobRetryScheduled,
    JobStarted,
    RecordsFailed,
    SettlementFailed,
)
from headgate.jobs.core.ports.transport import ReceivedMessage, VisibilityChange
from headgate.jobs.core.topology import Priority
from headgate.jobs.definitions.app import BACKSTOP_MARGIN
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.queue import Queue
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.records.items import Mark, partition
from headgate.jobs.records.lives import LIVES, Life, life_item
from headgate.jobs.retry.policy import DEFAULT_CRASH_LIMIT, DEFAULT_RETRY, CrashLimit
from tests.support.records import mark
from tests.support.stub_children import StubChildren
from tests.unit.workers.rig import LIMIT_S, MAIL, Gate, Note, Rig, lanes

pytestmark = pytest.mark.looptime

QUARANTINE = "shop-quarantine"
VISIBILITY_S = 60
"""Long enough for a new worker to see which workers are dead before the message is visible."""


THRICE = Retry(max_attempts=3, backoff=Backoff.fixed(1))


def recorded(
    retry: Retry = THRICE, *, crash_limit: CrashLimit = DEFAULT_CRASH_LIMIT
) -> tuple[App, Queue]:
    """Return an app with records and the one queue ``shop-mail-normal``."""
    app = App("shop", records="failures", crash_limit=crash_limit)
    lane = lanes(VISIBILITY_S)[Priority.NORMAL]
    queue = app.queue(
        "mail", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lane}, retry=retry
    )
    return app, queue


class Dying:
    """Workers that receive all visible messages, and die without a trace."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._deaths = 0

    async def receive(self, *, started: bool = True) -> None:
        """Receive one message as it becomes visible, and die."""
        rig = self._rig
        self._deaths += 1
        name, now = f"dead-{self._deaths}", rig.clock.now()
        life = Life(name=name, beat=1, groups=frozenset({"mail"}), at=now)
        await rig.table.put([life_item(life)])
        async with asyncio.timeout(LIMIT_S):
            while not (found := await rig.sqs.receive(MAIL, limit=1, wait_s=20)):
                pass
        [message] = found
        if started and message.receive_count > 1:
            job_id, receive = _job_id(message.body), message.receive_count
            item = mark(
                job_id, message.message_id, receive, Mark.STARTED, rig.clock.now(), worker=name
            )
            await rig.table.put([item])


def _job_id(body: str) -> str:
    from headgate.jobs.messages.envelope import parse

    return str(parse(body).id)


def sender(queue: Queue, seen: list[int]) -> JobType[Note, None]:
    """Return a job that records its attempt."""

    @queue.job("send")
    async def send(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)

    return send


async def test_a_delivery_that_ended_without_a_word_is_a_crash_and_an_attempt() -> None:
    app, queue = recorded()
    seen: list[int] = []
    rig = Rig(app)
    [job_id] = await rig.submit(sender(queue, seen))
    await Dying(rig).receive()
    async with rig.working():
        [crashed] = await rig.happens(JobCrashed)
        await rig.happens(JobCompleted)
    assert (crashed.job_id, crashed.crashes) == (job_id, 1)
    assert seen == [2]


async def test_a_job_is_quarantined_at_its_third_crash_without_being_run_again() -> None:
    app, queue = recorded(Retry(max_attempts=10))
    seen: list[int] = []
    rig = Rig(app)
    [job_id] = await rig.submit(sender(queue, seen))
    dying = Dying(rig)
    for _ in range(3):
        await dying.receive()
    async with rig.working():
        [quarantined] = await rig.happens(JobQuarantined)
    assert (quarantined.job_id, quarantined.attempt) == (job_id, 3)
    assert seen == []
    [letter] = rig.sqs.messages(QUARANTINE)
    assert letter.attributes["Reason"] == "quarantined"
    assert rig.remaining() == 0


async def _found_by_the_next(rig: Rig, job_id: str) -> None:
    """Write what a receiver writes about the delivery before its own; `Dying` looks at nothing."""
    [message] = rig.sqs.messages(MAIL)
    receive = message.receive_count
    if receive < 3:
        found = mark(job_id, message.message_id, receive, Mark.CRASHED, rig.clock.now())
        await rig.table.put([found])


async def test_a_crash_that_was_the_last_attempt_is_parked_and_not_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, mail = recorded(Retry(max_attempts=1))

    @mail.job("charge", isolation="process")
    def charge(_note: Note) -> None: ...

    StubChildren(lambda: None, ending="dies").install(monkeypatch)
    rig = Rig(app)
    await rig.submit(charge)

    async def away() -> None:
        raise ServiceUnavailable("SQS takes no sends")

    rig.wire.requests["send"] = away
    async with rig.working(children=1):
        await rig.happens(SettlementFailed)
    assert len(rig.heard(JobStarted)) == 1
    del rig.wire.requests["send"]
    async with rig.working(children=1):
        await rig.happens(JobQuarantined)
    assert len(rig.heard(JobStarted)) == 1, "its one attempt had been made"
    assert len(rig.sqs.messages(QUARANTINE)) == 1


async def test_crashes_further_apart_than_the_window_do_not_add_up() -> None:
    app, queue = recorded(
        Retry(max_attempts=10), crash_limit=CrashLimit(crashes=2, within=timedelta(minutes=1))
    )
    seen: list[int] = []
    rig = Rig(app)
    [job_id] = await rig.submit(sender(queue, seen))
    dying = Dying(rig)
    await dying.receive()
    await _found_by_the_next(rig, job_id)
    await asyncio.sleep(600 + VISIBILITY_S)
    await dying.receive()
    async with rig.working():
        await rig.happens(JobCompleted)
    assert seen == [3]


async def test_a_later_delivery_that_was_never_started_is_no_crash() -> None:
    app, queue = recorded()
    seen: list[int] = []
    rig = Rig(app)
    [job_id] = await rig.submit(sender(queue, seen))
    dying = Dying(rig)
    await dying.receive()
    await _found_by_the_next(rig, job_id)
    await dying.receive(started=False)  # it waited in a worker that another job killed
    async with rig.working():
        await rig.happens(JobCompleted)
    assert seen == [2]
    assert rig.heard(JobCrashed) == []


async def test_a_job_may_be_put_off_more_often_than_it_has_attempts() -> None:
    app, queue = recorded()
    seen: list[int] = []

    @queue.job("poll")
    async def poll(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        if len(seen) <= 8:
            raise RetryLater(timedelta(seconds=5), "not ready")

    rig = Rig(app)
    await rig.submit(poll)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert seen == [1] * 9
    assert rig.heard(JobCrashed) == []


async def test_failures_count_up_to_the_last_attempt_and_no_further() -> None:
    app, queue = recorded()

    @queue.job("fail")
    async def fail(_note: Note) -> None:
        raise ConnectionError("down")

    rig = Rig(app)
    await rig.submit(fail)
    async with rig.working():
        [dead] = await rig.happens(JobDeadLettered)
    assert [event.attempt for event in rig.heard(JobStarted)] == [1, 2, 3]
    assert dead.reason == "attempts-exhausted"


async def test_what_a_deploy_interrupts_keeps_its_attempt() -> None:
    app, queue = recorded()
    gate = Gate()
    slow = queue.define("slow", Note)
    slow.handler(gate.__call__)
    rig = Rig(app)
    await rig.submit(slow, "a")
    for _ in range(4):
        worker = rig.worker(drain=timedelta(0))
        run = asyncio.create_task(worker.run())
        await gate.reached(len(gate.started) + 1)
        worker.stop()
        await run
    gate.open("a")
    async with rig.working():
        await rig.happens(JobCompleted)
    assert {event.attempt for event in rig.heard(JobStarted)} == {1}
    assert rig.heard(JobCrashed) == []


async def test_a_failure_is_written_before_its_message_can_be_seen_again() -> None:
    app, queue = recorded()

    @queue.job("fail")
    async def fail(_note: Note) -> None:
        raise ConnectionError("down")

    rig = Rig(app)
    [job_id] = await rig.submit(fail)
    known: list[list[str]] = []

    async def look() -> None:
        items = await rig.table.query(partition(job_id))
        known.append([item.sk.rpartition("#")[2] for item in items])

    rig.wire.requests["change_visibility"] = look
    async with rig.working():
        await rig.happens(JobRetryScheduled)
        rig.wire.requests.clear()
        await rig.happens(JobDeadLettered)
    assert known[0] == ["failed"]


async def test_a_first_delivery_reads_and_writes_nothing() -> None:
    app, queue = recorded()
    rig = Rig(app)
    await rig.submit(sender(queue, []), *"abcdefgh")
    async with rig.working():
        await rig.happens(JobCompleted, 8)
        asked = [*rig.table.calls]
    # By the worker itself: as a sign of life, for cancellations, and to show its status.
    assert asked == ["put", "page", "page", "put"]


async def test_without_its_table_jobs_run_and_are_counted_by_deliveries() -> None:
    app, queue = recorded()
    seen: list[int] = []

    @queue.job("flaky")
    async def flaky(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        if len(seen) < 3:
            raise ConnectionError("down")

    rig = Rig(app)
    rig.table.missing = True
    await rig.submit(flaky)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert seen == [1, 2, 3]
    assert {event.action for event in rig.heard(RecordsFailed)} == {
        *("read", "write", "renew", "status")
    }
    assert rig.heard(JobFailed)


async def test_suspects_run_one_at_a_time_and_others_beside_them() -> None:
    app, queue = recorded(Retry(max_attempts=10))
    gate = Gate()
    risky, plain = queue.define("risky", Note), queue.define("plain", Note)
    risky.handler(gate.__call__)
    plain.handler(gate.__call__)
    rig = Rig(app)
    suspects = await rig.submit(risky, "s1", "s2")
    await _suspect(rig, suspects)
    await rig.submit(plain, "p1", "p2")
    async with rig.working(concurrency=10):
        await gate.reached(3)
        await asyncio.sleep(10)
        first = [name for name in gate.started if name.startswith("s")]
        assert len(first) == 1
        assert {"p1", "p2"} < set(gate.started)
        gate.open(*first)
        await gate.reached(4)
        gate.open("s1", "s2", "p1", "p2")
        await rig.happens(JobCompleted, 4)


async def _suspect(rig: Rig, job_ids: list[str]) -> None:
    """Have each job crash twice."""
    for _ in range(2):
        for message in await rig.sqs.receive(MAIL, limit=10, wait_s=0):
            receive, job_id = message.receive_count, _job_id(message.body)
            assert job_id in job_ids
            await rig.table.put(
                [mark(job_id, message.message_id, receive, Mark.CRASHED, rig.clock.now())]
            )
        await asyncio.sleep(VISIBILITY_S + 0.1)


async def test_without_records_a_job_delivered_much_too_often_goes_to_quarantine() -> None:
    app = App("shop", records="off")
    lane = lanes(VISIBILITY_S)[Priority.NORMAL]
    queue = app.queue("mail", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lane})
    seen: list[int] = []
    rig = Rig(app)
    [job_id] = await rig.submit(sender(queue, seen))
    deliveries = max(DEFAULT_RETRY.max_attempts, app.parking.max_attempts) + BACKSTOP_MARGIN
    for _ in range(deliveries - 1):
        await Dying(rig).receive(started=False)
    async with rig.working():
        [quarantined] = await rig.happens(JobQuarantined)
    assert quarantined.job_id == job_id
    assert seen == []
    assert len(rig.sqs.messages(QUARANTINE)) == 1


async def test_without_records_a_deferral_uses_up_no_attempt() -> None:
    app = App("shop", records="off")
    queue = app.queue("mail", priorities=[Priority.NORMAL])
    seen: list[int] = []

    @queue.job("poll", retry=Retry(max_attempts=3, backoff=Backoff.fixed(1)))
    async def poll(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        if len(seen) % 4:
            raise RetryLater(timedelta(seconds=5))
        raise ConnectionError("refused")

    rig = Rig(app)
    await rig.submit(poll)
    async with rig.working():
        [dead] = await rig.happens(JobDeadLettered)
    assert dead.reason == "attempts-exhausted"
    assert seen == [*[1] * 4, *[2] * 4, *[3] * 4]


async def test_a_second_delivery_while_the_first_still_runs_is_no_crash() -> None:
    app, queue = recorded(Retry(max_attempts=5))
    gate = Gate()
    slow = queue.define("slow", Note)
    slow.handler(gate.__call__)
    rig = Rig(app)
    showing = Showing(rig)
    await rig.submit(slow, "a")
    workers = [rig.worker(), rig.worker()]
    runs = [asyncio.create_task(worker.run()) for worker in workers]
    for times in range(1, 5):
        await gate.reached(times)
        await asyncio.sleep(45)
        await showing.again()
    await gate.reached(5)
    gate.open("a")
    await rig.happens(JobCompleted)
    for worker in workers:
        worker.stop()
    await asyncio.wait_for(asyncio.gather(*runs), LIMIT_S)
    assert rig.heard(JobCrashed) == []
    assert rig.heard(JobQuarantined) == []


class Showing:
    """Makes a message in flight visible again, as SQS occasionally does."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._receive = rig.sqs.receive
        self._receipts: list[str] = []
        rig.sqs.receive = self._note  # type: ignore[method-assign]  # to know what is received

    async def _note(self, queue: str, **options: Any) -> list[ReceivedMessage]:
        found = await self._receive(queue, **options)
        self._receipts += [message.receipt for message in found]
        return found

    async def again(self) -> None:
        """Make the message received last visible again."""
        change = VisibilityChange(receipt=self._receipts[-1], timeout_s=0)
        await self._rig.sqs.change_visibility(MAIL, [change])


async def test_a_failure_that_could_not_be_written_is_no_crash() -> None:
    app, queue = recorded(Retry(max_attempts=5, backoff=Backoff.fixed(1)))
    runs = 0

    @queue.job("flaky")
    async def flaky(_note: Note) -> None:
        nonlocal runs
        runs += 1
        if runs < 4:
            raise ConnectionError("down")

    rig = Rig(app)
    rig.table.faults.raise_on("put", ServiceUnavailable("HTML"), times=10**6)
    await rig.submit(flaky)
    async with rig.working():
        await rig.happens(JobCompleted)
        rig.table.faults.clear()
        await asyncio.sleep(60)
    assert rig.heard(JobCrashed) == []


async def test_a_killer_is_quarantined_after_three_deaths_however_soon() -> None:
    app, queue = recorded(Retry(max_attempts=10))
    seen: list[int] = []
    rig = Rig(app)
    [job_id] = await rig.submit(sender(queue, seen))
    dying, showing = Dying(rig), Showing(rig)
    for _ in range(3):
        await dying.receive()
        await showing.again()
    async with rig.working():  # it has just started, and can't judge others yet
        [quarantined] = await rig.happens(JobQuarantined)
    assert (quarantined.job_id, quarantined.attempt) == (job_id, 3)
    assert seen == []
    assert {event.reason for event in rig.heard(JobDeferred)} == {
        "it may have killed its last worker"
    }


async def test_a_suspect_runs_once_its_workers_are_known_to_be_alive() -> None:
    app, queue = recorded(Retry(max_attempts=10))
    seen: list[int] = []
    rig = Rig(app)
    await rig.submit(sender(queue, seen))
    dying, showing = Dying(rig), Showing(rig)
    for _ in range(3):
        await dying.receive()
        await showing.again()

    async def go_on() -> None:
        for beat in range(2, 100):
            await asyncio.sleep(10)
            for death in range(1, 4):
                life = Life(
                    name=f"dead-{death}", beat=beat, groups=frozenset({"mail"}), at=rig.clock.now()
                )
                await rig.table.put([life_item(life)])

    living = asyncio.create_task(go_on())
    async with rig.working():
        await rig.happens(JobCompleted)
    living.cancel()
    assert rig.heard(JobCrashed) == []


async def test_a_worker_death_before_the_receive_is_not_blamed_on_the_job() -> None:
    app, queue = recorded()
    rig = Rig(app)
    await rig.submit(sender(queue, []))
    beat = Life(name="other", beat=7, groups=frozenset({"mail"}), at=rig.clock.now())
    await rig.table.put([life_item(beat)])  # its last one
    await asyncio.sleep(3600)
    await rig.sqs.receive(MAIL, limit=1, wait_s=0)  # by a poll that is cut off
    async with rig.working():
        await rig.happens(JobCompleted)
    assert rig.heard(JobCrashed) == []


async def test_a_worker_that_stops_in_order_leaves_no_life_behind() -> None:
    app, queue = recorded()
    sender(queue, [])
    rig = Rig(app)
    async with rig.working():
        await asyncio.sleep(25)
        [life] = await rig.table.query(LIVES)
        assert life.data["beat"] == 3
    assert await rig.table.query(LIVES) == []


async def _receive(rig: Rig, times: int) -> None:
    """Have the one message received that often by receivers that report no outcome."""
    for _ in range(times):
        [message] = await rig.sqs.receive(MAIL, limit=1, wait_s=20)
        change = VisibilityChange(receipt=message.receipt, timeout_s=0)
        await rig.sqs.change_visibility(MAIL, [change])


@pytest.mark.parametrize(("receives", "dies"), [(100, False), (101, True)])
async def test_a_message_that_nothing_explains_a_hundred_times_is_dead_lettered(
    receives: int, *, dies: bool
) -> None:
    app, queue = recorded()
    seen: list[int] = []
    rig = Rig(app)
    [job_id] = await rig.submit(sender(queue, seen))
    await _receive(rig, receives)
    async with rig.working():
        if not dies:
            await rig.happens(JobCompleted)
            return
        [dead] = await rig.happens(JobDeadLettered)
    assert (dead.job_id, dead.reason) == (job_id, "received-too-often")
    assert seen == []
    assert rig.heard(JobQuarantined) == []
    assert rig.heard(JobCrashed) == []


async def test_without_records_a_job_makes_all_the_attempts_that_its_submission_allows() -> None:
    app = App("shop", records="off")
    queue = app.queue("mail", priorities=[Priority.NORMAL])
    seen: list[int] = []

    @queue.job("send", retry=Retry(max_attempts=3, backoff=Backoff.fixed(1)))
    async def send(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        if ctx.attempt < 30:
            raise ConnectionError("refused")

    rig = Rig(app)
    await rig.submit(send, max_attempts=30)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert seen == list(range(1, 31))
    assert rig.heard(JobQuarantined) == []


@pytest.mark.parametrize(("receives", "dies"), [(998, False), (999, True)])
async def test_without_records_what_a_limit_sends_back_has_no_backstop_but_sqs_s(
    receives: int, *, dies: bool
) -> None:
    app = App("shop", records="off")
    queue = app.queue("mail", priorities=[Priority.NORMAL])
    seen: list[int] = []

    @queue.job("crawl", concurrency=Concurrency(5))
    async def crawl(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)

    rig = Rig(app)
    await rig.submit(crawl)
    await _receive(rig, receives)
    async with rig.working():
        if not dies:
            await rig.happens(JobCompleted)
            return
        [dead] = await rig.happens(JobDeadLettered)
    assert dead.reason == "received-too-often"
    assert seen == []


async def test_a_crash_is_found_when_its_message_was_hidden_for_long() -> None:
    app, seen = App("shop"), list[int]()
    hours = {Priority.NORMAL: lanes(3 * 3600)[Priority.NORMAL]}
    queue = app.queue("mail", priorities=[Priority.NORMAL], lanes=hours)
    app.queue("other", priorities=[Priority.NORMAL])
    rig = Rig(app)
    await rig.submit(sender(queue, seen))
    dying = Dying(rig)
    async with rig.working(queues=["other"]):  # a healthy worker elsewhere in the fleet
        await dying.receive()
        await asyncio.sleep(3 * 3600 - 140)  # the next has to watch for a while
    async with rig.working():
        await rig.happens(JobCompleted)
    assert len(rig.heard(JobCrashed)) == 1
    assert seen == [2]
