"""A `sys.exit` in a task beside the main one, in the event loops that a worker may have."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headgate import App
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import JobCompleted, JobFailed
from headgate.jobs.execution.exits import run_through
from headgate.workers.configuration import WorkerSettings
from headgate.workers.process import entry
from headgate.workers.process.event_loop import loop_factory
from headgate.workers.process.exit_codes import EXIT_CLEAN
from headgate.workers.shutdown import Report
from tests.unit.workers.rig import Note, Rig, one_lane

Factory = Callable[[], asyncio.AbstractEventLoop] | None

FACTORIES = [None, loop_factory()]

both_loops = pytest.mark.parametrize("factory", FACTORIES, ids=["asyncio", "installed"])


class Pool:
    """A resource."""


async def exits(code: int = 0) -> None:
    sys.exit(code)


async def beside_this(code: int = 0) -> None:
    """Begin a task that exits, and wait for it."""
    task = asyncio.create_task(exits(code))
    await asyncio.wait([task])
    assert isinstance(task.exception(), SystemExit)


@both_loops
def test_a_handler_that_exits_in_a_task_has_failed_and_its_worker_goes_on(
    factory: Factory, caplog: pytest.LogCaptureFixture
) -> None:
    app, queue = one_lane()

    @queue.job("import")
    async def import_file(note: Note) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(exits() if note.text == "exits" else asyncio.sleep(0))

    async def main() -> Rig:
        rig = Rig(app, clock=SystemClock())
        worker = rig.worker(concurrency=1)
        working = asyncio.create_task(worker.run())
        await rig.submit(import_file, "exits", max_attempts=1)
        await rig.happens(JobFailed)
        await rig.submit(import_file, "after it")
        await rig.happens(JobCompleted)
        worker.stop()
        await working
        return rig

    with asyncio.Runner(loop_factory=factory) as runner:
        rig = run_through(runner, main())
    assert [failed.error_type for failed in rig.heard(JobFailed)] == ["SystemExit"]
    assert "sys.exit(0) in a task" in caplog.text


@both_loops
def test_an_exit_in_a_task_does_not_end_a_workers_process(
    factory: Factory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(*_args: Any, **_settings: Any) -> Report:
        await beside_this()
        return Report()

    monkeypatch.setattr(entry, "work", work)
    monkeypatch.setattr(entry, "loop_factory", lambda: factory)
    with caplog.at_level(logging.INFO, "headgate.worker"):
        assert entry.run(App("shop"), WorkerSettings()) == EXIT_CLEAN
    assert "everything was finished" in caplog.text


@both_loops
def test_a_resource_that_exits_as_it_opens_ends_its_worker(factory: Factory) -> None:
    app, _ = one_lane()

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        await exits(3)
        yield Pool()

    async def main() -> None:
        await Rig(app, clock=SystemClock()).worker().run()

    with asyncio.Runner(loop_factory=factory) as runner, pytest.raises(SystemExit) as ended:
        run_through(runner, main())
    assert ended.value.code == 3


@both_loops
def test_any_number_of_exits_ends_nothing(factory: Factory) -> None:
    async def main() -> str:
        for code in range(3):
            await beside_this(code)
        return "its result"

    with asyncio.Runner(loop_factory=factory) as runner:
        assert run_through(runner, main()) == "its result"


@both_loops
def test_the_main_task_may_exit_itself_before_and_after_others(factory: Factory) -> None:
    async def main(others: int) -> None:
        for _ in range(others):
            await beside_this()
        sys.exit(7)

    for others in range(3):
        with asyncio.Runner(loop_factory=factory) as runner, pytest.raises(SystemExit) as ended:
            run_through(runner, main(others))
        assert ended.value.code == 7


def test_an_error_after_an_exit_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        await beside_this()
        raise LookupError("the worker failed")

    with asyncio.Runner() as runner, pytest.raises(LookupError, match="the worker failed"):
        run_through(runner, main())
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
