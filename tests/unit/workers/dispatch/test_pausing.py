"""Paused queues, types and tenants: nothing of them starts, and a pause costs no job anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from headgate import (
    App,
    AsyncClient,
    Backoff,
    Concurrency,
    JobContext,
    JobState,
    Pause,
    RateLimit,
    Retry,
    acting_as,
)
from headgate.jobs.client.pauses import AsyncPauses
from headgate.jobs.core.events import (
    ItemsSkipped,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobStarted,
    QueuePaused,
    QueueResumed,
)
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.topology import Priority
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.records.cancellation import CANCELLATIONS, cancellation
from headgate.jobs.records.cancellations import PAGE, POLL_S
from headgate.jobs.records.items import Mark, partition
from headgate.jobs.records.pausing.returns import is_told
from tests.unit.workers.rig import MAIL, Gate, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

GRACE_S = 2 * POLL_S
"""Two looks, each up to a fifth late, take no longer than that, together with what is under way."""

LONGEST_AWAY_S = 60 * 1.2
"""The longest time away in the first ten minutes of a pause, with its jitter."""


class Log:
    """A handler that is quick, and a record of its starts by time."""

    def __init__(self, takes_s: float = 0.01) -> None:
        self.starts: list[tuple[float, str]] = []
        self.attempts: list[int] = []
        self._takes_s = takes_s

    async def __call__(self, note: Note, ctx: JobContext) -> None:
        self.starts.append((asyncio.get_running_loop().time(), note.text))
        self.attempts.append(ctx.attempt)
        await asyncio.sleep(self._takes_s)

    def after(self, moment: float) -> list[str]:
        """Return what has started since a moment."""
        return [text for at, text in self.starts if at > moment]


def now() -> float:
    return asyncio.get_running_loop().time()


def two_types(**options: Any) -> tuple[App, Log, JobType[Note, None], JobType[Note, None]]:
    """Return an app with the queue ``shop-mail-normal`` and two types in it."""
    app, mail = one_lane(**options)
    log = Log()
    return app, log, mail.job("send")(log.__call__), mail.job("other")(log.__call__)


@asynccontextmanager
async def pauses(rig: Rig) -> AsyncIterator[AsyncPauses]:
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        yield client.pauses


async def pause(rig: Rig, **named: Any) -> Pause:
    async with pauses(rig) as found:
        return await found.create(**named)


async def resume(rig: Rig, **named: Any) -> bool:
    async with pauses(rig) as found:
        return await found.remove(**named)


def receives(rig: Rig, queue: str = MAIL) -> int:
    return rig.calls("receive", queue)


# --- queues --------------------------------------------------------------------------------------


async def test_a_paused_queue_is_not_received_from_until_it_is_resumed() -> None:
    app, log, send, _ = two_types()
    rig = Rig(app)
    async with rig.working(concurrency=5):
        await rig.submit(send, "before")
        await rig.happens(JobCompleted)
        with acting_as("ada"):
            await pause(rig, queue="mail", reason="a migration")
        [told] = await rig.happens(QueuePaused)
        await asyncio.sleep(25)  # the long poll that was under way has ended
        asked = receives(rig)
        await rig.submit(send, "while", "it", "is paused")
        await asyncio.sleep(200)
        assert (receives(rig), len(log.starts)) == (asked, 1)

        assert await resume(rig, queue="mail")
        resumed_at = now()
        await rig.happens(JobCompleted, 4)
        assert now() - resumed_at < 2 * POLL_S
        assert [event.target for event in rig.heard(QueueResumed)] == ["mail"]
    assert (told.kind, told.target, told.reason, told.actor) == (
        "queue",
        "mail",
        "a migration",
        "ada",
    )
    assert all(message.receive_count <= 1 for message in rig.sqs.messages(MAIL))


async def test_a_queue_paused_before_its_worker_starts_is_never_received_from() -> None:
    app, _, send, _ = two_types()
    rig = Rig(app)
    await rig.submit(send, "waits")
    await pause(rig, queue="mail")
    async with rig.working() as worker:
        await asyncio.sleep(200)
        assert receives(rig) == 0
        assert worker.is_held_back  # so that the worker counts as ready
        assert [message.receive_count for message in rig.sqs.messages(MAIL)] == [0]


async def test_under_full_load_nothing_starts_soon_after_the_pause_and_nothing_is_lost() -> None:
    app, mail = one_lane(visibility_s=30)
    log = Log(takes_s=0.5)
    send = mail.job("send")(log.__call__)
    rig = Rig(app)
    texts = [str(number) for number in range(600)]
    await rig.submit(send, *texts)
    async with rig.working(concurrency=20):
        await rig.happens(JobCompleted, 100)
        await pause(rig, queue="mail")
        asked_at = now()
        await rig.happens(QueuePaused)
        told_at = now()
        await asyncio.sleep(120)
        assert log.after(told_at) == []
        assert told_at - asked_at <= 5
        assert await resume(rig, queue="mail")
        await rig.happens(JobCompleted, len(texts))
    assert sorted(text for _, text in log.starts) == sorted(texts)
    assert set(log.attempts) == {1}  # whatever was given back has lost no attempt
    assert rig.heard(JobDeadLettered) == []


async def test_what_is_held_when_its_queue_is_paused_goes_back_and_its_return_is_explained() -> (
    None
):
    app = App("shop")
    gate = Gate()
    queue = app.queue("mail", priorities=[Priority.NORMAL], fifo=True)
    send = queue.job("send", group_by=lambda note: note.text[0])(gate.__call__)
    rig = Rig(app)
    ids = await rig.submit(send, "runs", "rests", "rests too")
    async with rig.working(concurrency=10):
        await gate.reached(1)
        assert rig.in_flight() == 3
        await pause(rig, queue="mail")
        await rig.happens(QueuePaused)
        await asyncio.sleep(1)
        items = [item for job_id in ids for item in await rig.table.query(partition(job_id))]
        assert sum(item.sk.endswith(f"#{Mark.RELEASED}") for item in items) == 2
        gate.open("runs", "rests", "rests too")
        await rig.happens(JobCompleted)  # what ran goes on
        await asyncio.sleep(120)
        assert len(gate.started) == 1
        await resume(rig, queue="mail")
        done = await rig.happens(JobCompleted, 3)
    assert gate.started == ["runs", "rests", "rests too"]
    assert {event.attempt for event in done} == {1}


async def test_only_the_paused_priority_of_a_queue_stops() -> None:
    app = App("shop")
    log = Log()
    queue = app.queue(
        "mail",
        priorities=[Priority.HIGH, Priority.LOW],
    )
    send = queue.job("send", priority=Priority.HIGH)(log.__call__)
    rig = Rig(app)
    await pause(rig, queue="mail", priority="low")
    async with rig.working():
        await rig.submit(send, "low", priority=Priority.LOW)
        await rig.submit(send, "high")
        await rig.happens(JobCompleted)
        await asyncio.sleep(60)
    assert [text for _, text in log.starts] == ["high"]


async def test_a_pause_ends_by_the_workers_own_clock_though_the_table_is_away() -> None:
    app, _, send, _ = two_types()
    rig = Rig(app)
    await pause(rig, queue="mail", lasts=120)
    began = now()
    async with rig.working():
        await rig.submit(send, "waits")
        rig.table.missing = True
        await rig.happens(JobStarted)
        assert 120 <= now() - began <= 125
        rig.table.missing = False


async def test_a_worker_that_stops_while_all_is_paused_ends_at_once() -> None:
    app, _, send, _ = two_types()
    rig = Rig(app)
    await pause(rig, queue="mail")
    async with rig.working():
        await rig.submit(send, "waits")
        await asyncio.sleep(30)
        began = now()
    assert now() - began < 1
    assert rig.report is not None
    assert rig.report.clean


# --- types and tenants ---------------------------------------------------------------------------


async def test_jobs_of_a_paused_tenant_wait_and_those_of_others_run() -> None:
    app, mail = one_lane()
    log = Log()
    send = mail.job("send", retry=Retry(max_attempts=2))(log.__call__)
    rig = Rig(app)
    await pause(rig, tenant="acme")
    async with rig.working(concurrency=5):
        await rig.submit(send, *(["paused"] * 30), tenant="acme")
        await rig.submit(send, *(["other"] * 30), tenant="other")
        await rig.happens(JobCompleted, 30)
        await asyncio.sleep(400)
        assert {text for _, text in log.starts} == {"other"}
        assert max(message.receive_count for message in rig.sqs.messages(MAIL)) > 5
        resumed_at = now()
        await resume(rig, tenant="acme")
        await rig.happens(JobCompleted, 60)
        assert now() - resumed_at <= LONGEST_AWAY_S + 2 * POLL_S
    assert set(log.attempts) == {1}
    assert rig.heard(JobDeadLettered) == []


async def test_a_tenant_under_full_load_stops_within_seconds() -> None:
    app, _, send, _ = two_types()
    rig = Rig(app)
    await rig.submit(send, *map(str, range(300)), tenant="acme")
    async with rig.working(concurrency=5):
        await rig.happens(JobCompleted, 100)
        await pause(rig, tenant="acme")
        asked_at = now()
        [told] = await rig.happens(QueuePaused)
        told_at = now()
        await asyncio.sleep(100)
        assert told_at - asked_at <= 1.2 * POLL_S
        assert [event for event in rig.heard(JobStarted) if event.at > told.at] == []
        await resume(rig, tenant="acme")
        await rig.happens(JobCompleted, 300)
    assert {event.attempt for event in rig.heard(JobCompleted)} == {1}


async def test_a_queue_all_of_whose_types_are_paused_is_not_received_from() -> None:
    app, log, send, other = two_types()
    rig = Rig(app)
    await pause(rig, job_type=send)
    await pause(rig, job_type="other")
    async with rig.working():
        await rig.submit(send, "a")
        await rig.submit(other, "b")
        await asyncio.sleep(120)
        assert receives(rig) == 0
        await resume(rig, job_type="other")
        await rig.happens(JobCompleted)
        await asyncio.sleep(60)
    assert [text for _, text in log.starts] == ["b"]


async def test_a_paused_type_costs_few_receives_even_if_its_messages_are_many() -> None:
    app, _, send, _ = two_types()
    rig = Rig(app)
    await pause(rig, job_type=send)
    await rig.submit(send, *map(str, range(300)))
    async with rig.working():
        await asyncio.sleep(200)
    assert receives(rig) < 220  # about one a second
    counts = [message.receive_count for message in rig.sqs.messages(MAIL)]
    assert max(counts) < 30


async def test_a_type_without_records_loses_no_attempt_to_a_pause() -> None:
    app, mail = one_lane()
    failing = Log()

    @mail.job("send", records="off", retry=Retry(max_attempts=2, backoff=Backoff.fixed(1)))
    async def send(note: Note, ctx: JobContext) -> None:
        await failing(note, ctx)
        raise ConnectionError

    mail.job("other")(Log().__call__)
    rig = Rig(app)
    await pause(rig, job_type="send")
    async with rig.working():
        await rig.submit(send, "unlucky")
        await asyncio.sleep(300)
        await resume(rig, job_type="send")
        await rig.happens(JobDeadLettered)
    assert len(rig.heard(JobFailed)) == 2
    assert failing.attempts == [1, 2]


# --- FIFO, limits, isolation, once ---------------------------------------------------------------


async def test_a_paused_tenant_of_a_fifo_group_keeps_the_groups_order() -> None:
    app = App("shop")
    log = Log(takes_s=0.2)
    queue = app.queue("mail", priorities=[Priority.NORMAL], fifo=True)

    @queue.job("send", group_by=lambda note: note.text[0])
    async def send(note: Note, ctx: JobContext) -> None:
        await log(note, ctx)

    rig = Rig(app)
    await pause(rig, tenant="acme")
    async with rig.working():
        await rig.submit(send, "a1", tenant="other")
        await rig.submit(send, "a2", tenant="acme")
        await rig.submit(send, "a3", "a4", tenant="other")
        await asyncio.sleep(120)
        assert [text for _, text in log.starts] == ["a1"]
        await resume(rig, tenant="acme")
        await rig.happens(JobCompleted, 4)
    assert [text for _, text in log.starts] == ["a1", "a2", "a3", "a4"]
    assert set(log.attempts) == {1}


async def test_a_fifo_queue_paused_under_load_keeps_its_order() -> None:
    app = App("shop")
    log = Log(takes_s=0.2)
    queue = app.queue("mail", priorities=[Priority.NORMAL], fifo=True)

    @queue.job("send", group_by=lambda note: note.text[0])
    async def send(note: Note, ctx: JobContext) -> None:
        await log(note, ctx)

    rig = Rig(app)
    texts = [f"{group}{number:02}" for number in range(30) for group in "abc"]
    async with rig.working(concurrency=2):
        await rig.submit(send, *texts)
        await rig.happens(JobCompleted, 10)
        await pause(rig, queue="mail")
        await asyncio.sleep(60)
        started = len(log.starts)
        assert started < len(texts)
        await asyncio.sleep(60)
        assert len(log.starts) == started
        await resume(rig, queue="mail")
        await rig.happens(JobCompleted, len(texts))
    for group in "abc":
        mine = [text for _, text in log.starts if text[0] == group]
        assert mine == sorted(mine)
    assert set(log.attempts) == {1}


async def test_a_limit_with_places_for_others_is_not_held_up_by_paused_jobs() -> None:
    app, mail = one_lane()
    log = Log(takes_s=1)
    send = mail.job("send", concurrency=Concurrency(1))(log.__call__)
    rig = Rig(app)
    await pause(rig, tenant="acme")
    async with rig.working():
        await rig.submit(send, *(["paused"] * 20), tenant="acme")
        await rig.submit(send, *(["other"] * 20), tenant="other")
        await rig.happens(JobCompleted, 20)
        assert {text for _, text in log.starts} == {"other"}
        await resume(rig, tenant="acme")
        await rig.happens(JobCompleted, 40)
    assert set(log.attempts) == {1}


async def test_a_job_that_counts_once_and_is_paused_runs_once_afterwards() -> None:
    app, mail = one_lane()
    log = Log()
    send = mail.job("send", once=True)(log.__call__)
    rig = Rig(app)
    await pause(rig, job_type=send)
    mail_other = mail.job("other")(Log().__call__)
    async with rig.working():
        await rig.submit(send, "a")
        await rig.submit(mail_other, "b")
        await asyncio.sleep(60)
        await resume(rig, job_type=send)
        await rig.happens(JobCompleted, 2)
    assert [text for _, text in log.starts] == ["a"]


async def test_a_delayed_job_of_a_paused_type_starts_after_the_later_of_both() -> None:
    app, log, send, _ = two_types()
    rig = Rig(app)
    await pause(rig, job_type=send, lasts=600)
    began = now()
    async with rig.working():
        await rig.submit(send, "soon", delay=60)
        await rig.submit(send, "later", delay=900)
        await rig.happens(JobCompleted, 2)
    (first_at, first), (second_at, second) = log.starts
    assert (first, second) == ("soon", "later")
    assert 600 <= first_at - began <= 800
    assert second_at - began >= 900


async def test_a_retry_that_comes_while_it_is_paused_keeps_its_attempts() -> None:
    app, mail = one_lane(Retry(max_attempts=3, backoff=Backoff.fixed(20)))
    log = Log()

    @mail.job("send")
    async def send(note: Note, ctx: JobContext) -> None:
        await log(note, ctx)
        raise ConnectionError

    mail.job("other")(log.__call__)
    rig = Rig(app)
    async with rig.working():
        await rig.submit(send, "unlucky")
        await rig.happens(JobFailed)
        await pause(rig, job_type=send)
        await asyncio.sleep(200)
        assert log.attempts == [1]
        await resume(rig, job_type=send)
        await rig.happens(JobDeadLettered)
    assert log.attempts == [1, 2, 3]


async def test_what_waits_for_the_end_of_a_pause_says_so_and_is_seldom_written_of() -> None:
    app, log, send, _ = two_types()
    rig = Rig(app)
    await pause(rig, job_type=send)
    [job_id] = await rig.submit(send, "waits")
    async with rig.working(), AsyncClient(app, backend=rig.backend) as client:
        await asyncio.sleep(590)
        [message] = rig.sqs.messages(MAIL)
        assert 5 < message.receive_count < 20
        told = await releases(rig, job_id)
        assert told == [n for n in range(1, message.receive_count + 1) if is_told(n)]
        record = await client.handle(job_id).history()
        assert (record.state, record.attempts) == (JobState.WAITING, ())
        assert record.explanation.endswith(", since the type 'send' is paused")
        await resume(rig, job_type=send)
        resumed_at = now()
        await rig.happens(JobCompleted)
        assert now() - resumed_at <= LONGEST_AWAY_S + 2 * POLL_S
        await asyncio.sleep(1)
        assert (await client.handle(job_id).history()).explanation == ""
    assert log.attempts == [1]


async def test_a_retry_that_waits_for_the_end_of_a_pause_says_both() -> None:
    app, mail = one_lane(Retry(max_attempts=3, backoff=Backoff.fixed(20)))

    @mail.job("send")
    async def send(_note: Note) -> None:
        raise ConnectionError

    mail.job("other")(Log().__call__)
    rig = Rig(app)
    [job_id] = await rig.submit(send, "unlucky", tenant="acme")
    async with rig.working(), AsyncClient(app, backend=rig.backend) as client:
        await rig.happens(JobFailed)
        await pause(rig, tenant="acme")
        await asyncio.sleep(200)
        record = await client.handle(job_id).history()
        [listed] = (await client.jobs.list()).jobs
    assert (record.state, listed.state) == (JobState.RETRYING, JobState.RETRYING)
    assert record.explanation.endswith(", since the tenant 'acme' is paused")
    assert listed.explanation == record.explanation


async def test_a_job_that_a_limit_held_back_and_a_pause_then_loses_no_attempt() -> None:
    app, mail = one_lane()
    log = Log()
    limit = RateLimit(1, per=30)
    send = mail.job("send", rate_limit=limit, retry=Retry(max_attempts=1))(log.__call__)
    mail.job("other")(Log().__call__)
    rig = Rig(app)
    texts = [str(number) for number in range(12)]
    await rig.submit(send, *texts)
    async with rig.working(give_back_after=timedelta(seconds=1)):
        await rig.happens(JobCompleted, 3)
        await pause(rig, job_type=send)
        await rig.happens(QueuePaused)
        started = len(log.starts)
        await asyncio.sleep(300)
        assert len(log.starts) == started
        await resume(rig, job_type=send)
        await rig.happens(JobCompleted, len(texts))
    assert sorted(text for _, text in log.starts) == sorted(texts)
    assert set(log.attempts) == {1}
    assert rig.heard(JobDeadLettered) == []
    times = [at for at, _ in log.starts]
    assert all(later - earlier >= 29 for earlier, later in pairwise(times)), "the limit holds"


async def test_workers_that_stop_and_start_during_a_pause_cost_no_attempt() -> None:
    app, mail = one_lane()
    log = Log()
    send = mail.job("send", retry=Retry(max_attempts=1))(log.__call__)
    mail.job("other")(Log().__call__)
    rig = Rig(app)
    await pause(rig, job_type=send)
    ids = await rig.submit(send, *map(str, range(20)))
    for lasts_s in (0.1, 1, 7, 45, 120):
        async with rig.working():
            await asyncio.sleep(lasts_s)
        assert rig.report is not None
        assert rig.report.clean
    await resume(rig, job_type=send)
    async with rig.working():
        await rig.happens(JobCompleted, len(ids))
    assert sorted(int(text) for _, text in log.starts) == [*range(20)]
    assert set(log.attempts) == {1}
    assert rig.heard(JobDeadLettered) == []


async def releases(rig: Rig, job_id: str) -> list[int]:
    """Return the deliveries of a job that are recorded as given back."""
    items = [item.sk.split("#") for item in await rig.table.query(partition(job_id))]
    return [int(receive) for _, _, receive, kind in items if kind == Mark.RELEASED]


# --- the items -----------------------------------------------------------------------------------


async def test_a_pause_is_known_after_two_looks_however_many_jobs_are_cancelled() -> None:
    app, _, send, _ = two_types()
    rig = Rig(app)
    for start in range(0, 3 * PAGE, 25):
        asked = [
            cancellation(f"{n:032x}", "no", rig.clock.now(), useful=timedelta(days=4))[1]
            for n in range(start, start + 25)
        ]
        await rig.table.put(asked)
    async with rig.working():
        for times in (1, 2, 3):
            await rig.submit(send, "a")
            await rig.happens(JobCompleted, times)
            await pause(rig, queue="mail")
            asked_at = now()
            await rig.happens(QueuePaused, times)
            assert now() - asked_at <= 2 * 1.2 * POLL_S
            await resume(rig, queue="mail")
            asked_at = now()
            await rig.happens(QueueResumed, times)
            assert now() - asked_at <= 2 * 1.2 * POLL_S


async def test_a_pause_costs_a_worker_no_further_request() -> None:
    asked = []
    for paused in (False, True):
        app, _, _, _ = two_types()
        rig = Rig(app)
        if paused:
            await pause(rig, tenant="acme")
        rig.table.calls.clear()
        async with rig.working():
            await asyncio.sleep(100)
        asked.append(rig.table.calls)
    assert asked[0] == asked[1]


async def test_the_item_of_a_pause_is_gone_when_it_ends() -> None:
    app, _, _, _ = two_types()
    rig = Rig(app)
    await pause(rig, tenant="acme", lasts=60)
    assert len(await rig.table.query(CANCELLATIONS)) == 1
    await asyncio.sleep(61)
    assert await rig.table.query(CANCELLATIONS) == []


async def test_a_strange_pause_stops_nobody_and_is_reported_once() -> None:
    app, log, send, _ = two_types()
    rig = Rig(app)
    await rig.table.put(
        [
            Item(pk=CANCELLATIONS, sk="#pause#queue#mail", data={"kind": "queue", "name": "mail"}),
            Item(pk=CANCELLATIONS, sk="#pause#", data={"until": 5}),
            Item(pk=CANCELLATIONS, sk="#pause#tenant#", data={"reason": "x" * 10_000}),
        ]
    )
    await pause(rig, tenant="acme")
    async with rig.working():
        await rig.submit(send, "runs")
        await rig.happens(JobCompleted)
        await rig.submit(send, "waits", tenant="acme")
        await asyncio.sleep(60)
    assert [text for _, text in log.starts] == ["runs"]
    assert [(event.kind, event.items) for event in rig.heard(ItemsSkipped)] == [("pause", 3)]
