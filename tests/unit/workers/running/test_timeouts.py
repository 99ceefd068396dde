"""An attempt whose type declares no timeout is bounded by the app's, wherever it runs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Client, JobContext, Retry
from headgate.jobs.core.events import JobCompleted, JobFailed
from headgate.jobs.errors import InlineFailed, ServiceUnavailable
from headgate.jobs.testing import Harness, MemorySqs, VirtualClock
from tests.support.backends import over
from tests.support.stub_children import StubChildren
from tests.unit.workers.rig import Note, Rig, without_threads

_ONCE = Retry(max_attempts=1)
_LONGER_S = 4_800.0  # than each of the timeouts


@without_threads
@pytest.mark.parametrize(
    ("app", "options", "ends_s"),
    [
        ({}, {}, 15 * 60),
        ({"timeout": timedelta(minutes=2)}, {}, 120),
        ({"timeout": timedelta(minutes=2)}, {"timeout": timedelta(minutes=40)}, 2400),
        ({"timeout": timedelta(hours=1)}, {}, 3600),
        ({}, {"timeout": None}, _LONGER_S),
        ({"timeout": None}, {}, _LONGER_S),
    ],
)
async def test_an_attempt_in_a_worker_ends_at_its_types_timeout_or_at_the_apps(
    app: dict[str, Any], options: dict[str, Any], ends_s: float
) -> None:
    shop = App("shop", **app)
    ran: list[float] = []

    @shop.job("hang", retry=_ONCE, **options)
    async def hang(_note: Note, ctx: JobContext) -> None:
        began, bound = rig.clock.monotonic(), ctx.deadline - rig.clock.now()
        try:
            await asyncio.sleep(_LONGER_S)
        finally:
            ran.append(rig.clock.monotonic() - began)
            assert bound.total_seconds() >= ran[0] - 1

    rig = Rig(shop)
    await rig.submit(hang)
    async with rig.working():
        if ends_s < _LONGER_S:
            [failed] = await rig.happens(JobFailed)
            assert failed.error_type == "JobTimeout"
        else:
            await rig.happens(JobCompleted)
    assert ran == [pytest.approx(ends_s, abs=1)]


@pytest.mark.looptime
async def test_a_submission_may_allow_more_than_the_apps_timeout() -> None:
    app = App("shop", timeout=timedelta(seconds=1))

    @app.job("slow")
    async def slow(_note: Note) -> None:
        await asyncio.sleep(60)

    rig = Rig(app)
    await rig.submit(slow, timeout=timedelta(minutes=2))
    async with rig.working():
        await rig.happens(JobCompleted)


@pytest.mark.looptime
async def test_a_child_process_is_killed_at_the_apps_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("shop")

    @app.job("render", isolation="process", retry=_ONCE)
    def render(_note: Note) -> None:
        raise AssertionError("it runs in a child")

    children = StubChildren(lambda: None, ending="hangs")
    children.install(monkeypatch)
    rig = Rig(app)
    await rig.submit(render)
    async with rig.working(children=1):
        [failed] = await rig.happens(JobFailed)
    assert failed.error_type == "JobTimeout"
    assert failed.ran_s == pytest.approx(15 * 60, abs=1)
    assert children.left == []


def _client(app: App) -> Client:
    """Return a client that runs jobs in place, since SQS can't be reached."""
    sqs = MemorySqs(VirtualClock())
    sqs.faults.raise_on("send", ServiceUnavailable("no connection"), times=1000)
    return Client(app, fallback="inline", backend=over(sqs.sync))


def test_the_apps_timeout_bounds_jobs_in_the_harness_and_inline() -> None:
    app = App("shop", timeout=timedelta(milliseconds=10))

    @app.job("hang", retry=_ONCE)
    async def hang(_note: Note) -> None:
        await asyncio.Event().wait()

    jobs = Harness(app)
    with pytest.raises(InlineFailed, match=r"ran past its timeout of 0\.01 s"):
        _client(app).submit(hang, Note())
    jobs.client.submit(hang, Note())
    jobs.drain()
    assert [dead.attributes["ErrorType"] for dead in jobs.dead_letters(hang)] == ["JobTimeout"]
