"""Jobs with ``once=True`` at workers: each runs to its end once, however often it is delivered."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from headgate import App, AsyncClient, Backoff, Discard, JobContext, Retry, RetryLater, Unique
from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.events import (
    ClaimFailed,
    Events,
    JobAlreadyDone,
    JobCompleted,
    JobCrashed,
    JobDeferred,
    JobDiscarded,
    JobFailed,
    JobInterrupted,
    JobRetryScheduled,
    JobStarted,
)
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.execution.calling.claims import GRACE_S, Claims
from headgate.jobs.execution.outcome import Done
from headgate.jobs.records.items import partition
from headgate.jobs.testing import LoopClock, MemorySqs, MemoryTable
from headgate.workers.configuration import WorkerSettings
from headgate.workers.observability.health import Health, Status
from headgate.workers.worker import Worker
from tests.support.backends import async_over
from tests.unit.workers.rig import LIMIT_S, MAIL, Gate, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

VISIBILITY_S = 30
LEASE_S = 20.0
"""Two thirds of the visibility timeout."""


async def _claim_of(rig: Rig, job_id: str) -> Item:
    item = await rig.table.get(partition(job_id), "claim")
    assert item is not None
    return item


async def _deliver_again(rig: Rig, job_id: str) -> None:
    """Send a job's message once more, as a retried submission does."""
    body, *_ = [each.body for each in rig.sqs.messages(MAIL) if job_id in each.body]
    assert await rig.sqs.send(MAIL, [OutgoingMessage(body=body)]) == []


# --- two deliveries ------------------------------------------------------------------------------


class _Watched(MemoryTable):
    """A table that records when each job was first asked for."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__(clock)
        self.asked: defaultdict[str, list[float]] = defaultdict(list)
        self._loops = clock

    async def replace(self, item: Item) -> Item | None:
        if item.version == 1:
            self.asked[item.pk].append(self._loops.monotonic())
        return await super().replace(item)


@asynccontextmanager
async def _workers(
    app: App, networks: Sequence[MemorySqs], table: MemoryTable, clock: LoopClock, events: Events
) -> AsyncIterator[None]:
    """Run a worker on each of these, all with one table."""
    workers = [
        Worker(
            app,
            async_over(sqs, table=table, clock=clock, rng=random.Random(number)),  # noqa: S311 - spreads pauses
            WorkerSettings(concurrency=20),
            name=f"worker-{number}",
            events=events,
        )
        for number, sqs in enumerate(networks)
    ]
    runs = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.wait(runs)


async def test_a_thousand_once_jobs_received_by_two_workers_run_once_each() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    ran: Counter[str] = Counter()

    @mail.job("charge", once=True)
    async def charge(_note: Note, ctx: JobContext) -> None:
        ran[ctx.id] += 1
        await asyncio.sleep(random.Random(ctx.id).uniform(0, 1))  # noqa: S311 - some overlap

    rig = Rig(app)  # creates the messages, which two networks then deliver
    clock = LoopClock()
    table = _Watched(clock)
    networks = [MemorySqs(clock), MemorySqs(clock)]
    for sqs in networks:
        sqs.provision(app.topology)
    ids = await rig.submit(charge, *("",) * 1000)
    bodies = [message.body for message in rig.sqs.messages(MAIL)]
    async with _workers(app, networks, table, clock, Events(rig.hear)):
        await asyncio.sleep(1)  # both poll
        for start in range(0, len(bodies), 10):
            messages = [OutgoingMessage(body=body) for body in bodies[start : start + 10]]
            for sqs in networks:
                assert await sqs.send(MAIL, messages) == []
            await rig.happens(JobCompleted, start + 10)
        await rig.happens(JobAlreadyDone, 1000)
    first_two = [table.asked[partition(each)][:2] for each in ids]
    assert max(second - first for first, second in first_two) <= 0.001
    assert ran == Counter(ids)
    assert not any(sqs.messages(MAIL) for sqs in networks)
    deferred = {event.job_id for event in rig.heard(JobDeferred)}
    assert len(deferred) > 900, "hardly any was wanted by both at a time: the test shows little"


async def test_a_second_delivery_of_a_done_job_is_deleted_without_effect() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    ran = []

    @mail.job("charge", once=True)
    async def charge(note: Note) -> str:
        ran.append(note.text)
        return f"receipt {len(ran)}"

    rig = Rig(app)
    [job] = await rig.submit(charge, "a")
    await _deliver_again(rig, job)
    async with rig.working(concurrency=1):
        [again] = await rig.happens(JobAlreadyDone)
    assert ran == ["a"]
    assert again.job_id == job
    assert len(rig.heard(JobCompleted)) == 1
    assert rig.remaining() == 0
    assert (await _claim_of(rig, job)).data["result"] == '"receipt 1"'


async def test_a_concurrent_delivery_returns_when_the_first_lease_may_have_ended() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    gate = Gate()
    charge = mail.job("charge", once=True)(gate.__call__)
    rig = Rig(app)
    [job] = await rig.submit(charge, "a")
    await _deliver_again(rig, job)
    async with rig.working():
        [deferred] = await rig.happens(JobDeferred)
        assert deferred.delay_s == LEASE_S + SKEW_S
        assert gate.started == ["a"]
        await rig.happens(JobDeferred, 6)
        gate.open("a")
        await rig.happens(JobAlreadyDone)
    waits = [event.delay_s for event in rig.heard(JobDeferred)]
    assert all(later >= earlier * 0.7 for earlier, later in pairwise(waits))
    assert waits[-1] > 4 * waits[0], "who runs for long is not asked after every few seconds"
    assert gate.started == ["a"]
    assert rig.remaining() == 0


# --- ends of attempts ----------------------------------------------------------------------------


async def test_the_message_is_deleted_only_after_the_claim_says_that_the_job_is_done() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)

    @mail.job("charge", once=True)
    async def charge(_note: Note) -> int:
        return 7

    rig = Rig(app)
    [job] = await rig.submit(charge)
    claims: list[Any] = []

    async def look() -> None:
        claims.append((await _claim_of(rig, job)).data)

    rig.wire.requests["delete"] = look
    async with rig.working():
        await rig.happens(JobCompleted)
    [claim] = claims
    assert (claim["state"], claim["result"]) == ("done", "7")
    assert rig.table.calls.count("replace") == 2, "which is what a job costs"


async def test_a_job_whose_end_can_not_be_written_is_held_until_it_can() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    ran = []

    @mail.job("charge", once=True)
    async def charge(_note: Note) -> None:
        ran.append(1)
        rig.table.faults.raise_on("replace", ServiceUnavailable("away"), times=12)

    rig = Rig(app)
    [job] = await rig.submit(charge)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert ran == [1]
    assert len(rig.heard(ClaimFailed)) == 12
    assert {event.action for event in rig.heard(ClaimFailed)} == {"finish"}
    assert (await _claim_of(rig, job)).data["state"] == "done"
    assert rig.remaining() == 0


@pytest.mark.parametrize("away", ["refuses", "hangs"])
async def test_a_stopping_worker_never_reruns_a_job_whose_end_is_unwritten(
    away: str,
) -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    ran = []

    @mail.job("charge", once=True)
    async def charge(_note: Note) -> None:
        ran.append(1)
        if away == "refuses":
            rig.table.faults.raise_on("replace", ServiceUnavailable("away"), times=1000)
        else:
            rig.table.faults.slow_down("replace", 1000, times=1000)

    rig = Rig(app)
    await rig.submit(charge)
    async with rig.working(drain=timedelta(seconds=5)):
        await rig.happens(ClaimFailed)
    rig.table.faults.clear()
    async with rig.working():
        await asyncio.sleep(300)
    assert ran == [1]
    assert len(rig.heard(JobCompleted)) == 1
    assert not rig.heard(JobInterrupted)
    assert "could not be said in time" in rig.heard(ClaimFailed)[-1].error
    assert rig.remaining() == 0


@pytest.mark.parametrize(
    ("away", "outage_s"),
    [("refuses", 10), ("refuses", 34), ("refuses", 36), ("refuses", 60), ("hangs", 34)],
)
async def test_a_job_that_ended_in_an_outage_is_not_run_by_a_second_delivery(
    away: str, outage_s: float
) -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    ran = []

    @mail.job("charge", once=True)
    async def charge(note: Note) -> str:
        ran.append(note.text)
        await asyncio.sleep(1)
        if away == "refuses":
            rig.table.missing = True
        else:
            rig.table.faults.slow_down("replace", 1000, times=10_000)
        asyncio.get_running_loop().call_later(outage_s, back)
        return "receipt"

    def back() -> None:
        rig.table.missing = False
        rig.table.faults.clear()

    rig = Rig(app)
    jobs = await rig.submit(charge, *"abcde")
    for job in jobs:
        await _deliver_again(rig, job)
        await _deliver_again(rig, job)
    async with rig.working(concurrency=20):
        await rig.happens(JobAlreadyDone, 10)
    assert sorted(ran) == [*"abcde"]
    assert len(rig.heard(JobCompleted)) == 5
    assert rig.remaining() == 0


async def test_a_claim_is_not_given_back_while_its_thread_goes_on() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    lets_go = threading.Event()
    ran = []

    @mail.job("charge", once=True)
    def charge(_note: Note) -> None:
        ran.append(1)
        if len(ran) == 1:
            lets_go.wait(60)

    rig = Rig(app)
    [job] = await rig.submit(charge)
    try:
        async with rig.working(drain=timedelta(seconds=1)):
            await rig.happens(JobStarted)
        left_at = rig.clock.monotonic()
        assert (await _claim_of(rig, job)).data["state"] == "running"
        async with rig.working():
            await rig.happens(JobDeferred)
            assert ran == [1], "it waits for the lease of the thread"
            await rig.happens(JobCompleted)
        assert rig.clock.monotonic() - left_at > LEASE_S / 2
    finally:
        lets_go.set()


@pytest.mark.parametrize("how", ["once", "last"])
async def test_a_table_that_hangs_holds_a_slot_for_two_seconds_at_most(how: str) -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S, records="off")
    options: dict[str, Any] = (
        {"once": True}
        if how == "once"
        else {"unique": Unique(within=timedelta(hours=1), key="a", keep="last")}
    )

    @mail.job("charge", **options)
    async def charge(_note: Note) -> None: ...

    rig = Rig(app)
    async with AsyncClient(app, backend=rig.backend) as client:
        await client.submit(charge, Note())
    rig.table.faults.slow_down(None, 1000, times=10_000)
    async with rig.working(concurrency=1):
        began = rig.clock.monotonic()
        [failed] = await rig.happens(ClaimFailed)
        assert rig.clock.monotonic() - began < 3
        assert "did not answer within 2 s" in failed.error
        rig.table.faults.clear()
        await rig.happens(JobCompleted)


async def test_a_failed_attempt_is_retried_without_waiting_for_its_lease() -> None:
    app, mail = one_lane(Retry(max_attempts=3, backoff=Backoff.fixed(2)), visibility_s=VISIBILITY_S)

    @mail.job("charge", once=True)
    async def charge(_note: Note) -> None:
        if not rig.heard(JobFailed):
            raise ConnectionError("reset")
        if not rig.heard(JobDeferred):
            raise RetryLater(timedelta(seconds=1))

    rig = Rig(app)
    await rig.submit(charge)
    async with rig.working():
        await rig.happens(JobCompleted)
    first, _, third = rig.heard(JobStarted)
    assert (third.at - first.at).total_seconds() < 5
    assert len(rig.heard(JobFailed)) == len(rig.heard(JobRetryScheduled)) == 1
    assert len(rig.heard(JobDeferred)) == 1
    assert not rig.heard(ClaimFailed)


async def test_a_discarded_job_is_not_run_by_a_second_delivery() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)

    @mail.job("charge", once=True)
    async def charge(_note: Note) -> None:
        raise Discard("the order is gone")

    rig = Rig(app)
    [job] = await rig.submit(charge)
    await _deliver_again(rig, job)
    async with rig.working(concurrency=1):
        await rig.happens(JobAlreadyDone)
    assert len(rig.heard(JobStarted)) == len(rig.heard(JobDiscarded)) == 1
    assert rig.remaining() == 0


# --- leases --------------------------------------------------------------------------------------


async def test_a_claim_is_renewed_at_a_third_of_its_lease_while_its_handler_runs() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)

    @mail.job("render", once=True)
    async def render(_note: Note) -> None:
        await asyncio.sleep(200)

    rig = Rig(app)
    [job] = await rig.submit(render)
    times: list[float] = []
    replace = rig.table.replace

    async def watched(item: Item) -> Item | None:
        times.append(rig.clock.monotonic())
        return await replace(item)

    rig.table.replace = watched  # type: ignore[method-assign]  # there is no other way in
    async with rig.working():
        await rig.happens(JobCompleted)
    renewals = times[:-1]
    assert len(renewals) == 30
    assert all(b - a == pytest.approx(LEASE_S / 3, abs=0.01) for a, b in pairwise(renewals))
    assert (await _claim_of(rig, job)).data["state"] == "done"


async def test_a_job_of_a_crashed_worker_is_run_by_the_next_once_the_lease_has_ended() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    starts: list[float] = []

    @mail.job("charge", once=True)
    async def charge(_note: Note) -> None:
        starts.append(rig.clock.monotonic())

    rig = Rig(app)
    [job] = await rig.submit(charge)
    queue = app.topology.queues[0]
    dead = Claims(rig.table, owner="dead", clock=rig.clock).on(job, "charge", queue)
    assert await dead.take() is None
    began = rig.clock.monotonic()
    async with rig.working():
        await rig.happens(JobCompleted)
    [started] = starts
    takes_s = LEASE_S + SKEW_S + GRACE_S + SKEW_S
    assert takes_s <= started - began < takes_s + 2


async def test_a_handler_is_stopped_when_its_lease_ends_and_another_can_have_the_job() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    ends: list[float] = []

    @mail.job("render", once=True)
    async def render(_note: Note) -> None:
        if ends:
            return
        rig.table.faults.raise_on("replace", ServiceUnavailable("away"), times=40)
        try:
            await asyncio.sleep(10_000)
        finally:
            ends.append(rig.clock.monotonic())

    rig = Rig(app)
    await rig.submit(render)
    async with rig.working():
        [started] = await rig.happens(JobStarted)
        [interrupted] = await rig.happens(JobInterrupted)
        began = (started.at - rig.clock.now()).total_seconds() + rig.clock.monotonic()
        rig.table.faults.clear()
        await rig.happens(JobCompleted)
    assert ends[0] - began == pytest.approx(LEASE_S, abs=0.1)
    assert "could not be renewed" in interrupted.reason
    assert {event.action for event in rig.heard(ClaimFailed)} >= {"renew"}
    assert len(rig.heard(JobCompleted)) == 1


async def test_a_runner_that_was_overtaken_is_stopped_and_its_message_is_given_back() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    cut: list[bool] = []

    @mail.job("render", once=True)
    async def render(_note: Note, ctx: JobContext) -> None:
        pk = partition(ctx.id)
        standing = await _claim_of(rig, ctx.id)
        other = {"state": "done", "runner": "another", "result": "1"}
        item = Item(pk=pk, sk="claim", data=other, version=standing.version + 1)
        assert await rig.table.replace(item) is None
        try:
            await asyncio.sleep(10_000)
        except asyncio.CancelledError:
            cut.append(ctx.cancelled)
            raise

    rig = Rig(app)
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobInterrupted)
        await rig.happens(JobAlreadyDone)
    assert cut == [True]
    assert not rig.heard(JobCompleted)
    assert rig.remaining() == 0


@pytest.mark.parametrize("ending", ["returns", "raises"])
async def test_what_a_runner_comes_to_after_it_was_overtaken_counts_for_nothing(
    ending: str,
) -> None:
    app, mail = one_lane(Retry(max_attempts=1), visibility_s=VISIBILITY_S)

    @mail.job("charge", once=True)
    async def charge(_note: Note, ctx: JobContext) -> None:
        standing = await _claim_of(rig, ctx.id)
        other = {"state": "done", "runner": "another", "result": '"of another"'}
        item = Item(pk=standing.pk, sk="claim", data=other, version=standing.version + 1)
        assert await rig.table.replace(item) is None
        if ending == "raises":
            raise ValueError("of the first")

    rig = Rig(app)
    [job] = await rig.submit(charge)
    async with rig.working():
        await rig.happens(JobAlreadyDone)
    assert not rig.heard(JobCompleted)
    assert not rig.heard(JobFailed)
    assert (await _claim_of(rig, job)).data["result"] == '"of another"'
    assert rig.remaining() == 0
    assert rig.sqs.messages(f"{MAIL}-dlq") == []


# --- a table that is away ------------------------------------------------------------------------


async def test_without_the_table_a_once_job_does_not_run_and_others_do() -> None:
    app, mail = one_lane(Retry(max_attempts=1), visibility_s=VISIBILITY_S)
    ran = []

    @mail.job("charge", once=True)
    async def charge(note: Note) -> None:
        ran.append(note.text)

    @mail.job("send")
    async def send(note: Note) -> None:
        ran.append(note.text)

    rig = Rig(app)
    health = Health([MAIL], clock=rig.clock)
    rig.subscribers.append(health)
    rig.table.missing = True
    await rig.submit(charge, "once")
    await rig.submit(send, "other")
    async with rig.working():
        await rig.happens(JobCompleted)
        await rig.happens(JobDeferred, 5)
        assert ran == ["other"]
        assert health.assess().status is Status.DEGRADED
        rig.table.missing = False
        await rig.happens(JobCompleted, 2)
    assert ran == ["other", "once"]
    assert not rig.heard(JobCrashed), "what the outage kept from being written was no crash"
    assert [event.attempt for event in rig.heard(JobStarted)] == [1, 1]
    assert {event.action for event in rig.heard(ClaimFailed)} == {"take"}
    assert not rig.heard(JobFailed)
    waits = [event.delay_s for event in rig.heard(JobDeferred)]
    assert all(later > earlier for earlier, later in pairwise(waits))


async def test_a_type_without_once_costs_the_table_nothing() -> None:
    app, mail = one_lane(records="off")

    @mail.job("send")
    async def send(_note: Note) -> None: ...

    rig = Rig(app)
    await rig.submit(send, *("",) * 100)
    async with rig.working():
        await rig.happens(JobCompleted, 100)
    assert "replace" not in rig.table.calls
    assert "get" not in rig.table.calls


# --- stopping ------------------------------------------------------------------------------------


async def test_a_job_that_is_interrupted_by_shutdown_can_be_claimed_at_once() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    gate = Gate()
    charge = mail.job("charge", once=True)(gate.__call__)
    rig = Rig(app)
    [job] = await rig.submit(charge, "a")
    async with rig.working(drain=timedelta(seconds=1)):
        await gate.reached(1)
    assert (await _claim_of(rig, job)).data["state"] == "free"
    gate.open("a")
    async with rig.working():
        await rig.happens(JobCompleted)
    assert not rig.heard(JobDeferred)


async def test_a_worker_stops_in_time_though_the_table_does_not_answer() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)
    gate = Gate()
    charge = mail.job("charge", once=True)(gate.__call__)
    rig = Rig(app)
    await rig.submit(charge, "a", "b")
    async with rig.working(drain=timedelta(seconds=1), concurrency=2):
        await gate.reached(2)
        rig.table.faults.slow_down("replace", 1000, times=100)
        began = rig.clock.monotonic()
    assert rig.clock.monotonic() - began < 10
    assert len(rig.heard(JobInterrupted)) == 2


async def test_the_outcome_of_a_second_delivery_is_the_first_one_s() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)

    @mail.job("charge", once=True)
    async def charge(_note: Note) -> dict[str, int]:
        return {"cents": 5}

    rig = Rig(app)
    [job] = await rig.submit(charge)
    async with rig.working():
        await asyncio.wait_for(rig.happens(JobCompleted), LIMIT_S)
    claim = Claims(rig.table, owner="later", clock=rig.clock).on(
        job, "charge", app.topology.queues[0]
    )
    standing = await claim.take()
    assert getattr(standing, "outcome", None) == Done(result={"cents": 5})


async def test_a_thousand_once_jobs_cost_two_thousand_table_requests() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S, records="off")

    @mail.job("charge", once=True)
    async def charge(_note: Note) -> None: ...

    @mail.job("send")
    async def send(_note: Note) -> None: ...

    requests = []
    for job in (charge, send):
        rig = Rig(app)
        await rig.submit(job, *("",) * 1000)
        async with rig.working():
            await rig.happens(JobCompleted, 1000)
        requests.append(len(rig.sqs.calls))
        assert rig.table.calls.count("replace") == (2000 if job.once else 0)
    assert requests[0] <= requests[1] * 1.1


async def test_a_second_delivery_hides_no_result_of_the_first() -> None:
    app, mail = one_lane(visibility_s=VISIBILITY_S)

    @mail.job("render", once=True)
    async def render(_note: Note) -> str:
        return "x" * 400_000  # too large for the claim

    rig = Rig(app)
    [job_id] = await rig.submit(render)
    await _deliver_again(rig, job_id)
    async with rig.working(concurrency=1):
        await rig.happens(JobAlreadyDone)
        await rig.happens(JobCompleted)
    client = AsyncClient(app, backend=rig.backend)
    assert await client.handle(job_id, render).result() == "x" * 400_000
