"""``headgate schedules``."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import headgate.ops.cli
from headgate import App, Client, Schedule, cron, load_app
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.errors import ScheduleGroupMissing
from headgate.jobs.messages.envelope import parse
from headgate.jobs.testing import MemoryScheduler, MemorySqs
from headgate.ops.cli import main

APP = """
from pydantic import BaseModel
from headgate import App

class Email(BaseModel):
    to: str

app = App("shop", stage="test")

@app.job("send-email")
def send_email(email: Email) -> None: ...
"""
NIGHTLY = cron("0 2 * * ? *", timezone="Europe/Berlin")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A working directory with an app in it; the process is restored afterwards."""
    (tmp_path / "cli_schedules_shop.py").write_text(textwrap.dedent(APP))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in [name for name in os.environ if name.startswith("HEADGATE_")]:
        monkeypatch.delenv(name)
    yield
    sys.modules.pop("cli_schedules_shop", None)


class Shop:
    """The commands, on an in-memory app."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.scheduler = MemoryScheduler(SystemClock())
        self.sqs = MemorySqs(SystemClock())
        self._patch = monkeypatch
        self._capsys = capsys
        monkeypatch.setattr(headgate.ops.cli, "Client", self._client)
        monkeypatch.setenv("COLUMNS", "200")

    def _client(self, app: App) -> Client:
        self.sqs.provision(app.topology)
        return Client(app, transport=self.sqs.blocking, scheduler=self.scheduler.blocking)

    def create(self, name: str, when: Schedule = NIGHTLY) -> None:
        app = load_app("cli_schedules_shop:app")
        email = sys.modules["cli_schedules_shop"].Email(to="ada")
        self._client(app).schedules.create(name, app.find_type("send-email"), email, schedule=when)

    def run(self, *words: str, app: str | None = "cli_schedules_shop:app") -> tuple[int, str, str]:
        """Run a command; return exit code, standard output and standard error."""
        arguments = ["headgate", "schedules", *([app] if app else []), *words]
        self._patch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as ended:
            main()
        captured = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, captured.out, captured.err


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shop:
    return Shop(monkeypatch, capsys)


def test_ls_shows_each_schedule_with_its_times_and_its_state(shop: Shop) -> None:
    shop.create("nightly")
    shop.create("often", Schedule.rate(timedelta(hours=1)))
    shop.run("pause", "often")
    code, out, _ = shop.run("ls")
    assert code == 0
    [nightly] = [line for line in out.splitlines() if "nightly" in line]
    assert "send-email" in nightly
    assert "cron(0 2 * * ? *)" in nightly
    assert "Europe/Berlin" in nightly
    [often] = [line for line in out.splitlines() if "often" in line]
    assert "paused" in often


def test_ls_as_json_can_be_read_by_a_machine(shop: Shop) -> None:
    shop.create("nightly")
    code, out, _ = shop.run("ls", "--json")
    [nightly] = json.loads(out)
    assert code == 0
    assert nightly["name"] == "nightly"
    assert nightly["job_type"] == "send-email"
    assert nightly["expression"] == "cron(0 2 * * ? *)"
    assert nightly["enabled"] is True
    assert nightly["declared"] is False
    assert datetime.fromisoformat(nightly["next"][0]).minute == 0


def test_ls_of_one_shows_that_one_alone(shop: Shop) -> None:
    shop.create("nightly")
    shop.create("other")
    _, out, _ = shop.run("ls", "other", "--json")
    assert [each["name"] for each in json.loads(out)] == ["other"]


def test_ls_shows_a_schedule_that_cannot_be_read_beside_the_others(shop: Shop) -> None:
    shop.create("nightly")
    shop.create("odd")
    odd = shop.scheduler.schedules[1]
    shop.scheduler.replace(replace(odd, input="{}"))
    code, out, err = shop.run("ls")
    assert code == 0
    assert "nightly" in out
    [line] = [line for line in out.splitlines() if "odd" in line]
    assert "unreadable" in line
    assert err.startswith("odd can't be read: ")
    _, out, _ = shop.run("ls", "--json")
    nightly, unreadable = json.loads(out)
    assert nightly["job_type"] == "send-email"
    assert (unreadable["name"], unreadable["declared"]) == ("odd", False)
    assert "is not that of a Headgate schedule" in unreadable["unreadable"]
    _, out, err = shop.run("next", "--json")
    assert list(json.loads(out)) == ["nightly"]
    assert err.startswith("odd can't be read: ")


def test_next_shows_so_many_times_of_one_or_of_all(shop: Shop) -> None:
    shop.create("nightly")
    code, out, _ = shop.run("next", "nightly", "--count", "3")
    assert code == 0
    assert len(out.splitlines()) == 3
    assert all(line.endswith(":00 UTC  nightly") for line in out.splitlines())
    _, out, _ = shop.run("next", "--count", "2", "--json")
    assert {name: len(times) for name, times in json.loads(out).items()} == {"nightly": 2}


def test_pause_and_resume_switch_a_schedule(shop: Shop) -> None:
    shop.create("nightly")
    assert shop.run("pause", "nightly")[:2] == (0, "nightly is paused\n")
    assert not shop.scheduler.schedules[0].enabled
    assert shop.run("resume", "nightly")[:2] == (0, "nightly fires again\n")
    assert shop.scheduler.schedules[0].enabled


def test_run_submits_the_job_and_prints_its_id(shop: Shop) -> None:
    shop.create("nightly")
    code, out, _ = shop.run("run", "nightly")
    [message] = shop.sqs.messages("shop-test-jobs-normal")
    assert (code, out) == (0, f"{parse(message.body).id}\n")


def test_the_environment_may_name_the_app(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.create("nightly")
    monkeypatch.setenv("HEADGATE_APP", "cli_schedules_shop:app")
    assert shop.run("pause", "nightly", app=None)[:2] == (0, "nightly is paused\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pause", "nope"], "no schedule 'nope'"),
        (["run", "nope"], "no schedule 'nope'"),
        (["ls", "nope"], "no schedule 'nope'"),
        (["pause"], "say which schedule to pause"),
        (["stop", "nightly"], "say what to do: ls, pause, resume, run, next"),
        ([], "say what to do: ls, pause, resume, run, next"),
    ],
)
def test_a_wrong_command_says_so_and_ends_with_2(shop: Shop, words: list[str], said: str) -> None:
    code, out, err = shop.run(*words)
    assert (code, out) == (2, "")
    assert said in " ".join(err.replace("│", " ").split())


def test_what_another_try_may_mend_ends_with_1(shop: Shop) -> None:
    shop.scheduler.error = ScheduleGroupMissing("shop-test")
    code, out, err = shop.run("ls")
    assert (code, out) == (1, "")
    assert err.startswith("headgate: the schedule group 'shop-test' does not exist")
    assert err.count("\n") == 1
