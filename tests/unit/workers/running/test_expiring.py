"""Jobs that expire: dropped without a run if no worker has started them in time."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from headgate import (
    App,
    AsyncClient,
    Backoff,
    DoNotRetry,
    Priority,
    RateLimit,
    Retry,
    RetryLater,
    Schedule,
    Unique,
)
from headgate.errors import JobDropped as JobWasDropped
from headgate.jobs.core.events import (
    ClaimFailed,
    JobCompleted,
    JobDeadLettered,
    JobDropped,
    JobStarted,
)
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.records.lives import Life, life_item
from headgate.jobs.records.state import JobState
from headgate.testing import Harness
from tests.unit.workers.rig import Note, Rig

MINUTE = timedelta(minutes=1)
QUEUE = "shop-mail-normal"


class Bench:
    """A rig with one type, whose runs it lists."""

    def __init__(self, *, records: Any = "outcomes", fifo: bool = False, **options: Any) -> None:
        app = App("shop", records=records)
        mail = app.queue("mail", priorities=[Priority.NORMAL], fifo=fifo)
        self.ran: list[str] = []
        self.fails: list[Exception] = []

        @mail.job("send", **options)
        async def send(note: Note) -> None:
            self.ran.append(note.text)
            if self.fails:
                raise self.fails.pop(0)

        self.send: JobType[Note, None] = send
        self.rig = Rig(app)
        self.client = AsyncClient(app, backend=self.rig.backend)

    async def submit(self, text: str, **options: Any) -> Any:
        return await self.client.submit(self.send, Note(text=text), **options)

    async def pass_by(self, time: timedelta) -> None:
        await asyncio.sleep(time.total_seconds())


@pytest.mark.looptime
async def test_a_job_that_nobody_started_in_time_never_runs_and_says_so() -> None:
    bench = Bench(expires=MINUTE)
    late = await bench.submit("late")
    await bench.pass_by(MINUTE)
    await bench.submit("in time")
    async with bench.rig.working():
        await bench.rig.happens(JobCompleted)
        await bench.rig.happens(JobDropped)
    assert bench.ran == ["in time"]
    [dropped] = bench.rig.heard(JobDropped)
    assert (dropped.job_id, dropped.kind) == (late.id, "expired")
    assert "had not started by 2" in dropped.reason
    record = await late.history()
    assert (record.state, record.drop_kind, record.attempts) == (JobState.DROPPED, "expired", ())
    assert record.expires_at == record.submitted_at + MINUTE
    with pytest.raises(JobWasDropped) as told:
        await late.result()
    assert told.value.kind == "expired"
    assert bench.rig.sqs.messages(QUEUE) == []


@pytest.mark.looptime
async def test_a_submission_has_its_own_time_which_counts_from_when_the_job_is_due() -> None:
    bench = Bench(expires=MINUTE)
    await bench.submit("short", expires=1)
    await bench.submit("later", delay=90)
    await bench.submit("long", expires=timedelta(hours=1))
    await bench.submit("exact", expires=bench.rig.clock.now() + 3 * MINUTE)
    await bench.pass_by(2 * MINUTE)
    async with bench.rig.working():
        await bench.rig.happens(JobCompleted, 3)
        await bench.rig.happens(JobDropped)
    assert sorted(bench.ran) == ["exact", "later", "long"]


@pytest.mark.looptime
async def test_a_job_that_has_begun_no_longer_expires() -> None:
    bench = Bench(expires=MINUTE, retry=Retry(max_attempts=2, backoff=Backoff.fixed(300)))
    bench.fails += [ConnectionError("down"), RetryLater(300)]
    await bench.submit("failed")
    await bench.submit("put off")
    async with bench.rig.working():
        await bench.rig.happens(JobCompleted, 2)
    assert sorted(bench.ran) == ["failed", "failed", "put off", "put off"]
    assert bench.rig.heard(JobDropped) == []


@pytest.mark.looptime
async def test_a_job_that_was_only_received_before_expires_all_the_same() -> None:
    bench = Bench(expires=MINUTE)
    await bench.submit("received")
    [message] = await bench.rig.sqs.receive(QUEUE, limit=1, wait_s=0)
    assert message.receive_count == 1
    await bench.pass_by(timedelta(hours=1))
    async with bench.rig.working():
        await bench.rig.happens(JobDropped)
    assert bench.ran == []


@pytest.mark.looptime
async def test_without_records_a_job_that_was_delivered_before_runs() -> None:
    bench = Bench(expires=MINUTE, records="off")
    await bench.submit("received")
    await bench.rig.sqs.receive(QUEUE, limit=1, wait_s=0)
    await bench.pass_by(timedelta(hours=1))
    async with bench.rig.working():
        await bench.rig.happens(JobCompleted)
    assert bench.ran == ["received"]


@pytest.mark.looptime
async def test_a_job_that_expires_behind_a_limit_is_dropped_and_takes_nothing_of_it() -> None:
    bench = Bench(expires=MINUTE, rate_limit=RateLimit(1, per=3 * MINUTE))
    await bench.submit("first")
    await bench.submit("held back")
    async with bench.rig.working():
        await bench.rig.happens(JobDropped)
        await bench.submit("next", expires=timedelta(hours=1))
        await bench.rig.happens(JobCompleted, 2)
    assert bench.ran == ["first", "next"]
    first, second = (event.at for event in bench.rig.heard(JobStarted))
    assert second - first < 4 * MINUTE, "only once behind the limit"


@pytest.mark.looptime
async def test_the_next_of_its_group_goes_on() -> None:
    bench = Bench(fifo=True)
    await bench.submit("late", group="a", expires=1)
    await bench.submit("next", group="a")
    await bench.pass_by(MINUTE)
    async with bench.rig.working():
        await bench.rig.happens(JobCompleted)
    assert bench.ran == ["next"]
    assert len(bench.rig.heard(JobDropped)) == 1


@pytest.mark.looptime
@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("records", ["outcomes", "off"])
async def test_the_key_of_a_unique_job_is_free_again(*, away: bool, records: str) -> None:
    bench = Bench(records=records, expires=MINUTE, unique=Unique(within=timedelta(hours=1)))
    first = await bench.submit("same")
    assert (await bench.submit("same")).id == first.id
    await bench.pass_by(MINUTE)
    async with bench.rig.working():
        if away:
            bench.rig.table.faults.raise_on("replace", ServiceUnavailable("away"))
        await bench.rig.happens(JobDropped)
    again = await bench.submit("same")
    assert (again.id == first.id) is away, "while the table is away the key stays taken"
    assert [event.action for event in bench.rig.heard(ClaimFailed)] == ["release"] * away


@pytest.mark.looptime
async def test_the_key_that_another_job_has_meanwhile_stays_taken() -> None:
    bench = Bench(expires=150, unique=Unique(within=100))
    first = await bench.submit("same")
    await bench.pass_by(timedelta(seconds=110))
    second = await bench.submit("same")
    await bench.pass_by(timedelta(seconds=50))
    async with bench.rig.working():
        await bench.rig.happens(JobCompleted)
        [dropped] = await bench.rig.happens(JobDropped)
    assert dropped.job_id == first.id
    assert (await bench.submit("same")).id == second.id


@pytest.mark.looptime
async def test_a_dead_letter_that_somebody_sends_back_runs_whenever_it_comes() -> None:
    bench = Bench(expires=MINUTE)
    bench.fails.append(DoNotRetry("no"))
    await bench.submit("dead")
    async with bench.rig.working():
        await bench.rig.happens(JobDeadLettered)
    await bench.pass_by(timedelta(hours=1))
    [letter] = bench.rig.sqs.messages(f"{QUEUE}-dlq")  # as AWS's redrive does
    again = OutgoingMessage(body=letter.body, attributes=letter.attributes)
    await bench.rig.sqs.send(QUEUE, [again])
    async with bench.rig.working():
        await bench.rig.happens(JobCompleted)
    assert bench.ran == ["dead", "dead"]


# --- schedules, delays and functions -------------------------------------------------------------


def _harness(**options: Any) -> tuple[Harness, JobType[Note, None], list[str]]:
    app, ran = App("shop"), list[str]()

    @app.job("send", **options)
    async def send(note: Note) -> None:
        ran.append(note.text)

    return Harness(app), send, ran


def test_a_schedules_jobs_expire_as_their_type_says() -> None:
    jobs, send, ran = _harness(expires=MINUTE)
    jobs.client.schedules.create("s", send, Note(), schedule=Schedule.rate(timedelta(hours=1)))
    jobs.clock.advance(timedelta(hours=1))
    jobs.drain()
    assert ran
    ran.clear()
    jobs.clock.advance(timedelta(hours=1))
    jobs.clock.advance(MINUTE)
    jobs.drain()
    assert ran == []
    assert [each.kind for each in jobs.events if isinstance(each, JobDropped)] == ["expired"]


def test_a_job_that_a_schedule_holds_for_days_has_all_its_time_after_that() -> None:
    jobs, send, ran = _harness(expires=MINUTE)
    for text in ("in time", "late"):
        jobs.client.submit(send, Note(text=text), delay=timedelta(days=3))
        jobs.clock.advance(timedelta(days=3))
        jobs.clock.advance(MINUTE * 2 if text == "late" else MINUTE / 2)
        jobs.drain()
    assert ran == ["in time"]


def test_a_replayed_dead_letter_runs_whenever_it_comes() -> None:
    jobs, send, ran = _harness(expires=MINUTE)
    jobs.client.submit(send, Note(text="x"))
    [message] = jobs.sqs.messages("shop-jobs-normal")
    body = json.loads(message.body) | {"source": "replay:r"}
    jobs.sqs.sync.send("shop-jobs-normal", [OutgoingMessage(body=json.dumps(body))])
    jobs.clock.advance(timedelta(hours=1))
    jobs.drain()
    assert ran == ["x"], "the replayed one; the other has expired"


# --- workers that died ---------------------------------------------------------------------------


async def _received_by_one_that_dies(bench: Bench) -> None:
    """Have a worker receive all there is, and die; nobody knows whether it began anything."""
    life = Life(name="dead", beat=1, groups=frozenset({"mail"}), at=bench.rig.clock.now())
    await bench.rig.table.put([life_item(life)])
    assert await bench.rig.sqs.receive(QUEUE, limit=10, wait_s=0)
    await bench.pass_by(timedelta(hours=1))


@pytest.mark.looptime
@pytest.mark.parametrize("bundle", [False, True])
@pytest.mark.parametrize("records", ["outcomes", "off"])
async def test_a_job_that_its_worker_may_have_died_of_no_longer_expires(
    *, bundle: bool, records: str
) -> None:
    bench = Bench(expires=MINUTE, bundle=bundle, records=records)
    await bench.rig.submit(bench.send, "a", "b")
    await _received_by_one_that_dies(bench)
    async with bench.rig.working():
        await bench.rig.happens(JobCompleted, 2)
    assert sorted(bench.ran) == ["a", "b"]
    assert bench.rig.heard(JobDropped) == []


@pytest.mark.looptime
async def test_a_job_of_a_bundle_that_failed_no_longer_expires() -> None:
    bench = Bench(expires=MINUTE, bundle=True, retry=Retry(backoff=Backoff.fixed(300)))
    bench.fails += [ConnectionError("down"), RetryLater(300)]
    await bench.rig.submit(bench.send, "a", "b")
    async with bench.rig.working():
        await bench.rig.happens(JobCompleted, 2)
    assert sorted(bench.ran) == ["a", "a", "b", "b"]


@pytest.mark.looptime
async def test_jobs_of_a_bundle_that_comes_too_late_are_dropped() -> None:
    bench = Bench(expires=MINUTE, bundle=True)
    await bench.rig.submit(bench.send, "a", "b")
    await bench.pass_by(MINUTE)
    async with bench.rig.working():
        await bench.rig.happens(JobDropped, 2)
    assert bench.ran == []
    assert bench.rig.sqs.messages(QUEUE) == []
