"""Resources that take long, or hang: a stop ends a worker in time whatever they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from headgate import App
from headgate.jobs.core.events import JobCompleted
from headgate.workers.lifespan import CLOSE_S
from headgate.workers.shutdown import Report
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads

_DRAIN_S = 22.0


class Pool:
    """Stands for a database pool."""


class Http:
    """Stands for an HTTP client, opened after the pool and closed before it."""


async def _at_once() -> None: ...


async def _never() -> None:
    await asyncio.Event().wait()


class Shop:
    """An app with two resources that do what a test says, and a worker of it."""

    def __init__(
        self,
        *,
        opens: Callable[[], Awaitable[Any]] = _at_once,
        closes: Callable[[], Awaitable[Any]] = _at_once,
        closes_last: Callable[[], Awaitable[Any]] = _at_once,
    ) -> None:
        self.told: list[str] = []
        app = App("shop")

        @app.resource
        async def database() -> AsyncIterator[Pool]:
            self.told.append("open pool")
            try:
                yield Pool()
            finally:
                await closes_last()
                self.told.append("closed pool")

        @app.resource
        async def http(_pool: Pool) -> AsyncIterator[Http]:
            await opens()
            self.told.append("open http")
            yield Http()
            await closes()
            self.told.append("closed http")

        @app.job("work")
        async def work(_note: Note, _http: Http) -> None: ...

        self.work = work
        self.rig = Rig(app)
        self.worker = self.rig.worker(drain=timedelta(seconds=_DRAIN_S))
        self.run = asyncio.create_task(self.worker.run())

    async def works(self) -> None:
        """Wait until a job has been run, and no receive is under way for long."""
        await self.rig.submit(self.work)
        await self.rig.happens(JobCompleted)

    async def ends(self) -> tuple[Report, float]:
        """Return the worker's report, and the seconds until it came."""
        began = self.rig.clock.monotonic()
        report = await self.run
        await asyncio.sleep(0)
        return report, self.rig.clock.monotonic() - began


async def test_a_stop_while_a_resource_opens_ends_the_worker_at_once() -> None:
    shop = Shop(opens=lambda: asyncio.sleep(25))
    await asyncio.sleep(4)
    shop.worker.stop()
    report, took_s = await shop.ends()
    assert took_s < 0.01
    assert report.clean
    assert shop.told == ["open pool", "closed pool"]
    assert shop.rig.calls("receive") == 0


async def test_a_cancelled_worker_opens_no_more_resources() -> None:
    shop = Shop(opens=_never)
    await asyncio.sleep(4)
    shop.run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await shop.run
    assert shop.told == ["open pool", "closed pool"]


async def test_an_error_of_a_cancelled_opening_is_logged_and_no_fault_of_a_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails() -> None:
        try:
            await _never()
        except asyncio.CancelledError:
            raise ConnectionError("the pool was closed while it connected") from None

    shop = Shop(opens=fails)
    await asyncio.sleep(4)
    shop.worker.stop()
    report, took_s = await shop.ends()
    assert report.clean
    assert took_s < 0.01
    assert "the pool was closed while it connected" in caplog.text


async def test_an_opening_that_ignores_its_cancellation_starts_no_work() -> None:
    async def deaf() -> None:
        try:
            await _never()
        except asyncio.CancelledError:
            await asyncio.sleep(2)

    shop = Shop(opens=deaf)
    await asyncio.sleep(4)
    shop.worker.stop()
    report, took_s = await shop.ends()
    assert took_s == pytest.approx(2)
    assert report.clean
    assert shop.told == ["open pool", "open http", "closed http", "closed pool"]
    assert shop.rig.calls("receive") == 0


async def test_a_resource_may_take_the_rest_of_the_drain_to_close() -> None:
    shop = Shop(closes=lambda: asyncio.sleep(_DRAIN_S - 0.5))
    await shop.works()
    shop.worker.stop()
    report, _ = await shop.ends()
    assert report.clean
    assert shop.told == ["open pool", "open http", "closed http", "closed pool"]


async def test_resources_that_do_not_close_are_cut_short_one_by_one_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shop = Shop(closes=_never, closes_last=_never)
    await shop.works()
    shop.worker.stop()
    report, took_s = await shop.ends()
    assert took_s < _DRAIN_S + CLOSE_S
    assert report.clean
    assert not shop.worker.is_stuck
    assert shop.told == ["open pool", "open http"]
    named = [record.getMessage() for record in caplog.records if "cut short" in record.getMessage()]
    assert [("http" in line, "database" in line) for line in named] == [
        (True, False),
        (False, True),
    ]


async def test_a_second_signal_ends_a_closing_that_hangs_at_once() -> None:
    shop = Shop(closes=_never)
    await shop.works()
    shop.worker.hurry()
    report, took_s = await shop.ends()
    assert took_s < 1
    assert report.unsettled == 0
    assert shop.told == ["open pool", "open http", "closed pool"]


async def test_a_hurry_lets_resources_close_that_do_so_at_once() -> None:
    shop = Shop(closes=lambda: asyncio.sleep(0.01))
    await shop.works()
    shop.worker.hurry()
    await shop.ends()
    assert shop.told == ["open pool", "open http", "closed http", "closed pool"]


async def test_a_resource_that_ignores_its_cancellation_is_left_behind_and_reported() -> None:
    let_go = asyncio.Event()

    async def deaf() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    before = asyncio.all_tasks()
    shop = Shop(closes=deaf)
    await shop.works()
    shop.worker.stop()
    report, took_s = await shop.ends()
    assert took_s < _DRAIN_S + CLOSE_S
    assert "closing the resource" in report.left_open[0]
    assert not report.clean
    assert shop.worker.is_stuck, "so that the process ends without it"
    let_go.set()
    await asyncio.wait(asyncio.all_tasks() - before - {shop.run})


async def test_a_part_that_failed_is_told_though_a_resource_does_not_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails() -> None:
        await asyncio.sleep(1)
        raise RuntimeError("a part failed")

    shop = Shop(closes_last=_never)
    monkeypatch.setattr(shop.worker._parts.heartbeat, "run", fails)
    with pytest.raises(RuntimeError, match="a part failed"):
        await shop.ends()
    assert shop.rig.clock.monotonic() < _DRAIN_S
