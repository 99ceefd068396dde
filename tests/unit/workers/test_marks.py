"""The marks by which later deliveries are judged: their contents and their order."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headgate import Concurrency, RetryLater
from headgate.jobs.core.events import JobCompleted, JobCrashed, JobStarted
from headgate.jobs.core.ports.table import Item
from headgate.jobs.records.items import Mark, partition
from headgate.jobs.records.late_starts import AFTER_S, LateStarts
from headgate.jobs.records.lives import Life, life_item
from tests.unit.workers.rig import MAIL, Gate, Note, Rig, one_lane

pytestmark = pytest.mark.looptime


async def marks(rig: Rig, job_id: str) -> list[tuple[int, str]]:
    """Return the deliveries of a job that have marks, with these."""
    items = await rig.table.query(partition(job_id))
    parts = [item.sk.split("#") for item in items if item.sk.count("#") > 1]
    return [(int(receive), kind) for *_, receive, kind in parts]


async def test_what_goes_back_unstarted_is_explained_before_it_shows() -> None:
    app, mail = one_lane(visibility_s=600)
    gate = Gate()
    slow = mail.define("slow", Note, concurrency=Concurrency(1, key="tenant"))
    slow.handler(gate.__call__)
    rig = Rig(app)
    first, second = await rig.submit(slow, "first", "second", tenant="org-1")
    explained: asyncio.Future[list[tuple[int, str]]] = asyncio.Future()

    async def look() -> None:
        if not explained.done():
            explained.set_result(await marks(rig, second))

    async with rig.working(give_back_after=timedelta(seconds=1)):
        await gate.reached(1)
        rig.wire.requests["change_visibility"] = look
        found = await explained
        del rig.wire.requests["change_visibility"]
        gate.open("first", "second")
        await rig.happens(JobCompleted, 2)
    assert found == [(1, Mark.RELEASED)]
    assert not rig.heard(JobCrashed)
    assert (1, Mark.RELEASED) not in await marks(rig, first)


async def test_an_interrupted_job_has_begun_and_an_unstarted_one_has_not() -> None:
    app, mail = one_lane(visibility_s=600)
    gate = Gate()
    slow = mail.define("slow", Note, concurrency=Concurrency(1, key="tenant"))
    slow.handler(gate.__call__)
    rig = Rig(app)
    first, second = await rig.submit(slow, "first", "second", tenant="org-1")
    async with rig.working(drain=timedelta(0), give_back_after=timedelta(seconds=1)):
        await gate.reached(1)
        await asyncio.sleep(30)
    gate.open("first", "second")
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    starts = [(each.job_id, each.attempt, each.is_first) for each in rig.heard(JobStarted)]
    assert starts[0] == (first, 1, True)
    assert sorted(starts[1:]) == sorted([(first, 1, False), (second, 1, True)])
    waited = {each.job_id: each.waited_s for each in rig.heard(JobStarted)}
    assert waited[first] == 0, "it was counted at its first start"
    assert waited[second] > 30, "though it was delivered before"
    # The worker's last receive, still under way, may bring it once more; it goes back unstarted.
    began, *again = await _released(rig, first)
    assert began.sk.endswith(f"#{Mark.INTERRUPTED}")
    assert [item.sk.rpartition("#")[2] for item in again] in ([], [Mark.RELEASED])
    assert began.data["ran_s"] == pytest.approx(30, abs=1)
    unstarted = await _released(rig, second)
    assert unstarted
    assert all(item.sk.endswith(f"#{Mark.RELEASED}") for item in unstarted)


async def test_a_job_that_its_handler_put_off_has_begun() -> None:
    app, mail = one_lane(visibility_s=600)
    asked: list[int] = []

    @mail.job("poll")
    async def poll(_note: Note) -> None:
        asked.append(len(asked))
        if len(asked) == 1:
            raise RetryLater(timedelta(seconds=5))

    rig = Rig(app)
    [job_id] = await rig.submit(poll)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert [(each.attempt, each.is_first) for each in rig.heard(JobStarted)] == [
        (1, True),
        (1, False),
    ]
    assert (1, Mark.DEFERRED) in await marks(rig, job_id)


async def _released(rig: Rig, job_id: str) -> list[Item]:
    items = await rig.table.query(partition(job_id))
    kinds = (f"#{Mark.RELEASED}", f"#{Mark.INTERRUPTED}")
    return [item for item in items if item.sk.endswith(kinds)]


async def test_a_crash_is_written_down_when_it_is_found_and_found_once() -> None:
    app, mail = one_lane(visibility_s=60)

    @mail.job("send")
    async def send(_note: Note) -> None: ...

    rig = Rig(app)
    [job_id] = await rig.submit(send)
    life = Life(name="dead", beat=1, groups=frozenset({"mail"}), at=rig.clock.now())
    await rig.table.put([life_item(life)])
    assert await rig.sqs.receive(MAIL, limit=1, wait_s=0)
    async with rig.working():
        await rig.happens(JobCrashed)
        await rig.happens(JobCompleted)
    assert (1, Mark.CRASHED) in await marks(rig, job_id)
    assert len(rig.heard(JobCrashed)) == 1


async def test_a_start_is_written_once_a_job_has_run_for_a_second_and_not_before() -> None:
    written: list[tuple[str, float, float]] = []
    loop = asyncio.get_running_loop()
    began = loop.time()

    def write(run: str, ago_s: float) -> None:
        written.append((run, loop.time() - began, ago_s))

    late = LateStarts(write)
    for number in range(3):
        late.begun(f"run-{number}")
        await asyncio.sleep(0.4)
    late.ended("run-1")
    await asyncio.sleep(5)
    assert [run for run, _, _ in written] == ["run-0", "run-2"]
    assert [at for _, at, _ in written] == pytest.approx([AFTER_S, 0.8 + AFTER_S], abs=0.01)
    assert [ago_s for _, _, ago_s in written] == pytest.approx([AFTER_S] * 2, abs=0.01)
