"""A directory with an app in it, in which the commands are run."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import App, Client
from headgate.jobs.core.ports.table import Table
from headgate.jobs.testing import MemorySqs, MemoryTable, VirtualClock
from tests.support.backends import over
from tests.support.command_line import CommandLine
from tests.support.story import START

APP = """
from pydantic import BaseModel
from headgate import App

class Email(BaseModel):
    to: str

app = App("shop", stage="test", records="outcomes")
silent = App("shop", stage="test", records="failures")

@app.job("send-email")
def send_email(email: Email) -> int: ...

@app.job("nightly")
def nightly() -> None: ...

@silent.job("send-email")
def send_silently(email: Email) -> int: ...
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory; the process is restored afterwards."""
    (tmp_path / "cli_shop.py").write_text(textwrap.dedent(APP))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in [name for name in os.environ if name.startswith("HEADGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("COLUMNS", raising=False)  # which pytest-xdist sets
    yield tmp_path
    os.environ.pop("HEADGATE_EXISTING", None)  # which a command leaves to its child processes
    sys.modules.pop("cli_shop", None)


@pytest.fixture
def headgate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command itself."""
    return CommandLine(monkeypatch, capsys)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """The table that the commands read in place of AWS's; time passes only as they sleep."""
    clock = VirtualClock(START)
    sqs, table = MemorySqs(clock), MemoryTable(clock).sync

    def client(app: App) -> Client:
        sqs.provision(app.topology)
        return Client(app, backend=over(sqs.sync, table=table, clock=clock, sleep=clock.advance))

    monkeypatch.setattr("headgate.jobs.client.client.Client", client)
    return table
