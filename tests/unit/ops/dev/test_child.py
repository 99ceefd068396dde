"""The process of `headgate dev` that runs the app."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from headgate import App
from headgate.ops.dev import child
from headgate.ops.dev.preparing import Prepared
from headgate.workers.process.supervisor_link import VARIABLE, Leash, left_for
from tests.support.loggers import restored


@pytest.fixture
def worker_s_logger() -> Iterator[None]:
    """Restore the level of the worker's logger, which the process sets for itself."""
    with restored("headgate.worker"):
        yield


@pytest.mark.usefixtures("worker_s_logger")
def test_the_environment_no_longer_changes_once_threads_run_beside_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parents, childs = socket.socketpair()
    for name, value in left_for(childs.detach(), 1).items():
        monkeypatch.setenv(name, value)
    had_it: list[bool] = []
    leashes: list[Leash] = []

    def run(_app: App, _settings: object, *, leash: Leash, **_others: Any) -> int:
        leashes.append(leash)
        return 0

    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    monkeypatch.setattr(child, "end_on_signals", lambda **_options: None)
    monkeypatch.setattr("headgate.workers.logs.configure", lambda **_options: None)
    monkeypatch.setattr(
        "headgate.ops.dev.preparing.prepared",
        lambda _path, _provisioned: Prepared(app=App("shop"), provisioned=""),
    )
    monkeypatch.setattr(
        "headgate.ops.dev.services.start", lambda _app: had_it.append(VARIABLE in os.environ)
    )
    monkeypatch.setattr("headgate.workers.process.entry.run", run)

    assert child.main(["shop.app:app", ""]) == 0
    assert had_it == [False]
    [leash] = leashes
    leash.connection.close()
    parents.close()
