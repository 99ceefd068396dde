"""The event loop of a worker's process: uvloop's where it is installed."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from headgate import App
from headgate.workers.configuration import WorkerSettings
from headgate.workers.process import entry
from headgate.workers.shutdown import Report


@pytest.mark.parametrize("installed", [True, False])
def test_a_worker_runs_in_uvloop_s_event_loop_where_that_is_installed(
    monkeypatch: pytest.MonkeyPatch, *, installed: bool
) -> None:
    if installed:
        pytest.importorskip("uvloop", reason="uvloop has no release for Windows")
    else:
        monkeypatch.setitem(sys.modules, "uvloop", None)  # an import of it fails
    loops: list[str] = []

    async def work(*_args: Any, **_settings: Any) -> Report:
        loops.append(type(asyncio.get_running_loop()).__module__.partition(".")[0])
        return Report()

    monkeypatch.setattr(entry, "work", work)
    assert entry.run(App("shop"), WorkerSettings()) == 0
    assert loops == ["uvloop" if installed else "asyncio"]
