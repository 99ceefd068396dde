"""The process of `headgate dev` that runs the app."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate import App
from headgate.ops.dev import child
from headgate.ops.dev.preparing import Prepared
from headgate.workers.process.supervisor_link import VARIABLE, Leash, left_for
from tests.support.loggers import restored

ROOT = Path(__file__).parents[4]

_CHILD = """
import sys
from headgate.testing import Harness
from headgate.ops.dev import child, preparing, services
from headgate.workers.process import entry
from headgate.jobs.core.event_log import log_event

def run(app, settings, **others):
    jobs = Harness(app)
    app.define("greet", None).handler(lambda: None)
    jobs.client.submit(app.types["greet"])
    jobs.drain()
    for event in jobs.events:
        if event.name in ("job.started", "job.completed"):
            log_event(event)
    return 0

preparing.provision_all = lambda app: None
services.start = lambda app: None
entry.run = run
sys.exit(child.main(["app_with_logs:app", sys.argv[1], ""]) % 2)
"""
"""A process of `headgate dev` without AWS, which runs one job."""

SOUND = "from headgate import App; app = App('shop')"
NAMED = {"level": "ERROR", "propagate": False}


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Restore the loggers that the process sets for itself."""
    with restored(), restored("headgate.worker"):
        yield


@pytest.fixture
def to_parent() -> Iterator[str]:
    """Yield the descriptor that the process writes its lines to."""
    read, write = os.pipe()
    yield str(write)
    os.close(write)
    os.close(read)


def test_the_environment_no_longer_changes_once_threads_run_beside_the_worker(
    monkeypatch: pytest.MonkeyPatch, to_parent: str
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

    assert child.main(["shop.app:app", to_parent, ""]) == 0
    assert had_it == [False]
    [leash] = leashes
    leash.connection.close()
    parents.close()


@pytest.mark.parametrize(
    ("module", "named", "disable"),
    [
        ("import this_app_is_broken", {}, True),
        (SOUND, {}, True),
        (SOUND, {}, False),
        (SOUND, {"headgate": NAMED}, True),
        (SOUND, {"headgate.worker": NAMED}, False),
    ],
    ids=["broken", "root", "root, not disabled", "headgate", "headgate.worker"],
)
def test_the_lines_reach_the_parent_whatever_logs_the_app_configures(
    module: str, named: dict[str, Any], disable: bool, tmp_path: Path
) -> None:
    config = {"version": 1, "disable_existing_loggers": disable, "loggers": named}
    config["root"] = {"level": "DEBUG", "handlers": []}
    (tmp_path / "app_with_logs.py").write_text(
        f"import logging.config\nlogging.config.dictConfig({config!r})\n"
        f"print('no line', end='', file=__import__('sys').stderr)\n{module.strip()}\n"
    )
    read, write = os.pipe()
    with os.fdopen(read) as lines:
        subprocess.run(
            [sys.executable, "-c", _CHILD, str(write)],
            input="\n",
            text=True,
            pass_fds=(write,),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))},
            check=True,
        )
        os.close(write)
        heard = [json.loads(line) for line in lines]
    wanted = ["broken"] if "broken" in module else ["ready", "job.started", "job.completed"]
    assert [each["message"] for each in heard] == wanted
