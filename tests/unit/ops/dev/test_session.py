"""One run of `headgate dev`, with processes of the app that only seem to run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from headgate.ops.dev import session
from headgate.ops.dev.options import DevOptions

READY = {"app": "shop", "provisioned": "", "types": [], "schedules": {}}
LINE = json.dumps({"logger": "headgate.dev", "level": "INFO", "message": "ready", **READY})


class Processes:
    """Stand-ins for the processes of an app, in the order of their start."""

    def __init__(self) -> None:
        self.started: list[Process] = []
        self.two_started = asyncio.Event()
        self.two_ran = asyncio.Event()

    def __call__(self, _path: str, *, hear: Callable[[str], None], **_others: Any) -> Process:
        return Process(self, hear)

    def note(self) -> None:
        if len(self.started) == 2:
            self.two_started.set()
        if sum(each.has_run for each in self.started) == 2:
            self.two_ran.set()


class Process:
    """A stand-in for `headgate.ops.dev.app_process.AppProcess`."""

    def __init__(self, processes: Processes, hear: Callable[[str], None]) -> None:
        self._processes = processes
        self._hear = hear
        self.has_run = False
        self.ended = asyncio.Event()

    @property
    def has_ended(self) -> bool:
        return self.ended.is_set()

    async def start(self) -> None:
        self._processes.started.append(self)
        self._processes.note()

    def run(self, _provisioned: str) -> None:
        self.has_run = True
        self._processes.note()
        if not self.has_ended:
            self._hear(LINE)

    async def wait(self) -> int:
        await self.ended.wait()
        return -9

    async def stop(self, _within_s: float) -> None:
        self.ended.set()


async def test_no_edit_is_given_to_a_spare_process_that_has_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processes = Processes()

    async def watch(
        *_folders: object, stop_event: asyncio.Event, **_others: object
    ) -> AsyncIterator[set[tuple[int, str]]]:
        await processes.two_started.wait()
        processes.started[1].ended.set()
        yield {(1, "app.py")}
        await processes.two_ran.wait()
        stop_event.set()

    monkeypatch.setattr(session, "AppProcess", processes)
    monkeypatch.setattr(session, "awatch", watch)
    written = StringIO()
    options = DevOptions(app="shop.app:app", endpoint_url="http://aws.example", console=False)
    await session.run(options, Console(file=written), None)
    assert [each.has_run for each in processes.started[:3]] == [True, False, True]
    assert all(each.has_ended for each in processes.started)
    assert "ended with exit code" not in written.getvalue()
