"""Commands about what is deployed find ``existing`` of ``cdk.json`` by themselves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from headgate import App, Existing
from headgate.jobs.errors import ConfigurationError
from tests.support.command_line import CommandLine

APP = "cli_shop:app"
THEIRS = {"existing": {"table": "their-jobs"}}
ID = "0196a2b4-0000-7000-8000-000000000001"

OVER_A_CLIENT = [
    ("health",),
    ("audit",),
    ("erase", "--tenant", "org-1"),
    ("submit", "send-email", '{"to": "ada"}'),
    ("shell", "-c", "pass"),
    ("queues", "list"),
    ("queues", "pause", "jobs"),
    ("queues", "resume", "jobs"),
    ("queues", "drain", "jobs"),
    ("jobs", "list"),
    ("jobs", "count"),
    ("jobs", "show", ID),
    ("jobs", "cancel", ID),
    ("jobs", "rerun", ID),
    ("workers", "list"),
    ("dead-letters", "list"),
    ("dead-letters", "count"),
    ("dead-letters", "show", ID),
    ("dead-letters", "replay"),
    ("dead-letters", "replays"),
    ("dead-letters", "copies"),
    ("schedules", "list"),
    ("schedules", "pause", "nightly"),
    ("schedules", "export", "x.jsonl"),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Existing]:
    """Existing resources of each command, which ends where it would ask AWS."""
    monkeypatch.syspath_prepend(".")
    found: list[Existing] = []

    def end(app: App, *_: Any, **__: Any) -> NoReturn:
        found.append(app.existing)
        raise ConfigurationError("this is as far as it goes")

    monkeypatch.setattr("headgate.jobs.client.client.Client", end)
    monkeypatch.setattr("headgate.ops.console.console", end)
    monkeypatch.setattr("headgate.workers.process.entry.run", end)
    monkeypatch.setattr("headgate.workers.logs.configure", lambda **_: None)
    monkeypatch.setattr("headgate.ops.dev.preparing.provision_all", end)
    return found


def write(stages: Any, **common: Any) -> None:
    context = {"headgate:deployment": common, "headgate:stages": stages}
    Path("cdk.json").write_text(json.dumps({"context": context}))


@pytest.mark.parametrize("command", OVER_A_CLIENT, ids=" ".join)
def test_a_command_asks_what_exists_for_its_stage(
    headgate: CommandLine, asked: list[Existing], command: tuple[str, ...]
) -> None:
    write({"test": THEIRS, "prod": {}})
    ended = headgate(*command, app=APP)
    assert (asked, ended.code) == ([Existing(table="their-jobs")], 2), ended.err


@pytest.mark.parametrize(
    "command",
    [
        ("console", "--port", "0"),
        ("worker",),
        ("provision", "--endpoint", "http://127.0.0.1:4566"),
    ],
    ids=" ".join,
)
def test_so_do_the_console_a_worker_and_a_local_aws(
    headgate: CommandLine, asked: list[Existing], command: tuple[str, ...]
) -> None:
    write({"test": THEIRS})
    headgate(*command, app=APP)
    assert asked == [Existing(table="their-jobs")]


def test_child_processes_inherit_it(headgate: CommandLine, asked: list[Existing]) -> None:
    write({"test": THEIRS})
    headgate("worker", app=APP)
    assert asked
    assert os.environ["HEADGATE_EXISTING"] == Existing(table="their-jobs").to_text()


@pytest.mark.usefixtures("asked")
def test_a_command_that_reads_the_stage_itself_takes_no_notice(headgate: CommandLine) -> None:
    standby = {"region": "eu-west-1", "existing": {}}
    stage = {**THEIRS, "region": "eu-central-1", "standby_in": standby, "budget_usd": 20}
    write({"test": {**stage, "alerts_to": ["oncall@example.com"]}})
    ended = headgate("check", app=APP)
    assert ended.code == 0, ended.out + ended.err
    assert "HEADGATE_EXISTING" not in os.environ


def test_the_variable_goes_before_the_file(
    headgate: CommandLine, asked: list[Existing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_EXISTING", Existing(bucket="ours").to_text())
    write({"test": THEIRS})
    headgate("health", app=APP)
    assert asked == [Existing(bucket="ours")]


@pytest.mark.parametrize(
    ("region", "table"), [("eu-west-1", "west"), ("eu-central-1", "their-jobs")]
)
def test_in_the_standby_s_region_it_is_what_exists_there(
    headgate: CommandLine,
    asked: list[Existing],
    monkeypatch: pytest.MonkeyPatch,
    region: str,
    table: str,
) -> None:
    monkeypatch.setenv("AWS_REGION", region)
    standby = {"region": "eu-west-1", "existing": {"table": "west"}}
    write({"test": {**THEIRS, "region": "eu-central-1", "standby_in": standby}})
    headgate("queues", "list", app=APP)
    assert asked == [Existing(table=table)]


@pytest.mark.parametrize(
    "stages", [{"prod": THEIRS}, {"test": {}, "prod": THEIRS}], ids=["undeclared", "silent"]
)
def test_a_stage_of_which_nothing_is_said_has_its_own(
    headgate: CommandLine, asked: list[Existing], stages: Any
) -> None:
    write(stages)
    headgate("queues", "list", app=APP)
    assert asked == [Existing()]


def test_what_all_stages_share_is_each_one_s(headgate: CommandLine, asked: list[Existing]) -> None:
    write({"test": {}}, **THEIRS)
    headgate("queues", "list", app=APP)
    assert asked == [Existing(table="their-jobs")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"existing": ', "cdk.json could not be read"),
        ('{"context": {"headgate:deployment": {"existing": {"tabel": "x"}}}}', "existing.tabel"),
    ],
)
def test_what_can_not_be_read_is_refused(
    headgate: CommandLine, asked: list[Existing], text: str, said: str
) -> None:
    Path("cdk.json").write_text(text)
    ended = headgate("queues", "list", app=APP)
    assert (asked, ended.code) == ([], 2)
    assert said in ended.err


def test_a_file_that_says_nothing_of_it_is_not_even_parsed(
    headgate: CommandLine, asked: list[Existing]
) -> None:
    Path("cdk.json").write_text("{")
    headgate("queues", "list", app=APP)
    assert asked == [Existing()]


def test_two_places_that_name_different_ones_are_refused(
    headgate: CommandLine, asked: list[Existing]
) -> None:
    Path("cli_named.py").write_text(
        "from headgate import App, Existing\n"
        "app = App('shop', stage='test', existing=Existing(table='ours'))\n"
        "app.define('nightly', None)\n"
    )
    write({"test": THEIRS})
    ended = headgate("queues", "list", app="cli_named:app")
    assert (asked, ended.code) == ([], 2)
    assert "name them in one place" in ended.err
