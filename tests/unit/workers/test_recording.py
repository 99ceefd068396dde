"""Workers' records of jobs, by level: the outcome, the result, and the progress."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import (
    App,
    AsyncClient,
    AsyncJobHandle,
    Backoff,
    Discard,
    JobContext,
    JobOptions,
    Retry,
    Schedule,
)
from headgate.jobs.core.events import (
    JobCompleted,
    JobDeadLettered,
    JobDiscarded,
    JobQuarantined,
    JobRetryScheduled,
    RecordsFailed,
    RecordsShed,
    RecordsWritten,
)
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.retention import Keep, RecordsLevel
from headgate.jobs.errors import (
    ResultInvalid,
    ServiceUnavailable,
    TableMissing,
    Throttled,
    TransportError,
)
from headgate.jobs.records.history import read_job
from headgate.jobs.records.items import LISTS, SHARDS, Mark, Scribe, list_name, partition
from headgate.jobs.records.lists.children import children_partition
from headgate.jobs.records.results import MAX_RESULT_BYTES
from headgate.jobs.records.state import JobState
from headgate.jobs.schedules.bridging import SENT
from headgate.jobs.schedules.firing import schedule_input
from headgate.jobs.testing import MemoryStore
from headgate.workers.observability.health import Health, Status
from tests.support.bridge import DeployedBridge
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = pytest.mark.looptime

ONCE_MORE = Retry(max_attempts=2, backoff=Backoff.fixed(1))


class Receipt(BaseModel):
    """The result of a handler."""

    number: int
    at: datetime


def marks(items: list[Item]) -> list[str]:
    return [item.sk.rpartition("#")[2] for item in items]


async def told(rig: Rig, job_id: str) -> dict[str, Any]:
    """Return the data of the only item about a job that tells its outcome."""
    items = await rig.table.query(partition(job_id))
    [found] = [item for item in items if not item.sk.endswith(("progress", "started"))]
    return dict(found.data)


async def run_one(app: App, *, level: RecordsLevel, fails: int) -> list[str]:
    """Return the marks of a job that fails that many times."""
    failures = 0

    @app.job("flaky", retry=ONCE_MORE, records=level)
    async def flaky(_note: Note) -> int:
        nonlocal failures
        if failures < fails:
            failures += 1
            raise ConnectionError("down")
        return 7

    rig = Rig(app)
    [job_id] = await rig.submit(flaky)
    async with rig.working():
        await rig.happens(JobDeadLettered if fails > 1 else JobCompleted)
    return marks(await rig.table.query(partition(job_id)))


@pytest.mark.parametrize(
    ("level", "fails", "written"),
    [
        ("off", 1, []),
        ("failures", 0, []),
        ("failures", 1, ["failed", "completed", "started"]),
        ("failures", 2, ["failed", "dead", "failed", "started"]),
        ("outcomes", 0, ["completed"]),
        ("outcomes", 1, ["failed", "completed", "started"]),
        ("outcomes", 2, ["failed", "dead", "failed", "started"]),
        ("full", 0, ["completed", "started"]),
        ("full", 1, ["failed", "started", "completed", "started"]),
    ],
)
async def test_each_level_writes_what_it_says(
    level: RecordsLevel, fails: int, written: list[str]
) -> None:
    assert await run_one(App("shop"), level=level, fails=fails) == written


async def test_what_a_handler_returns_is_kept_as_json_with_how_long_it_took() -> None:
    app = App("shop")

    @app.job("charge")
    async def charge(_note: Note) -> Receipt:
        await asyncio.sleep(2)
        return Receipt(number=7, at=datetime(2026, 5, 4, tzinfo=UTC))

    rig = Rig(app)
    [job_id] = await rig.submit(charge)
    async with rig.working():
        await rig.happens(JobCompleted)
    completed = await told(rig, job_id)
    assert completed["result"] == {"number": 7, "at": "2026-05-04T00:00:00Z"}
    assert completed["ran_s"] == pytest.approx(2)
    assert (completed["attempt"], completed["type"], completed["queue"]) == (1, "charge", "jobs")
    assert completed["worker"]


@pytest.mark.parametrize("options", [{}, {"records": "off", "once": True}])
async def test_a_result_that_json_can_not_hold_is_a_failure_that_is_not_repeated(
    options: JobOptions,
) -> None:
    app, runs = App("shop"), 0

    @app.job("odd", **options)
    async def odd(_note: Note) -> object:
        nonlocal runs
        runs += 1
        return object()

    rig = Rig(app)
    await rig.submit(odd)
    async with rig.working():
        [dead] = await rig.happens(JobDeadLettered)
    assert (dead.reason, dead.error_type) == ("permanent-error", "ResultNotSerializable")
    assert "the handler returned an object, which JSON can't hold" in dead.error_message
    assert runs == 1


async def test_a_handler_whose_results_nobody_keeps_may_return_anything() -> None:
    app = App("shop", records="failures")

    @app.job("odd")
    async def odd(_note: Note) -> object:
        return object()

    rig = Rig(app)
    await rig.submit(odd)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert rig.remaining() == 0


async def _returning(length: int) -> tuple[Rig, AsyncJobHandle[str]]:
    """Return a job that has returned a text of that length, and its handle."""
    app = App("shop")

    @app.job("long")
    async def long(_note: Note) -> str:
        return "x" * length

    rig = Rig(app)
    [job_id] = await rig.submit(long)
    async with rig.working():
        await rig.happens(JobCompleted)
    client = AsyncClient(app, backend=rig.backend)
    return rig, client.handle(job_id, long)


@pytest.mark.parametrize("length", [10, MAX_RESULT_BYTES - 2, MAX_RESULT_BYTES - 1, 3_000_000])
async def test_a_result_of_any_size_comes_back(length: int) -> None:
    rig, job = await _returning(length)
    assert await job.result() == "x" * length
    assert bool(rig.store.objects) is (length > MAX_RESULT_BYTES - 2)


async def test_a_large_result_that_is_gone_is_said_to_be() -> None:
    rig, job = await _returning(400_000)
    rig.store.objects.clear()
    with pytest.raises(
        ResultInvalid, match="has completed; its result can't be read: there is no object"
    ):
        await job.result()


async def test_a_large_result_is_dropped_but_its_job_completes_without_the_store() -> None:
    app = App("shop")

    @app.job("long")
    async def long(_note: Note) -> str:
        return "x" * 400_000

    rig = Rig(app)
    rig.store.fail("put", ServiceUnavailable("S3 is down"))
    [job_id] = await rig.submit(long)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert (
        "400,002 bytes as JSON is not kept: S3 is down" in (await told(rig, job_id))["result_fault"]
    )
    assert rig.remaining() == 0


class Hanging(MemoryStore):
    """A store that answers nothing."""

    under_way = most = 0

    async def put(self, key: str, content: bytes) -> None:
        self.calls.append(("put", f"{key}: {len(content)}"))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.Event().wait()
        finally:
            self.under_way -= 1


async def hanging(jobs: int) -> tuple[Rig, list[str], Hanging]:
    """Return jobs whose large results no store accepts."""
    app = App("shop")

    @app.job("render")
    async def render(_note: Note) -> str:
        return "x" * 400_000

    rig = Rig(app)
    rig.store = store = Hanging()
    return rig, await rig.submit(render, *map(str, range(jobs))), store


async def test_large_results_that_can_not_be_stored_do_not_pile_up_without_bound() -> None:
    rig, ids, store = await hanging(100)
    async with rig.working():
        await rig.happens(JobCompleted, 100)
        await asyncio.sleep(60)
        assert 80 <= store.most <= 84, "32 MiB"
        assert store.under_way == 0
        faults = [(await told(rig, each))["result_fault"] for each in ids]
    assert sum("too many others" in each for each in faults) == 100 - store.most
    assert sum("has not answered within 30 s" in each for each in faults) == store.most


async def test_a_large_result_that_no_store_takes_does_not_outlive_its_worker() -> None:
    rig, [job_id], store = await hanging(1)
    async with rig.working():  # which also looks for remaining tasks
        await rig.happens(JobCompleted)
    assert "its worker has ended" in (await told(rig, job_id))["result_fault"]
    assert store.under_way == 0


async def test_how_a_job_ended_otherwise_is_told_with_its_reason() -> None:
    app = App("shop")

    @app.job("moot")
    async def moot(_note: Note) -> None:
        raise Discard("no longer wanted")

    @app.job("broken", retry=Retry(max_attempts=1))
    async def broken(_note: Note) -> None:
        raise ValueError("no such order")

    rig = Rig(app)
    [moot_id] = await rig.submit(moot)
    [broken_id] = await rig.submit(broken)
    async with rig.working():
        await rig.happens(JobDiscarded)
        await rig.happens(JobDeadLettered)
    assert (await told(rig, moot_id))["reason"] == "no longer wanted"
    found = {item.sk.rpartition("#")[2]: item.data for item in await _items(rig, broken_id)}
    assert found["dead"]["reason"] == "attempts-exhausted"
    assert found["dead"]["error_message"] == found["failed"]["error_message"] == "no such order"
    assert "raise ValueError" in found["failed"]["traceback"]
    assert rig.heard(JobQuarantined) == []


async def test_dead_jobs_are_found_in_their_types_lists_the_last_one_first() -> None:
    app = App("shop")

    @app.job("broken", retry=Retry(max_attempts=1))
    async def broken(_note: Note) -> None:
        raise ValueError("no such order")

    rig = Rig(app)
    ids = set(await rig.submit(broken, *"abcdefghij"))
    async with rig.working(concurrency=3):
        await rig.happens(JobDeadLettered, 10)
    for kind in ("dead", "failed"):
        lists = [await rig.table.lines(list_name(kind, "broken", shard)) for shard in range(SHARDS)]
        assert {item.pk for items in lists for item in items} == {partition(each) for each in ids}
        for items in lists:
            places = [item.line.place for item in items if item.line]
            assert places == sorted(places, reverse=True)
    assert {"failed", "dead", "quarantined", "recent"} <= set(LISTS.values())


@pytest.mark.parametrize("keep", [timedelta(0), 0, Keep(timedelta(0))])
async def test_of_jobs_that_simply_complete_nothing_is_kept_where_that_is_asked(keep: Any) -> None:
    app = App("shop", keep=keep)
    assert await run_one(app, level="full", fails=0) == []


@pytest.mark.parametrize(
    ("level", "keep", "has_result"), [("failures", None, False), ("full", 0, True)]
)
async def test_a_retried_job_has_a_recorded_end_at_each_level(
    level: RecordsLevel, keep: Any, has_result: bool
) -> None:
    app = App("shop", keep=keep)

    @app.job("flaky", retry=ONCE_MORE, records=level)
    async def flaky(_note: Note, ctx: JobContext) -> int:
        if ctx.attempt == 1:
            raise ConnectionError("down")
        return 7

    rig = Rig(app)
    [job_id] = await rig.submit(flaky)
    async with rig.working():
        await rig.happens(JobCompleted)
    record = read_job(job_id, await rig.table.query(partition(job_id)), now=rig.clock.now())
    assert (record.state, record.has_result) == (JobState.COMPLETED, has_result)


@without_threads
async def test_attempts_count_even_if_a_retry_outlasts_keep() -> None:
    app = App("shop", keep=Keep(failed=timedelta(minutes=5)))
    made: list[int] = []

    @app.job("work", retry=Retry(max_attempts=3, backoff=Backoff.fixed(600)))
    async def work(_note: Note, ctx: JobContext) -> None:
        made.append(ctx.attempt)
        raise ConnectionError("refused")

    rig = Rig(app)
    await rig.submit(work)
    async with rig.working():
        await asyncio.sleep(6 * 3600)
    assert made == [1, 2, 3]
    assert len(rig.heard(JobDeadLettered)) == 1


async def test_progress_is_written_about_once_a_second_and_at_the_end() -> None:
    app = App("shop")

    @app.job("render")
    async def render(_note: Note, ctx: JobContext) -> None:
        for percent in range(100):
            await ctx.progress(percent, "rendering", step="pdf", when=ctx.deadline)
            await asyncio.sleep(0.05)

    rig = Rig(app)
    [job_id] = await rig.submit(render)
    async with rig.working():
        await asyncio.sleep(2.5)
        early = await rig.table.get(partition(job_id), "progress")
        await rig.happens(JobCompleted)
    late = await rig.table.get(partition(job_id), "progress")
    assert early is not None
    assert late is not None
    assert 20 <= early.data["percent"] <= 50
    assert (late.data["percent"], late.data["note"]) == (99, "rendering")
    assert late.data["data"]["step"] == "pdf"
    assert rig.table.calls.count("put") <= 11, "with the worker's life and statuses"


@pytest.mark.parametrize(
    "fault",
    [
        ServiceUnavailable("the table does not answer"),
        Throttled("the table is asked too much"),
        TableMissing("shop-records"),
    ],
    ids=["away", "throttled", "gone"],
)
async def test_jobs_run_and_settle_without_the_table_and_shed_records_count(
    fault: TransportError,
) -> None:
    app = App("shop")

    @app.job("work", retry=ONCE_MORE)
    async def work(note: Note, ctx: JobContext) -> None:
        if note.text.endswith("7") and ctx.attempt == 1:
            raise ConnectionError("down")

    rig = Rig(app)
    health = Health([spec.name for spec in app.topology.queues], clock=rig.clock)
    rig.subscribers.append(health)
    rig.table.faults.raise_on(None, fault, times=10**6)
    await rig.submit(work, *map(str, range(100)))
    async with rig.working():
        await rig.happens(JobCompleted, 100)
        await rig.happens(RecordsFailed)
        assert health.assess().status is Status.DEGRADED
        rig.table.faults.clear()
        await rig.happens(RecordsWritten)
        assert health.assess().status is Status.HEALTHY
    assert rig.remaining() == 0
    assert len(rig.heard(JobRetryScheduled)) == 10

    rig.table.faults.raise_on(None, fault, times=10**6)
    await rig.submit(work, *map(str, range(100, 106)))
    async with rig.working():
        await rig.happens(JobCompleted, 106)
    assert rig.report is not None
    assert rig.report.clean
    assert sum(event.items for event in rig.heard(RecordsShed)) == 6


async def test_a_slow_table_slows_no_job_down() -> None:
    app = App("shop")

    @app.job("work")
    async def work(_note: Note) -> None: ...

    rig = Rig(app)
    rig.table.faults.slow_down("put", 60, times=10**6)
    await rig.submit(work, *map(str, range(500)))
    async with rig.working():
        began = rig.clock.monotonic()
        await rig.happens(JobCompleted, 500)
        assert rig.clock.monotonic() - began < 30
        rig.table.faults.clear()


@pytest.mark.parametrize(
    ("level", "requests", "units"),
    [("off", 0, 0), ("failures", 0, 0), ("outcomes", 40, 1000), ("full", 80, 3000)],
)
async def test_what_a_thousand_jobs_cost_by_level(
    level: RecordsLevel, requests: int, units: int
) -> None:
    app = App("shop", records=level)

    @app.job("work")
    async def work(_note: Note) -> None: ...

    rig = Rig(app)
    ids = await rig.submit(work, *map(str, range(1000)))
    async with rig.working(concurrency=50):
        await rig.happens(JobCompleted, 1000)
        await asyncio.sleep(5)
    of_the_worker = 5  # its life and its status
    assert rig.table.calls.count("put") <= requests * 1.2 + of_the_worker
    items = [item for each in ids for item in await _items(rig, each)]
    assert len(items) + sum(item.line is not None for item in items) == units


async def test_of_a_type_kept_by_count_only_the_last_are_kept() -> None:
    app = App("shop")

    @app.job("work", keep=Keep(last=40))
    async def work(_note: Note) -> None: ...

    @app.job("other")
    async def other(_note: Note) -> None: ...

    rig = Rig(app)
    early = await rig.submit(work, *map(str, range(300)))
    others = await rig.submit(other, *map(str, range(100)))
    async with rig.working(concurrency=20):
        await rig.happens(JobCompleted, 400)
        await asyncio.sleep(1)
        late = await rig.submit(work, *map(str, range(200)))  # at least some ten for each part
        await rig.happens(JobCompleted, 600)
        await asyncio.sleep(120)
    kept = [each for each in early + late if await _items(rig, each)]
    assert set(kept) < set(late)
    assert len(kept) == 40
    assert all([await _items(rig, each) for each in others])


async def test_trimming_leaves_what_keeps_a_job_from_being_sent_or_run_twice() -> None:
    app = App("shop")
    ran: list[str] = []

    @app.job("report", keep=Keep(last=1), once=True, schedule=Schedule.rate(timedelta(hours=1)))
    async def report(_note: Note, ctx: JobContext) -> None:
        ran.append(ctx.id)

    rig = Rig(app)
    bridge = DeployedBridge(app, rig.sqs, rig.table, rig.clock)
    first = schedule_input(app, report) | {
        "schedule_arn": "arn:aws:scheduler:eu-central-1:1:schedule/shop/report",
        "scheduled_time": rig.clock.now().isoformat(),
        "execution_id": "d32c5kddcf5bb8c3",
        "attempt_number": "1",
    }
    job_id = bridge.handle(first)["job_id"]
    async with rig.working(concurrency=20):
        await rig.happens(JobCompleted)
        await asyncio.sleep(1)
        await rig.submit(report, *map(str, range(40)))  # at least some ten for each part
        await rig.happens(JobCompleted, 41)
        await asyncio.sleep(120)
        kept = {item.sk.partition("#")[0] for item in await _items(rig, job_id)}
        assert kept == {"claim"}
        assert len(await rig.table.query(f"{SENT}{job_id}")) == 1
        bridge.handle(first)
        await asyncio.sleep(60)
    assert rig.remaining() == 0
    assert ran.count(job_id) == 1
    assert rig.calls("send") == 1 + 4, "the firing's, and four batches"


async def test_trimming_leaves_what_is_known_of_a_message_that_was_delivered_again() -> None:
    app = App("shop")

    @app.job("work", keep=Keep(last=1))
    async def work(_note: Note) -> None: ...

    rig = Rig(app)
    again = await rig.submit(work, "again")
    async with rig.working():
        await rig.happens(JobCompleted)
        await asyncio.sleep(1)
    [delivered] = await _items(rig, again[0])
    scribe = Scribe(
        job_id=again[0],
        message_id=delivered.sk.split("#")[1],
        receive=2,
        job_type="work",
        queue="jobs",
        worker="another",
        level="failures",
        keep=Keep(last=1),
        retention=timedelta(days=4),
    )
    later = [scribe.mark(kind, rig.clock.now(), {}) for kind in (Mark.STARTED, Mark.COMPLETED)]
    await rig.table.put(later)
    async with rig.working(concurrency=20):
        once = await rig.submit(work, *map(str, range(80)))  # at least some ten for each part
        await rig.happens(JobCompleted, 81)
        await asyncio.sleep(120)
    assert [item.sk for item in await _items(rig, again[0])] == sorted(
        [delivered.sk, *(item.sk for item in later)]
    )
    assert not any(item.line for item in await _items(rig, again[0])), "it is in no list"
    assert sum([len(await _items(rig, each)) for each in once]) == SHARDS


async def test_trimming_takes_a_child_from_its_parents_list_with_its_last_record() -> None:
    app = App("shop")

    @app.job("work", keep=Keep(last=1))
    async def work(_note: Note) -> None: ...

    @app.job("spread")
    async def spread(_note: Note, ctx: JobContext) -> None:
        for number in range(40):  # at least some for each part
            await ctx.submit(work, Note(text=str(number)))

    rig = Rig(app)
    [parent_id] = await rig.submit(spread)
    async with rig.working(concurrency=20):
        await rig.happens(JobCompleted, 41)
        await asyncio.sleep(120)
        entries = await rig.table.query(children_partition(parent_id))
        assert len(entries) == SHARDS
        assert all([await _items(rig, each.sk) for each in entries])


async def _items(rig: Rig, job_id: str) -> list[Item]:
    return await rig.table.query(partition(job_id))
