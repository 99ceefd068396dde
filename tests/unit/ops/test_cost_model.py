"""The requests that `headgate cost` assumes per job are those of real workers and clients."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, AsyncClient, Backoff, Bundle, JobContext, Unique
from headgate.jobs.core.events import JobCompleted, JobDeadLettered, PollReceived
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.records.cancellations import POLL_S
from headgate.jobs.records.fleet.worker_status import WORKER_STATUSES
from headgate.jobs.records.lives import LIVES
from headgate.jobs.records.lives import RENEW_S as BEAT_S
from headgate.jobs.retry.policy import Retry
from headgate.ops.costing import records, sqs
from headgate.ops.costing.fleet import Fleet, fleet_of
from headgate.ops.costing.load import Load, Stream
from headgate.ops.prices import MONTH_S
from tests.unit.ops.test_cost_sizes import bytes_of
from tests.unit.workers.rig import MAIL, Note, Rig, one_lane, without_threads

pytestmark = without_threads

JOBS = 200
ATTEMPTS = 3
RETRY = Retry(max_attempts=ATTEMPTS, backoff=Backoff.fixed(5))
LEVELS: list[RecordsLevel] = ["off", "failures", "outcomes", "full"]


OF_WORKERS = (LIVES, WORKER_STATUSES)
"""The partitions that workers write whatever their jobs."""


class Measured:
    """A worker that has run some jobs, and the requests that they took."""

    def __init__(self, app: App) -> None:
        self.rig = Rig(app)
        self.items: list[Item] = []
        self._put = self.rig.table.put
        self.rig.table.put = self._note  # type: ignore[method-assign]  # to see it

    async def _note(self, items: Sequence[Item]) -> list[Item]:
        self.items += [item for item in items if item.pk not in OF_WORKERS]
        return await self._put(items)

    async def run(self, job: JobType[Note, Any], *, gap_s: float, dying: bool) -> None:
        """Submit and run the jobs: in bulk, or one by one."""
        if not gap_s:
            async with self._client() as client:
                await client.submit_many(job, [Note()] * JOBS)
        async with self.rig.working():
            if gap_s:
                await self._trickle(job, gap_s)
            await self.rig.happens(JobDeadLettered if dying else JobCompleted, JOBS)

    async def _trickle(self, job: JobType[Note, Any], gap_s: float) -> None:
        async with self._client() as client:
            for _ in range(JOBS):
                await client.submit(job, Note())
                await asyncio.sleep(gap_s)

    def _client(self) -> AsyncClient:
        rig = self.rig
        return AsyncClient(rig.app, backend=rig.backend)

    @property
    def requests(self) -> float:
        """Requests to SQS per job, without polls that brought nothing."""
        empty = sum(not event.messages for event in self.rig.heard(PollReceived))
        return (len(self.rig.sqs.calls) - empty) / JOBS

    @property
    def writes(self) -> float:
        """Write request units per job."""
        return sum(map(write_units, self.items)) / JOBS


def write_units(item: Item) -> int:
    """Return the write units of a new item; an item in the index is written there too."""
    return math.ceil(bytes_of(item) / 1024) + (item.line is not None)


def failing(times: int, level: RecordsLevel = "outcomes", **options: Any) -> tuple[App, Any]:
    """Return an app with a type whose jobs fail that many times."""
    app, queue = one_lane(RETRY, records=level)
    runs: Counter[str] = Counter()

    @queue.job("send-email", **options)
    async def job(note: Note, ctx: JobContext) -> None:  # noqa: ARG001 - as handlers have it
        runs[ctx.id] += 1
        if runs[ctx.id] <= times:
            _pay()

    return app, job


def _pay() -> None:
    """Fail as a client of a gateway does: with a traceback of about a kilobyte."""
    try:
        _request()
    except ServiceUnavailable as error:
        raise ServiceUnavailable("the payment could not be made: the gateway is away") from error


def _request() -> None:
    try:
        _connect()
    except ConnectionError as error:
        raise ServiceUnavailable("the gateway answered 503 Service Unavailable") from error


def _connect() -> None:
    raise ConnectionError("connection refused")


def _text_of(note: Note) -> str:
    return note.text


def stream_of(app: App, job: JobType[Any, Any], fails: int, jobs: float = JOBS) -> Stream:
    """Return a stream of jobs that all fail that many times."""
    return Stream(
        job=job,
        queue=app.topology.queue(job.queue, job.priority),
        submitted=jobs,
        fired=0,
        scheduled=0,
        delayed=0,
        attempts=min(fails + 1, ATTEMPTS),
        dead=float(fails == ATTEMPTS),
    )


def fleet(app: App, stream: Stream, load: Load) -> Fleet:
    """Return a fleet of one worker."""
    return fleet_of(app.topology, Deployment(workers=(WorkerGroup(max_tasks=1),)), load, [stream])


@pytest.mark.parametrize("fails", [0, 1, ATTEMPTS])
@pytest.mark.parametrize(("gap_s", "together"), [(0.0, 10.0), (15.0, 1.0)])
async def test_a_job_takes_as_many_requests_to_sqs_as_the_model_says(
    gap_s: float, together: float, fails: int
) -> None:
    app, job = failing(fails)
    measured = Measured(app)
    await measured.run(job, gap_s=gap_s, dying=fails == ATTEMPTS)

    load = Load(jobs=JOBS, together=together, payload_bytes=20)
    stream = stream_of(app, job, fails)
    expected = sqs.of_job(stream, fleet(app, stream, load), load, app.max_message_bytes)

    assert measured.requests == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("fails", [0, 1])
async def test_jobs_in_bundles_take_as_many_requests_as_the_model_says(fails: int) -> None:
    app, job = failing(fails, bundle=Bundle(bytes=8_000))
    measured = Measured(app)
    await measured.run(job, gap_s=0, dying=False)

    load = Load(jobs=JOBS, together=10, payload_bytes=20)
    stream = stream_of(app, job, fails)
    assert sqs.jobs_in_message(stream, load, app.max_message_bytes) > 20
    assert sqs.jobs_in_message(stream, replace(load, bundled=5), app.max_message_bytes) == 5
    expected = sqs.of_job(stream, fleet(app, stream, load), load, app.max_message_bytes)

    assert measured.requests == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("level", LEVELS)
async def test_a_child_writes_an_entry_as_the_model_says(level: RecordsLevel) -> None:
    app, queue = one_lane(RETRY, records=level)
    child = queue.define("child", Note)

    @queue.job("parent", records="off")
    async def parent(note: Note, ctx: JobContext) -> None:
        await ctx.submit(child, note)

    @child.handler
    async def run(note: Note) -> None: ...

    measured = Measured(app)
    backend = measured.rig.backend
    async with AsyncClient(app, backend=backend) as client:
        await client.submit_many(parent, [Note()] * JOBS)
    async with measured.rig.working():
        await measured.rig.happens(JobCompleted, 2 * JOBS)

    load = Load(jobs=JOBS, result_bytes=0, duration=timedelta(seconds=0.1), children=1)
    stream = stream_of(app, child, 0)
    expected = records.of_job(app, stream, fleet(app, stream, load), load)
    assert measured.writes == expected.writes


@pytest.mark.parametrize("fails", [0, 1, ATTEMPTS])
@pytest.mark.parametrize("level", LEVELS)
async def test_a_job_writes_as_many_units_to_the_table_as_the_model_says(
    level: RecordsLevel, fails: int
) -> None:
    app, job = failing(fails, level)
    measured = Measured(app)
    await measured.run(job, gap_s=0, dying=fails == ATTEMPTS)

    load = Load(jobs=JOBS, result_bytes=0, duration=timedelta(seconds=0.1))
    stream = stream_of(app, job, fails)
    expected = records.of_job(app, stream, fleet(app, stream, load), load)

    assert measured.writes == expected.writes


@pytest.mark.parametrize("level", LEVELS)
async def test_a_job_that_takes_longer_than_a_second_writes_its_start(level: RecordsLevel) -> None:
    app, queue = one_lane(RETRY, records=level)

    @queue.job("send-email")
    async def job(note: Note) -> None:  # noqa: ARG001 - as handlers have it
        await asyncio.sleep(3)

    measured = Measured(app)
    await measured.run(job, gap_s=0, dying=False)

    load = Load(jobs=JOBS, result_bytes=0, duration=timedelta(seconds=3))
    stream = stream_of(app, job, 0)
    expected = records.of_job(app, stream, fleet(app, stream, load), load)
    assert measured.writes == expected.writes


@pytest.mark.parametrize("fails", [0, 2])
async def test_a_job_reads_the_table_once_for_each_later_attempt(fails: int) -> None:
    app, job = failing(fails)
    measured = Measured(app)
    began = measured.rig.clock.monotonic()
    await measured.run(job, gap_s=0, dying=False)
    load = Load(jobs=JOBS)
    stream = stream_of(app, job, fails)

    ran_s = measured.rig.clock.monotonic() - began
    looks = 3 + 1.25 * (ran_s / POLL_S + ran_s / BEAT_S)
    reads = measured.rig.table.calls.count("query")

    expected = records.of_job(app, stream, fleet(app, stream, load), load).reads * JOBS
    assert expected <= reads <= expected + looks


async def test_an_idle_worker_writes_as_much_as_the_model_says() -> None:
    minutes = 10
    app, job = failing(0)
    rig, written = Rig(app), list[Item]()
    put = rig.table.put

    async def noted(items: Sequence[Item]) -> list[Item]:
        written.extend(items)
        return await put(items)

    rig.table.put = noted  # type: ignore[method-assign]  # to see it
    async with rig.working():
        await asyncio.sleep(minutes * 60)

    load = Load(jobs=1)
    expected = records.at_all_times(app, fleet(app, stream_of(app, job, 0, jobs=0), load)).writes
    assert {item.pk for item in written} == {*OF_WORKERS}
    measured = sum(map(write_units, written))
    assert measured == pytest.approx(expected * minutes * 60 / MONTH_S, rel=0.1)


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.05])
async def test_as_many_polls_bring_nothing_as_the_model_says(rate: float) -> None:
    hours = 2
    app, job = failing(0, "off")
    rig, rng = Rig(app), random.Random(1)  # noqa: S311 - makes up arrivals
    async with (
        rig.working(),
        AsyncClient(app, backend=rig.backend) as client,
    ):
        ends = rig.clock.monotonic() + hours * 3600
        while rate and rig.clock.monotonic() < ends:
            await asyncio.sleep(rng.expovariate(rate))
            await client.submit(job, Note())
        await asyncio.sleep(max(0.0, ends - rig.clock.monotonic()))
    empty = sum(not event.messages for event in rig.heard(PollReceived))

    load = Load(jobs=1)
    stream = stream_of(app, job, 0, jobs=rate * MONTH_S)
    expected = sqs.empty_receives(
        stream.queue, fleet(app, stream, load), load, app.max_message_bytes
    )

    assert empty == pytest.approx(expected * hours * 3600 / MONTH_S, rel=0.1)


@pytest.mark.parametrize(
    ("fails", "options"),
    [
        (0, {"once": True}),
        (1, {"once": True}),
        (0, {"unique": Unique(within=timedelta(hours=1), key=_text_of)}),
        (0, {"unique": Unique(within=timedelta(hours=1), key=_text_of, keep="last")}),
    ],
    ids=["once", "once-again", "unique-first", "unique-last"],
)
async def test_claims_take_as_many_writes_as_the_model_says(
    fails: int, options: dict[str, Any]
) -> None:
    app, job = failing(fails, "off", **options)
    rig = Rig(app)
    async with AsyncClient(app, backend=rig.backend) as client:
        await client.submit_many(job, [Note(text=str(number)) for number in range(JOBS)])
    async with rig.working():
        await rig.happens(JobCompleted, JOBS)

    load = Load(jobs=JOBS)
    stream = stream_of(app, job, fails)
    expected = records.of_job(app, stream, fleet(app, stream, load), load).writes
    assert rig.table.calls.count("replace") == expected * JOBS


@pytest.mark.parametrize("run_s", [5, 25, 95])
async def test_a_long_job_takes_no_more_heartbeats_than_the_model_says(run_s: int) -> None:
    app, queue = one_lane()

    @queue.job("send-email")
    async def job(note: Note) -> None:  # noqa: ARG001 - as handlers have it
        await asyncio.sleep(run_s)

    rig = Rig(app)
    await rig.submit(job)
    async with rig.working():
        await rig.happens(JobCompleted)

    load = Load(jobs=1, duration=timedelta(seconds=run_s))
    stream = stream_of(app, job, 0, jobs=1)
    most = sqs.heartbeats(stream, fleet(app, stream, load))
    assert most / 2 <= rig.calls("change_visibility", MAIL) <= most
