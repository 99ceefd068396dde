"""A job's handle, on an in-memory table and a clock that advances when the handle waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import (
    App,
    AsyncClient,
    AsyncJobHandle,
    DeadLetterFilter,
    DoNotRetry,
    JobState,
)
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import (
    ConfigurationError,
    JobCancelled,
    JobDead,
    JobDiscarded,
    RecordsOff,
    ResultInvalid,
    ResultTimeout,
    ServiceUnavailable,
    SettingsInvalid,
    Throttled,
)
from headgate.jobs.records.cancellation import CANCELLATIONS, LONGEST_REASON
from headgate.jobs.records.items import asked_partition, partition
from headgate.jobs.testing import (
    Harness,
    MemoryScheduler,
    MemorySqs,
    MemoryTable,
    VirtualClock,
)
from headgate.jobs.values.durations import Duration
from tests.support.clients import Kind, client_of
from tests.support.story import JOB, START, Story


class Payment(BaseModel):
    amount: int


class Receipt(BaseModel):
    number: int
    lines: list[str] = []


def _story() -> Story:
    return Story(job_type="capture")


class Bench:
    """A client of one kind, with the services that it uses."""

    def __init__(self, kind: Kind, records: RecordsLevel = "outcomes") -> None:
        self.clock = VirtualClock(START)
        self.sqs = MemorySqs(self.clock)
        self.table = MemoryTable(self.clock)
        self.scheduler = MemoryScheduler(self.clock)
        self.pauses: list[float] = []
        self.whenever_it_waits: Callable[[], None] = lambda: None
        self.app = App("shop", stage="test", records=records)
        self.capture: JobType[Payment, Receipt] = self.app.define(
            "capture", Payment, returns=Receipt
        )
        self.sqs.provision(self.app.topology)
        self.client = client_of(
            kind,
            self.app,
            self.sqs,
            table=self.table,
            scheduler=self.scheduler,
            clock=self.clock,
            sleep=self._sleep,
        )

    def handle(
        self, job_id: str = JOB, job: JobType[Any, Any] | None = None
    ) -> AsyncJobHandle[Any]:
        return self.client.handle(job_id, self.capture if job is None else job)

    async def write(self, story: Story) -> None:
        assert await self.table.put(story.items) == []

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(seconds)
        self.whenever_it_waits()


@pytest.fixture
def bench(kind: Kind) -> Bench:
    return Bench(kind)


# --- getting one ---------------------------------------------------------------------------------


async def test_a_submission_gives_the_handle_of_the_job(kind: Kind, bench: Bench) -> None:
    job = await bench.client.submit(bench.capture, Payment(amount=1))
    [message] = bench.sqs.messages("shop-test-jobs-normal")
    assert f'"id":"{job.id}"' in message.body
    assert job.type == "capture"
    assert job == bench.handle(job.id)
    assert {job} == {bench.handle(job.id)}
    assert repr(job) == f"<{kind.removesuffix('Client')}JobHandle {job.id} of capture>"


async def test_submitting_and_creating_handles_do_not_call_the_table(bench: Bench) -> None:
    await bench.client.submit(bench.capture, Payment(amount=1))
    bench.client.handle(JOB)
    assert bench.table.calls == []


async def test_a_handle_is_made_of_an_id_alone(bench: Bench) -> None:
    job = bench.client.handle(JOB.upper())
    assert (job.id, job.type) == (JOB, None)


def test_what_is_no_id_is_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="'42' is not a job id"):
        bench.client.handle("42")


# --- looking -------------------------------------------------------------------------------------


async def test_each_look_is_two_queries_and_shows_what_is_there(bench: Bench) -> None:
    job = bench.handle()
    assert await job.state() is JobState.UNKNOWN
    assert await job.progress() is None
    await bench.write(_story().run(1, "started").progress(2, 40, "packing"))
    bench.table.calls.clear()

    assert await job.state() is JobState.RUNNING
    progress = await job.progress()
    history = await job.history()

    assert progress is not None
    assert (progress.percent, progress.note) == (40, "packing")
    assert [each.outcome for each in history.attempts] == [None]
    assert bench.table.calls == ["query"] * 6


async def test_a_table_that_cant_be_asked_is_an_error_and_no_state(bench: Bench) -> None:
    bench.table.faults.raise_on("query", ServiceUnavailable("gone"))
    with pytest.raises(ServiceUnavailable, match="gone"):
        await bench.handle().state()


# --- results -------------------------------------------------------------------------------------


async def test_a_result_comes_back_as_what_the_handler_returned(bench: Bench) -> None:
    await bench.write(_story().run(1, "completed", result={"number": 7, "lines": ["a"]}))
    result = await bench.handle().result()
    assert result == Receipt(number=7, lines=["a"])
    assert bench.pauses == []


@dataclass
class Parcel:
    weight: float


def _returning(app: App, name: str, returns: Any) -> JobType[Any, Any]:
    def handler(payload: Payment) -> Any: ...

    handler.__annotations__["return"] = returns
    return app.job(name)(handler)


@pytest.mark.parametrize(
    ("returns", "kept", "expected"),
    [
        (Parcel, {"weight": 1.5}, Parcel(1.5)),
        (list[Receipt], [{"number": 1}], [Receipt(number=1)]),
        (int | None, None, None),
        (None, None, None),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
    ],
    ids=str,
)
async def test_a_result_is_read_by_the_handlers_annotation(
    bench: Bench, returns: Any, kept: Any, expected: Any
) -> None:
    job = _returning(bench.app, "other", returns)
    await bench.write(Story(job_type="other").run(1, "completed", result=kept))
    assert await bench.handle(job=job).result() == expected


async def test_without_the_type_its_records_say_which_it_is(bench: Bench) -> None:
    await bench.write(_story().run(1, "completed", type="capture", result={"number": 7}))
    assert await bench.client.handle(JOB).result() == Receipt(number=7)


async def test_a_result_of_a_type_that_the_app_doesnt_know_is_json(bench: Bench) -> None:
    await bench.write(_story().run(1, "completed", type="gone", result={"number": 7}))
    assert await bench.client.handle(JOB).result() == {"number": 7}


async def test_a_result_of_the_wrong_type_is_refused_without_its_values(
    bench: Bench,
) -> None:
    await bench.write(_story().run(1, "completed", result={"number": "secret"}))
    with pytest.raises(ResultInvalid, match=r"completed.*Receipt.*number") as raised:
        await bench.handle().result()
    assert raised.value.job_id == JOB
    assert "secret" not in str(raised.value)


async def test_a_result_that_was_not_kept_is_missing_and_not_none(bench: Bench) -> None:
    await bench.write(_story().run(1, "completed"))
    with pytest.raises(ResultInvalid, match="none was kept"):
        await bench.handle().result()


async def test_a_result_that_pydantic_cant_read_is_refused(bench: Bench) -> None:
    job = _returning(bench.app, "other", VirtualClock)
    await bench.write(Story(job_type="other").run(1, "completed", result=1))
    with pytest.raises(ResultInvalid, match="pydantic can't read"):
        await bench.handle(job=job).result()


async def test_a_dead_job_raises_with_its_reason_and_its_error(bench: Bench) -> None:
    await bench.write(
        _story().run(
            1,
            "dead",
            reason="attempts-exhausted",
            error_type="ValueError",
            error_message="card declined",
        )
    )
    with pytest.raises(JobDead, match="attempts-exhausted; ValueError: card declined") as raised:
        await bench.handle().result()
    dead = raised.value
    assert (dead.job_id, dead.reason) == (JOB, "attempts-exhausted")
    assert (dead.error_type, dead.error_message) == ("ValueError", "card declined")


async def test_a_quarantined_job_is_dead_too(bench: Bench) -> None:
    await bench.write(_story().run(1, "quarantined", detail="it died three times"))
    with pytest.raises(JobDead, match="quarantined; it died three times") as raised:
        await bench.handle().result()
    assert raised.value.reason == "quarantined"


async def test_a_cancelled_and_a_discarded_job_have_no_result(bench: Bench) -> None:
    await bench.write(_story().run(1, "cancelled", reason="a mistake"))
    with pytest.raises(JobCancelled, match="a mistake"):
        await bench.handle().result()
    other = "0196a2b4-0000-7000-8000-000000000002"
    await bench.write(Story(other, job_type="capture").run(1, "discarded", reason="stale"))
    with pytest.raises(JobDiscarded, match="stale"):
        await bench.handle(other).result()


# --- waiting -------------------------------------------------------------------------------------


async def test_waiting_ends_when_the_job_does(bench: Bench) -> None:
    story = _story().run(1, "started")
    await bench.write(story)
    finished = _story().run(3, "completed", result={"number": 1}).items

    def finish_in_time() -> None:
        if bench.clock.now() >= story.at(3):
            assert bench.table.sync.put(finished) == []

    bench.whenever_it_waits = finish_in_time
    job = bench.handle()
    assert await job.wait() is JobState.COMPLETED
    assert 3 <= bench.clock.monotonic() < 8
    assert await job.result() == Receipt(number=1)


@pytest.mark.parametrize("final", ["discarded", "cancelled", "dead", "quarantined"])
async def test_waiting_returns_any_final_state_and_raises_for_none(
    bench: Bench, final: str
) -> None:
    await bench.write(_story().run(1, final))
    assert await bench.handle().wait() == final


async def test_waiting_polls_less_and_less_often(
    bench: Bench,
) -> None:
    await bench.write(_story().run(0, "failed"))
    with pytest.raises(ResultTimeout):
        await bench.handle().wait(timeout=60)
    assert all(pause > 0 for pause in bench.pauses)
    assert bench.pauses[0] <= 0.24
    assert max(bench.pauses) <= 6
    assert len(bench.pauses) < 25
    assert bench.table.calls.count("query") == 2 * (len(bench.pauses) + 1)


@pytest.mark.parametrize("timeout", [10, timedelta(seconds=10)], ids=repr)
@pytest.mark.parametrize("method", ["wait", "result"])
async def test_out_of_patience_it_says_the_state_after_a_last_look(
    bench: Bench,
    method: str,
    timeout: Duration,  # noqa: ASYNC109 - not awaited here
) -> None:
    await bench.write(_story().run(0, "failed"))
    with pytest.raises(ResultTimeout, match="within 10 s; its state is retrying") as raised:
        await getattr(bench.handle(), method)(timeout=timeout)
    assert (raised.value.state, raised.value.timeout_s) == ("retrying", 10)
    assert bench.clock.monotonic() == pytest.approx(10)


async def test_a_timeout_of_nothing_looks_once(bench: Bench) -> None:
    with pytest.raises(ResultTimeout, match="its state is unknown"):
        await bench.handle().result(timeout=0)
    assert bench.table.calls == ["query"] * 2


async def test_a_negative_timeout_is_refused(bench: Bench) -> None:
    with pytest.raises(SettingsInvalid, match="timeout must not be negative, got -1 s"):
        await bench.handle().wait(timeout=-1)


# --- records that can't answer -------------------------------------------------------------------


async def test_without_records_nothing_can_be_asked(kind: Kind) -> None:
    bench = Bench(kind, "off")
    job = bench.handle()
    for ask in (job.state, job.progress, job.history, job.wait, job.result, job.cancel):
        with pytest.raises(RecordsOff, match="records='outcomes'"):
            await ask()
    assert bench.table.calls == []


async def test_waiting_is_refused_where_only_failures_are_recorded(
    kind: Kind,
) -> None:
    bench = Bench(kind, "failures")
    job = bench.handle()
    await bench.write(_story().run(1, "failed"))
    for ask in (job.wait, job.result):
        with pytest.raises(RecordsOff, match="at records='failures', keeps no records"):
            await ask(timeout=5)
    assert await job.state() is JobState.RETRYING


# --- cancelling ----------------------------------------------------------------------------------


async def test_a_cancellation_is_a_write_for_readers_and_one_for_workers(bench: Bench) -> None:
    job = bench.handle()

    await job.cancel("a mistake")

    # After a look at its state, between the audit's two.
    assert bench.table.calls == ["query", "query", "replace", "put", "put", "replace"]
    [asked] = await bench.table.query(CANCELLATIONS)
    assert (asked.sk, asked.data["reason"]) == (JOB, "a mistake")
    history = await job.history()
    assert (history.state, history.cancel_reason) == (JobState.UNKNOWN, "a mistake")
    assert history.cancel_requested_at == START


def test_cancelling_a_job_that_has_ended_does_not_cancel_its_replay() -> None:
    app, errors = App("shop"), [DoNotRetry("the card is gone")]

    @app.job("capture")
    def capture() -> None:
        if errors:
            raise errors.pop()

    harness = Harness(app)
    job = harness.client.submit(capture)
    harness.drain()
    job.cancel("a mistake")
    assert harness.table.sync.query(CANCELLATIONS) == []
    assert job.history().cancel_requested_at is None
    harness.client.dead_letters.replay(DeadLetterFilter())
    harness.drain()
    assert job.state() is JobState.COMPLETED


async def test_a_cancellation_expires_when_no_queue_can_hold_the_job_any_more(
    bench: Bench,
) -> None:
    await bench.handle().cancel()
    retention = max(queue.retention for queue in bench.app.topology.queues)
    bench.clock.advance(retention.total_seconds() - 1)
    assert len(await bench.table.query(CANCELLATIONS)) == 1
    bench.clock.advance(1)
    assert await bench.table.query(CANCELLATIONS) == []


async def test_a_cancellation_that_the_table_left_out_is_written_again(bench: Bench) -> None:
    bench.table.faults.leave_unprocessed(times=2, indexes=[0])
    await bench.handle().cancel()
    assert bench.table.calls == ["query", "query", "replace", *["put"] * 4, "replace"]
    assert (await bench.handle().history()).cancel_requested_at is not None
    assert len(await bench.table.query(CANCELLATIONS)) == 1


async def test_a_cancellation_that_is_not_written_is_an_error(bench: Bench) -> None:
    bench.table.faults.leave_unprocessed(times=10)
    with pytest.raises(Throttled, match="was not written"):
        await bench.handle().cancel()


async def test_a_reason_that_every_worker_would_have_to_read_is_short(bench: Bench) -> None:
    with pytest.raises(SettingsInvalid, match="at most 300 characters, got 301"):
        await bench.handle().cancel("x" * (LONGEST_REASON + 1))


async def test_a_job_that_waits_in_a_schedule_ends_with_it(kind: Kind) -> None:
    bench = Bench(kind, "failures")
    job = await bench.client.submit(bench.capture, Payment(amount=1), delay=timedelta(days=3))
    await job.cancel("a mistake")
    history = await job.history()
    assert bench.scheduler.schedules == []
    assert (history.state, history.reason) == (JobState.CANCELLED, "a mistake")
    assert history.attempts == ()


# --- closing -------------------------------------------------------------------------------------


async def test_a_handle_of_a_closed_async_client_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("shop", records="outcomes")
    app.define("capture", Payment)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    client = AsyncClient(app)
    async with client:
        job = client.handle(JOB)
    with pytest.raises(ConfigurationError, match="within the `async with` of its client"):
        await job.state()


async def test_who_cancels_a_job_writes_to_none_of_the_job_s_own_items(bench: Bench) -> None:
    await bench.handle().cancel("a mistake")
    assert await bench.table.query(partition(JOB)) == []
    [shown] = await bench.table.query(asked_partition(JOB))
    assert shown.sk == "cancel"


async def test_what_an_earlier_version_asked_among_a_job_s_own_items_is_still_read(
    bench: Bench,
) -> None:
    asked = {"at": START.isoformat(), "reason": "a mistake"}
    await bench.table.put([Item(pk=partition(JOB), sk="cancel", data=asked)])
    assert (await bench.handle().history()).cancel_reason == "a mistake"


async def test_only_the_jobs_own_partition_is_read(bench: Bench) -> None:
    await bench.write(Story("0196a2b4-0000-7000-8000-000000000009").run(1, "dead"))
    await bench.table.put([Item(pk=f"job#{JOB}x", sk="cancel", data={"at": START.isoformat()})])
    assert await bench.handle().state() is JobState.UNKNOWN
