"""A worker shows what it polls and runs, until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from headgate import App, AsyncClient, Backoff, Breaker, Concurrency, Retry
from headgate.jobs.client.overview.workers import WorkerList
from headgate.jobs.core.events import (
    BreakerOpened,
    JobCompleted,
    JobDeadLettered,
    LimitReached,
    RecordsFailed,
)
from headgate.jobs.core.ports.table import Item, Key
from headgate.jobs.core.topology import Priority
from headgate.jobs.errors import ServiceUnavailable, Throttled
from headgate.jobs.records.fleet.worker_status import (
    EVERY_S,
    MOST_RUNNING,
    MOST_TENANTS,
    SILENT_AFTER_S,
    WORKER_STATUSES,
    LimitState,
    WorkerState,
    WorkerStatus,
)
from headgate.jobs.testing import LoopClock, MemoryTable
from tests.support.stub_children import StubChildren, steps
from tests.unit.workers.rig import Gate, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

BEAT_S = 1.3 * EVERY_S
"""One beat, with its jitter."""


async def listed(rig: Rig) -> WorkerList:
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        return await client.workers.list()


async def only(rig: Rig) -> WorkerStatus:
    """Return the status of the one worker that is shown."""
    [status] = (await listed(rig)).workers
    return status


class Shop:
    """A worker's app with one type, whose handler waits at a gate."""

    def __init__(self, **options: Any) -> None:
        app, mail = one_lane()
        self.gate = Gate()
        self.send = mail.job("send", **options)(self.gate.__call__)
        self.rig = Rig(app)


class Refusing(MemoryTable):
    """A table that takes everything but statuses."""

    def __init__(self, fault: str) -> None:
        super().__init__(LoopClock())
        self._fault = fault
        self.tries = 0

    async def put(self, items: Sequence[Item]) -> list[Item]:
        if items[0].pk != WORKER_STATUSES:
            return await super().put(items)
        self.tries += 1
        return [*items] if self._fault == "is busy" else await self._fail()

    async def delete(self, keys: Sequence[Key]) -> list[Key]:
        if keys[0][0] != WORKER_STATUSES:
            return await super().delete(keys)
        return [*keys] if self._fault == "is busy" else await self._fail()

    async def _fail(self) -> NoReturn:
        if self._fault == "is silent":
            await asyncio.Event().wait()
        raise Throttled("slow down") if self._fault == "throttles" else ServiceUnavailable("away")


# --- what is shown -------------------------------------------------------------------------------


async def test_a_worker_shows_itself_before_its_first_job() -> None:
    rig = Shop().rig
    async with rig.working(concurrency=7, app_version="4f2a91c"):
        await asyncio.sleep(1)
        status = await only(rig)
    assert status.name
    assert (status.state, status.slots, status.busy) == (WorkerState.WORKING, 7, 0)
    assert status.polls == {"mail": [Priority.NORMAL]}
    assert (status.app_version, status.running) == ("4f2a91c", [])


async def test_running_jobs_are_shown_with_the_time_that_they_have_run() -> None:
    shop = Shop()
    async with shop.rig.working(concurrency=2):
        ids = await shop.rig.submit(shop.send, "a", "b", "c")
        await shop.gate.reached(2)
        started_at = shop.rig.clock.now()
        await asyncio.sleep(BEAT_S)
        status = await only(shop.rig)
        shop.gate.open("a", "b", "c")
    assert (status.busy, status.slots) == (2, 2)
    assert {job.id for job in status.running} < set(ids)
    for job in status.running:
        assert (job.type, job.queue, job.attempt) == ("send", "mail", 1)
        assert abs(job.started_at - started_at) < timedelta(seconds=1)


async def test_of_many_running_jobs_those_that_run_longest_are_shown() -> None:
    shop = Shop()
    texts = [f"{n}" for n in range(30)]
    async with shop.rig.working(concurrency=30):
        [first] = await shop.rig.submit(shop.send, texts[0])
        await shop.gate.reached(1)
        await asyncio.sleep(5)
        await shop.rig.submit(shop.send, *texts[1:])
        await shop.gate.reached(30)
        await asyncio.sleep(BEAT_S)
        status = await only(shop.rig)
        shop.gate.open(*texts)
    assert (status.busy, len(status.running)) == (30, MOST_RUNNING)
    assert status.running[0].id == first


async def test_tenants_are_shown_with_what_is_held_of_each_the_most_first() -> None:
    shop = Shop()
    async with shop.rig.working(concurrency=2):
        await shop.rig.submit(shop.send, "a", tenant="few")
        await shop.rig.submit(shop.send, "b", "c", "d", tenant="many")
        await shop.rig.submit(shop.send, "e")
        await shop.gate.reached(2)
        await asyncio.sleep(BEAT_S)
        status = await only(shop.rig)
        in_flight = shop.rig.in_flight()
        shop.gate.open(*"abcde")
    held = {each.tenant: each.held for each in status.tenants}
    assert list(held) == ["many", "few"] or held["many"] == held["few"]
    assert 0 < sum(held.values()) <= in_flight
    assert {(each.queue, each.priority) for each in status.tenants} == {("mail", "normal")}


async def test_only_the_tenants_of_which_most_is_held_are_shown() -> None:
    shop = Shop()
    texts = [f"{n}" for n in range(60)]
    async with shop.rig.working(concurrency=60):
        for number, text in enumerate(texts):
            await shop.rig.submit(shop.send, text, tenant=f"org-{min(number, 30)}")
        await shop.gate.reached(60)
        await asyncio.sleep(BEAT_S)
        status = await only(shop.rig)
        shop.gate.open(*texts)
    assert len(status.tenants) == MOST_TENANTS
    assert (status.tenants[0].tenant, status.tenants[0].held) == ("org-30", 30)


async def test_the_group_of_a_fifo_queue_is_no_tenant() -> None:
    app = App("shop")
    gate = Gate()
    send = app.queue("mail", priorities=[Priority.NORMAL], fifo=True).job(
        "send", group_by=lambda note: note.text
    )(gate.__call__)
    rig = Rig(app)
    async with rig.working(concurrency=2):
        await rig.submit(send, "a", tenant="org-1")
        await gate.reached(1)
        await asyncio.sleep(BEAT_S)
        status = await only(rig)
        gate.open("a")
    assert (status.busy, status.tenants) == (1, [])


async def test_a_job_in_a_child_process_is_shown_as_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, mail = one_lane()

    @mail.job("render", isolation="process")
    def render(_note: Note) -> None: ...

    StubChildren(lambda: None, ending="hangs").install(monkeypatch)
    rig = Rig(app)
    worker = rig.worker(children=1)
    run = asyncio.create_task(worker.run())
    await rig.submit(render)
    await asyncio.sleep(2 * BEAT_S)
    status = await only(rig)
    worker.hurry()
    await run
    assert [job.type for job in status.running] == ["render"]


async def test_limits_that_hold_jobs_back_are_shown_until_they_let_go() -> None:
    shop = Shop(concurrency=Concurrency(1))
    async with shop.rig.working():
        await shop.rig.submit(shop.send, "a", "b")
        await shop.rig.happens(LimitReached)
        await asyncio.sleep(BEAT_S)
        held = await only(shop.rig)
        shop.gate.open("a", "b")
        await shop.rig.happens(JobCompleted, 2)
        await asyncio.sleep(2 * BEAT_S)
        free = await only(shop.rig)
    assert held.limits == {"concurrency:type:send": LimitState.HOLDING}
    assert free.limits == {}


async def test_an_open_breaker_is_shown() -> None:
    app, mail = one_lane()
    breaker = Breaker(0.5, min_runs=2, open_for=timedelta(minutes=10), probes=1)

    @mail.job("send", breaker=breaker)
    async def send(_note: Note) -> None:
        raise ServiceUnavailable("the gateway answered 503")

    rig = Rig(app)
    async with rig.working():
        await rig.submit(send, "a", "b", "c")
        await rig.happens(BreakerOpened)
        await asyncio.sleep(BEAT_S)
        status = await only(rig)
    assert status.limits["breaker:type:send"] is LimitState.OPEN


async def test_failed_attempts_are_counted_from_the_start_on() -> None:
    app, mail = one_lane()

    @mail.job("send", retry=Retry(max_attempts=3, backoff=Backoff.fixed(1)))
    async def send(note: Note) -> None:
        if note.text != "fine":
            raise ServiceUnavailable("the gateway answered 503")

    rig = Rig(app)
    async with rig.working():
        await rig.submit(send, "fine", "a", "b")
        await rig.happens(JobDeadLettered, 2)
        await asyncio.sleep(BEAT_S)
        status = await only(rig)
    assert status.failed == {"mail": 6}


async def test_pauses_are_shown_as_the_worker_knows_them() -> None:
    shop = Shop()
    async with shop.rig.working(), AsyncClient(shop.rig.app, backend=shop.rig.backend) as client:
        await client.pauses.create(tenant="org-1")
        await asyncio.sleep(2 * BEAT_S)
        assert (await only(shop.rig)).pauses == ["the tenant 'org-1'"]
        await client.pauses.remove(tenant="org-1")
        await asyncio.sleep(2 * BEAT_S)
        assert (await only(shop.rig)).pauses == []


# --- its end -------------------------------------------------------------------------------------


async def test_a_draining_worker_says_so_at_once_and_is_gone_once_it_has_ended() -> None:
    shop = Shop()
    async with shop.rig.working() as worker:
        await shop.rig.submit(shop.send, "a")
        await shop.gate.reached(1)
        worker.stop()
        await asyncio.sleep(1)
        draining = await only(shop.rig)
        shop.gate.open("a")
    assert draining.state is WorkerState.DRAINING
    assert [job.type for job in draining.running] == ["send"]
    assert await shop.rig.table.query(WORKER_STATUSES) == []


async def test_a_killed_worker_falls_silent_and_its_status_expires() -> None:
    shop = Shop()
    worker = shop.rig.worker()
    run = asyncio.create_task(worker.run())
    await asyncio.sleep(1)
    worker._parts.books._presence = None  # as if the process had been killed: it deletes nothing
    worker.hurry()
    await run
    before = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert before == []
    await asyncio.sleep(SILENT_AFTER_S + 2)
    found = await listed(shop.rig)
    assert (found.workers, len(found.silent)) == ([], 1)
    await asyncio.sleep(3_600)
    assert (await listed(shop.rig)).silent == []


async def test_each_of_several_workers_shows_itself() -> None:
    rig = Shop().rig
    workers = [rig.worker(), rig.worker()]
    runs = [asyncio.create_task(each.run()) for each in workers]
    await asyncio.sleep(1)
    assert len({each.name for each in (await listed(rig)).workers}) == 2
    for each in workers:
        each.stop()
    await asyncio.wait(runs)
    assert (await listed(rig)).workers == []


async def test_it_writes_about_twice_a_minute_while_it_is_idle() -> None:
    rig = Shop().rig
    async with rig.working():
        await asyncio.sleep(100)
        rig.table.calls.clear()
        written: list[Item] = []
        put = rig.table.put

        async def noting(items: Sequence[Item]) -> list[Item]:
            written.extend(item for item in items if item.pk == WORKER_STATUSES)
            return await put(items)

        rig.table.put = noting  # type: ignore[method-assign]  # to see it
        await asyncio.sleep(25 * EVERY_S)
        assert 20 <= len(written) <= 30


async def test_without_records_it_writes_nothing() -> None:
    app, mail = one_lane(records="off")
    mail.job("send")(Gate().__call__)
    rig = Rig(app)
    async with rig.working():
        await asyncio.sleep(BEAT_S)
        assert rig.table.calls == []


# --- the table's faults --------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["is away", "throttles", "is busy", "is silent"])
async def test_a_table_that_takes_no_status_disturbs_no_job_and_is_reported_once(
    fault: str,
) -> None:
    shop = Shop()
    shop.rig.table = table = Refusing(fault)
    async with shop.rig.working() as worker:
        shop.gate.open("a", "b")
        await shop.rig.submit(shop.send, "a")
        await shop.rig.happens(JobCompleted)
        await asyncio.sleep(5 * BEAT_S)
        await shop.rig.submit(shop.send, "b")
        await shop.rig.happens(JobCompleted, 2)
        assert table.tries >= 4
        told = [event for event in shop.rig.heard(RecordsFailed) if event.action == "status"]
        assert len(told) == 1
        stopped_at = shop.rig.clock.monotonic()
        worker.stop()
    assert shop.rig.report is not None
    assert shop.rig.report.clean
    assert shop.rig.clock.monotonic() - stopped_at < 30, "a poll's wait, and a few seconds"


async def test_a_slow_write_does_not_come_after_the_worker_has_ended() -> None:
    shop = Shop()
    async with shop.rig.working() as worker:
        await asyncio.sleep(1)
        shop.rig.table.faults.slow_down("put", 0.4)
        worker._parts.books._presence.update()  # type: ignore[union-attr]  # to be under way
        await steps(2)
        worker.hurry()
    await asyncio.sleep(10)
    assert await shop.rig.table.query(WORKER_STATUSES) == []
