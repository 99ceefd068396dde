"""Threads of the event loop that run on when their worker's process ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import pytest

from headgate import App
from headgate.jobs.core.backend import AsyncBackend
from headgate.jobs.core.clock import SystemClock
from headgate.workers.configuration import WorkerSettings
from headgate.workers.process import entry
from headgate.workers.process.event_loop import loop_factory
from headgate.workers.process.exit_codes import EXIT_CLEAN, EXIT_UNFINISHED
from headgate.workers.process.loop_threads import LoopThreads
from headgate.workers.shutdown import Report
from tests.support.backends import async_over
from tests.unit.workers.rig import Note, Rig

Call = Callable[[Callable[[], object]], asyncio.Future[Any]]

BY_HANDLERS: dict[str, Call] = {
    "to_thread": lambda function: asyncio.ensure_future(asyncio.to_thread(function)),
    "run_in_executor": lambda f: asyncio.get_running_loop().run_in_executor(None, f),
}


class Download:
    """A function that blocks its thread until the test ends."""

    def __init__(self) -> None:
        self.begun, self.release = threading.Event(), threading.Event()

    def fetch(self) -> None:
        self.begun.set()
        self.release.wait()


@pytest.fixture
def download() -> Iterator[Download]:
    download = Download()
    yield download
    download.release.set()


@pytest.mark.parametrize("factory", [None, loop_factory()], ids=["asyncio", "installed"])
@pytest.mark.parametrize("way", BY_HANDLERS)
def test_a_thread_of_a_handler_that_was_cancelled_does_not_keep_the_process(
    way: str,
    factory: Callable[[], asyncio.AbstractEventLoop] | None,
    download: Download,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(*_args: Any, **_settings: Any) -> Report:
        handler = BY_HANDLERS[way](download.fetch)
        await asyncio.sleep(0)
        download.begun.wait()
        handler.cancel()
        await asyncio.wait([handler])
        return Report()

    def exit_at_once(code: int) -> NoReturn:
        download.release.set()  # this process goes on
        raise SystemExit(code)

    monkeypatch.setattr(entry, "work", work)
    monkeypatch.setattr(entry, "exit_at_once", exit_at_once)
    monkeypatch.setattr(entry, "loop_factory", lambda: factory)
    monkeypatch.setattr(entry, "_THREADS_S", 0.01)
    with pytest.raises(SystemExit) as ended:
        entry.run(App("shop"), WorkerSettings())
    assert ended.value.code == EXIT_UNFINISHED
    assert "threads still running: Download.fetch" in caplog.text


def test_a_thread_that_a_handler_left_running_has_what_is_left_of_the_drain(
    download: Download, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("shop")

    @app.job("archive")
    async def archive(_note: Note) -> None:
        _ = asyncio.get_running_loop().run_in_executor(None, download.fetch)

    rig = Rig(app, clock=SystemClock())

    @asynccontextmanager
    async def backend(*_args: Any, **_settings: Any) -> AsyncIterator[AsyncBackend]:
        await rig.submit(archive)
        yield async_over(rig.sqs)

    wait = LoopThreads.finish

    async def finish(threads: LoopThreads, *, within_s: float, hurry: asyncio.Event) -> None:
        asyncio.get_running_loop().call_soon(download.release.set)  # it ends after the worker
        await wait(threads, within_s=within_s, hurry=hurry)

    async def main() -> tuple[str, ...]:
        threads = LoopThreads.of_running_loop()
        working = asyncio.create_task(entry.work(app, WorkerSettings(), threads=threads))
        await asyncio.to_thread(download.begun.wait)
        os.kill(os.getpid(), signal.SIGTERM)
        await working
        left = threads.left_running(after_s=0)
        download.release.set()
        return left

    monkeypatch.setattr(LoopThreads, "finish", finish)
    monkeypatch.setattr(entry, "AsyncAwsBackend", backend)
    with asyncio.Runner() as runner:
        assert runner.run(main()) == ()


@pytest.mark.parametrize("is_hurried", [False, True])
def test_a_thread_is_waited_for_within_the_drain_and_not_in_a_hurry(
    is_hurried: bool, download: Download
) -> None:
    async def main() -> float:
        threads, hurry = LoopThreads.of_running_loop(), asyncio.Event()
        call = asyncio.get_running_loop().run_in_executor(None, download.fetch)
        began_at = time.monotonic()
        if is_hurried:
            hurry.set()
        await threads.finish(within_s=60 if is_hurried else 0.1, hurry=hurry)
        took_s = time.monotonic() - began_at
        download.release.set()
        await call
        return took_s

    assert asyncio.run(main()) < 30


def test_a_thread_that_ends_leaves_a_clean_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(*_args: Any, **_settings: Any) -> Report:
        await asyncio.to_thread(threading.get_ident)
        return Report()

    monkeypatch.setattr(entry, "work", work)
    with caplog.at_level(logging.INFO, "headgate.worker"):
        assert entry.run(App("shop"), WorkerSettings()) == EXIT_CLEAN
    assert "everything was finished" in caplog.text


def test_what_no_thread_has_begun_never_begins_and_is_not_waited_for(download: Download) -> None:
    async def main() -> tuple[tuple[str, ...], bool]:
        threads = LoopThreads.of_running_loop()
        calls = [asyncio.create_task(asyncio.to_thread(download.fetch)) for _ in range(100)]
        await asyncio.sleep(0)
        download.begun.wait()
        left = threads.left_running(after_s=0)
        download.release.set()
        await asyncio.wait(calls)
        return left, threads.busy

    left, is_busy = asyncio.run(main())
    assert not is_busy
    assert 0 < len(left) < 100
    assert set(left) == {"Download.fetch"}
