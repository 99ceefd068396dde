"""``headgate shell``."""

from __future__ import annotations

import io
import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from headgate import App, Client
from headgate.ops.shell import introduction, names_of
from headgate.testing import Harness
from tests.support.command_line import CommandLine

APP = "cli_shop:app"


class Lock(BaseModel):
    door: int


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    """A user without IPython, whose files are the test's."""
    monkeypatch.syspath_prepend(".")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    monkeypatch.setitem(sys.modules, "readline", None)
    monkeypatch.setattr("headgate.ops.shell.importlib.util.find_spec", lambda _name: None)


def test_a_command_runs_with_the_client_the_types_and_their_payloads(headgate: CommandLine) -> None:
    code = "print(app.name, type(client).__name__, send_email.name, Email(to='Ada').to)"
    ended = headgate("shell", APP, "-c", code)
    assert (ended.code, ended.out) == (0, "shop Client send-email Ada\n")


def test_a_session_says_what_is_at_hand_and_ends_with_its_input(
    headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("print(nightly.name.upper())\n"))
    ended = headgate("shell", app=APP)
    assert (ended.code, ended.out.strip().removeprefix(">>> ").split()[0]) == (0, "NIGHTLY")
    assert "shop on AWS: app, client, timedelta, send_email, nightly, Email" in ended.err


def test_a_session_keeps_its_history_or_says_why_not(
    headgate: CommandLine, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    (cache := here / "cache").touch()  # a file in the way of the folder
    at_end: list[tuple[Any, ...]] = []
    kept: list[Path] = []
    lines = ModuleType("readline")
    for name in ("set_completer", "parse_and_bind", "set_history_length"):
        setattr(lines, name, lambda _value: None)
    vars(lines)["write_history_file"] = kept.append
    monkeypatch.setitem(sys.modules, "readline", lines)
    monkeypatch.setattr("atexit.register", lambda *call: at_end.append(call))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    ended = headgate("shell", app=APP)
    assert ended.code == 0
    assert "this session keeps no history: " in ended.out
    assert str(cache) in ended.out
    assert not [call for call in at_end if len(call) > 1]
    cache.unlink()
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert "history" not in headgate("shell", app=APP).out
    [(write, path)] = [call for call in at_end if len(call) > 1]
    write(path)
    assert kept == [cache / "headgate" / "shell_history"]


def test_an_error_ends_it_with_its_traceback(headgate: CommandLine) -> None:
    ended = headgate("shell", APP, "-c", "1 / 0")
    assert ended.code == 1
    assert "ZeroDivisionError" in ended.err


def test_no_type_takes_the_name_of_another_thing() -> None:
    app = App("shop")
    for name in ("client", "class", "send-email"):
        app.define(name, None)
    jobs = Harness(app)
    names = names_of(app, jobs.client)
    assert list(names) == ["app", "client", "timedelta", "client_", "class_", "send_email"]
    assert (names["app"], names["client"], names["timedelta"]) == (app, jobs.client, timedelta)
    assert isinstance(names["client"], Client)


def test_an_annotated_payloads_type_is_there_by_its_name() -> None:
    app = App("shop")

    @app.job("hold")
    async def hold(_lock: Annotated[Lock, Field(description="not hashable"), []]) -> None: ...

    assert names_of(app, Harness(app).client)["Lock"] is Lock


def test_the_place_that_it_reaches_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    assert introduction(App("shop"), {"app": 1}) == "shop on http://127.0.0.1:4566: app"
