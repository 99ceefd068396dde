"""Handlers in child processes, stopped at any point: results count, and no process is left."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Priority, RateLimit
from headgate.jobs.core.events import JobCancelled, JobCompleted, JobCrashed, JobDeferred, JobFailed
from headgate.workers.isolation import child_pool
from headgate.workers.worker import Worker
from tests.support.stub_children import StubChildren, steps
from tests.unit.workers.rig import Note, Rig, one_lane

pytestmark = pytest.mark.looptime

POINTS = 90
"""Iterations of the loop by which everything has happened to one job, with some to spare."""


class Charges:
    """A once job that makes a charge, in a stub child, and the number of its charges."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **children: Any) -> None:
        app, mail = one_lane(visibility_s=30)

        @mail.job("charge", once=True, isolation="process", timeout=timedelta(seconds=5))
        def charge(_note: Note) -> str:
            raise AssertionError("it runs in a child")

        self.job = charge
        self.count = 0
        self.children = StubChildren(self._charge, **children)
        self.children.install(monkeypatch)
        self.rig = Rig(app)

    def _charge(self) -> None:
        self.count += 1

    async def until(self, point: int, how: str) -> None:
        """Run a worker, and stop it, or the job, at that point."""
        worker = self.rig.worker(children=1)
        run = asyncio.create_task(worker.run())
        await steps(point)
        _stop(worker, run, how)
        if how == "cancel the job":
            await asyncio.sleep(3)
            worker.stop()
        await asyncio.wait({run})
        await steps(1)
        assert self.children.left == [], "no child process outlives its worker"

    async def finish(self) -> None:
        """Have another worker do the rest."""
        if self.rig.remaining():
            done = len(self.rig.heard(JobCompleted))
            async with self.rig.working(children=1):
                await self.rig.happens(JobCompleted, done + 1)
        assert self.rig.remaining() == 0
        assert self.children.left == []


def _stop(worker: Worker, run: asyncio.Task[Any], how: str) -> None:
    match how:
        case "stop":
            worker.stop()
        case "hurry":
            worker.hurry()
        case "cancel":
            run.cancel()
        case "cancel twice":
            run.cancel()
            asyncio.get_running_loop().call_soon(run.cancel)
        case "cancel the job":
            for hold in worker._parts.running.unfinished:
                hold.run.cancel("a mistake")


KINDS: dict[str, dict[str, Any]] = {
    "heeding": {},
    "deaf": {"heeds_cancel": False},
    "large": {"heeds_cancel": False, "result_steps": 8, "result_s": 1.0},
}


@pytest.mark.parametrize("how", ["stop", "hurry", "cancel", "cancel twice", "cancel the job"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_worker_may_be_stopped_anywhere_and_the_charge_is_made_once(
    how: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asyncio.all_tasks()
    for point in range(POINTS):
        charges = Charges(monkeypatch, **KINDS[kind])
        rig = charges.rig
        await rig.submit(charges.job)
        await charges.until(point, how)
        charged = charges.count
        if charged:
            assert not rig.heard(JobCancelled), f"a completed job was cancelled at {point}"
            assert len(rig.heard(JobCompleted)) == 1, f"a result was thrown away at {point}"
            assert rig.remaining() == 0
        await charges.finish()
        assert charges.count == (0 if rig.heard(JobCancelled) else 1), f"charged at {point}"
        assert not rig.heard(JobCrashed)
        assert not rig.heard(JobFailed)
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("how", ["stop", "hurry", "cancel twice"])
async def test_a_worker_may_be_stopped_anywhere_while_a_child_dies_and_none_is_left(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asyncio.all_tasks()
    for point in range(POINTS):
        charges = Charges(monkeypatch, ending="dies", handler_steps=1)
        await charges.rig.submit(charges.job)
        await charges.until(point, how)
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(("ending", "event"), [("hangs", JobFailed), ("dies", JobCrashed)])
async def test_a_child_that_is_killed_or_dies_is_blamed_for_it(
    ending: str, event: type[JobFailed | JobCrashed], monkeypatch: pytest.MonkeyPatch
) -> None:
    charges = Charges(monkeypatch, ending=ending)
    await charges.rig.submit(charges.job)
    async with charges.rig.working(children=1):
        async with asyncio.timeout(60):
            [blamed] = await charges.rig.happens(event)
        first = min(charges.children.processes)
        assert all(process.pid != first for process in charges.children.left)
    assert ("JobTimeout" if ending == "hangs" else "SIGSEGV") in str(blamed)
    assert not charges.rig.heard(JobDeferred)
    assert charges.children.left == []


async def test_a_child_that_died_before_it_got_its_job_is_no_crash_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    charges = Charges(monkeypatch, ending="dies before")
    await charges.rig.submit(charges.job)
    async with charges.rig.working(children=1):
        await charges.rig.happens(JobCompleted)
    assert not charges.rig.heard(JobCrashed)
    assert charges.count == 1


async def test_children_that_die_before_their_job_are_replaced_with_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    charges = Charges(monkeypatch, ending="never begins")
    rig, children = charges.rig, charges.children
    await rig.submit(charges.job)
    worker = rig.worker(children=1)
    run = asyncio.create_task(worker.run())
    try:
        await steps(5_000)  # no time passes
        assert len(children.processes) < 3
        [deferred, *_] = await rig.happens(JobDeferred)
        assert "SIGKILL" in deferred.reason
        before = len(children.processes)
        await asyncio.sleep(600)
        assert len(children.processes) - before < 30
        children.ending = "returns"
        await rig.happens(JobCompleted)
    finally:
        worker.hurry()
        await run
    assert charges.count == 1
    assert not rig.heard(JobCrashed)
    assert not rig.heard(JobFailed)


class Renders:
    """An app whose one type runs in stub children under a rate, and the times of its starts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rate: RateLimit, **children: Any) -> None:
        app = App("shop")
        calls = app.queue("calls", priorities=[Priority.NORMAL], rate_limit=rate)

        @calls.job("render", isolation="process", timeout=timedelta(minutes=5))
        def render(_note: Note) -> str:
            raise AssertionError("it runs in a child")

        self.job = render
        self.rig = Rig(app)
        self.starts: list[float] = []
        """The times at which handlers worked; they take none."""
        self.children = StubChildren(self._work, **children)
        self.children.install(monkeypatch)

    def _work(self) -> None:
        self.starts.append(self.rig.clock.monotonic())

    def most_within(self, seconds: float) -> int:
        """Return the largest number of starts within any period of that length."""
        return max(
            sum(begin <= start < begin + seconds for start in self.starts) for begin in self.starts
        )


async def test_a_rate_holds_while_the_child_processes_are_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renders = Renders(monkeypatch, RateLimit(1, per=1), ready_s=4)
    await renders.rig.submit(renders.job, *map(str, range(10)))
    async with renders.rig.working(children=4):
        await renders.rig.happens(JobCompleted, 10)
    assert renders.most_within(0.999) == 1
    assert renders.starts[-1] - renders.starts[0] < 11, "and it is used"


async def test_a_rate_holds_while_child_processes_that_died_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renders = Renders(monkeypatch, RateLimit(4, per=4), ready_s=6, ending="dies")
    await renders.rig.submit(renders.job, *map(str, range(12)))
    async with renders.rig.working(children=4):
        await renders.rig.happens(JobCrashed, 4)
        renders.children.ending = "returns"
        await renders.rig.happens(JobCompleted, 12)
    assert renders.most_within(3.999) == 4


async def test_a_worker_receives_no_job_for_children_that_are_still_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renders = Renders(monkeypatch, RateLimit(100, per=1), ready_s=30)
    rig = renders.rig
    await rig.submit(renders.job, *map(str, range(10)))
    async with rig.working(children=4) as worker:
        await asyncio.sleep(29)
        assert rig.calls("receive") == 0, "a worker that is ready can have them"
        assert not worker.is_held_back, "it has not started, as one whose children can't"
        await rig.happens(JobCompleted, 10)
        assert rig.clock.monotonic() < 31


async def test_a_child_without_room_for_another_such_job_is_replaced_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renders = Renders(monkeypatch, RateLimit(1, per=1), ready_s=4)
    monkeypatch.setattr(child_pool, "_has_room", lambda child, _job: child.jobs == 0)
    await renders.rig.submit(renders.job, *map(str, range(6)))
    async with renders.rig.working(children=2):
        await renders.rig.happens(JobCompleted, 6)
    assert renders.most_within(0.999) == 1
    assert len(renders.children.processes) >= 6
