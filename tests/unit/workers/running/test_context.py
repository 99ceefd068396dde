"""The abilities of a handler's context: reporting progress, submitting further jobs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headgate import App, JobContext, Tenant
from headgate.jobs.core.events import (
    JobCompleted,
    JobFailed,
    JobProgress,
    JobSubmitted,
)
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import AccessDenied, ConfigurationError, PayloadInvalid
from headgate.jobs.messages.envelope import parse
from headgate.jobs.records.history import read_job
from headgate.jobs.records.items import partition
from headgate.jobs.records.lists.children import children_partition
from headgate.jobs.testing import Harness
from tests.unit.workers.rig import MAIL, Note, Rig, one_lane

pytestmark = pytest.mark.looptime


def parent_and_child(*, plain: bool) -> tuple[App, JobType[Note, None], JobType[Note, None]]:
    """Return an app whose job ``parent`` submits a ``child``, which only a later worker runs."""
    app, queue = one_lane()
    child = queue.define("child", Note)

    @child.handler
    async def _(_note: Note) -> None: ...

    if plain:

        @queue.job("parent")
        def by_thread(note: Note, ctx: JobContext) -> None:
            _submitted = ctx.submit(child, Note(text=f"of {note.text}"))

        return app, by_thread, child

    @queue.job("parent")
    async def by_loop(note: Note, ctx: JobContext) -> None:
        await ctx.submit(child, Note(text=f"of {note.text}"))

    return app, by_loop, child


@pytest.mark.parametrize("plain", [False, True])
async def test_a_handler_submits_a_child_that_carries_its_tenant_and_names_its_parent(
    *, plain: bool
) -> None:
    app, parent, child = parent_and_child(plain=plain)
    rig = Rig(app)
    [parent_id] = await rig.submit(parent, "p", tenant=Tenant(org="org-1"))
    async with rig.working(concurrency=1):
        [submitted] = [
            event for event in await rig.happens(JobSubmitted) if event.job_type == child.name
        ]
        await rig.happens(JobCompleted, 2)
    assert submitted.tenant == Tenant(org="org-1")
    [done] = [event for event in rig.heard(JobCompleted) if event.job_type == "child"]
    assert done.job_id == submitted.job_id
    assert parent_id != submitted.job_id
    [entry] = await rig.table.query(children_partition(parent_id))
    assert (entry.sk, entry.data["tenant"]) == (submitted.job_id, {"org": "org-1"})


def test_a_child_names_its_parent_in_its_envelope() -> None:
    app, parent, _child = parent_and_child(plain=True)
    jobs = Harness(app)
    handle = jobs.client.submit(parent, Note(text="p"), tenant="org-1")
    bodies: list[Any] = []

    @parent.on_complete
    def _(_event: JobCompleted) -> None:
        bodies.extend(parse(message.body) for message in jobs.sqs.messages(MAIL))

    jobs.drain()
    [envelope] = bodies
    assert str(envelope.parent) == handle.id
    assert envelope.tenant == Tenant(org="org-1")
    assert envelope.payload == {"text": "of p"}


async def test_a_job_fails_if_sqs_refuses_a_child_that_was_never_awaited() -> None:
    app, queue = one_lane()
    child = queue.define("child", Note)

    @child.handler
    async def _(_note: Note) -> None: ...

    @queue.job("parent", retry=None)
    async def parent(_note: Note, ctx: JobContext) -> None:
        _awaitable = ctx.submit(child, Note())  # and forgotten

    rig = Rig(app)
    await rig.submit(parent)
    rig.sqs.faults.raise_on("send", AccessDenied("no"), queue=MAIL, times=100)
    async with rig.working():
        failures = await rig.happens(JobFailed)
    assert failures[0].job_type == "parent"


async def test_a_payload_that_does_not_fit_is_refused_inside_the_handler() -> None:
    app, queue = one_lane()
    child = queue.define("child", Note)
    seen: list[BaseException] = []

    @child.handler
    async def _(_note: Note) -> None: ...

    @queue.job("parent")
    async def parent(_note: Note, ctx: JobContext) -> None:
        with pytest.raises(PayloadInvalid) as refused:
            _submitted = ctx.submit(child, "no note")  # type: ignore[arg-type]  # the point
        seen.append(refused.value)

    rig = Rig(app)
    await rig.submit(parent)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert len(seen) == 1


@pytest.mark.parametrize("plain", [False, True])
async def test_progress_is_told_without_waiting_awaited_or_not(*, plain: bool) -> None:
    app, queue = one_lane()

    def by_thread(_note: Note, ctx: JobContext) -> None:
        assert threading.current_thread().name.startswith("headgate-job")
        _awaitable = ctx.progress(40, "rendering", step="pdf")

    async def by_loop(_note: Note, ctx: JobContext) -> None:
        await ctx.progress(40, "rendering", step="pdf")

    render = queue.define("render", Note)
    render.handler(by_thread if plain else by_loop)
    rig = Rig(app)
    [job_id] = await rig.submit(render)
    async with rig.working():
        await rig.happens(JobCompleted)
        [progress] = await rig.happens(JobProgress)
    assert (progress.job_id, progress.percent, progress.note) == (job_id, 40, "rendering")
    assert progress.data == {"step": "pdf"}


async def test_a_progress_that_can_not_be_fails_no_job_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, queue = one_lane()

    @queue.job("render")
    async def render(_note: Note, ctx: JobContext) -> None:
        for percent in (150, -1, float("inf"), float("nan"), "40", None):
            await ctx.progress(percent, "rendering")  # type: ignore[arg-type]  # what a handler may do

    rig = Rig(app)
    await rig.submit(render)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert [event.percent for event in rig.heard(JobProgress)] == [100, 0, 100]
    told = [line for line in caplog.messages if "ctx.progress" in line]
    assert told == ["ctx.progress wants a number from 0 to 100, got 150"]


async def test_details_that_json_can_not_hold_fail_no_job(caplog: pytest.LogCaptureFixture) -> None:
    app, queue = one_lane()

    class Mute:
        def __str__(self) -> str:
            raise KeyError

    within: list[object] = []
    within.append(within)

    @queue.job("render")
    async def render(_note: Note, ctx: JobContext) -> None:
        await ctx.progress(1, "\udc00", odd=float("nan"), mute=Mute(), by_number={1: {2}})
        for odd in (within, b"\xff", "\udc00"):
            await ctx.progress(2, "rendering", odd=odd)

    rig = Rig(app)
    [job_id] = await rig.submit(render)
    async with rig.working():
        await rig.happens(JobCompleted)
    first, *others = rig.heard(JobProgress)
    mute = "<KeyError in Mute.__str__>"
    assert first.note == "\\udc00"
    assert first.data == {"odd": None, "mute": mute, "by_number": {"1": [2]}}
    assert [each.data for each in others] == [{}] * 3
    told = [line for line in caplog.messages if "ctx.progress" in line]
    assert told == ["ctx.progress wants JSON values, and left out odd"]
    record = read_job(job_id, await rig.table.query(partition(job_id)), now=rig.clock.now())
    assert record.progress is not None
    assert (record.progress.percent, record.progress.note) == (2, "rendering")


async def test_a_host_without_a_sender_says_so() -> None:
    from headgate.jobs.core.events import Events
    from headgate.jobs.execution.calling.means import Means
    from headgate.jobs.execution.delivery import Delivery
    from headgate.jobs.execution.executor import Executor
    from headgate.jobs.execution.outcome import Failed
    from headgate.jobs.execution.run import Run

    app, parent, _child = parent_and_child(plain=False)
    rig = Rig(app)
    await rig.submit(parent)
    [message] = await rig.sqs.receive(MAIL, limit=1, wait_s=0)
    [spec] = [spec for spec in app.topology.queues if spec.name == MAIL]
    executor = Executor(Means(app=app, clock=rig.clock, events=Events()))
    run = Run(executor, Delivery(message=message, queue=spec, received_at=0))
    outcome = (await run.verdict()).outcome
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, ConfigurationError)
