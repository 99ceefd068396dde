"""``headgate audit``."""

from __future__ import annotations

import json

import pytest

from headgate import App, Client, acting_as
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.ports.table import Item
from headgate.jobs.errors import AccessDenied
from headgate.jobs.records.audit.entry import AUDIT
from headgate.jobs.testing import MemorySqs, MemoryTable
from headgate.ops.views.overview.audit import EXIT_NONE
from tests.support.backends import over
from tests.support.command_line import CommandLine, Ended

APP = "cli_shop:app"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> MemoryTable:
    """The table that the command's client asks, in place of AWS's."""
    sqs, table = MemorySqs(SystemClock()), MemoryTable(SystemClock())
    backend = over(sqs.sync, table=table.sync)

    def client(app: App) -> Client:
        sqs.provision(app.topology)
        return Client(app, backend=backend)

    monkeypatch.setattr("headgate.jobs.client.client.Client", client)
    monkeypatch.syspath_prepend(".")
    return table


def audit(headgate: CommandLine, *options: str) -> Ended:
    return headgate("audit", *options, app=APP)


def paused(headgate: CommandLine, *tenants: str, actor: str = "ada") -> None:
    for each in tenants:
        with acting_as(actor):
            headgate("queues", "pause", "--tenant", each, "--reason", "a flood", app=APP)


@pytest.mark.usefixtures("table")
def test_entries_are_shown_with_who_what_and_why(headgate: CommandLine) -> None:
    paused(headgate, "org-1")
    headgate("queues", "resume", "--tenant", "org-1", app=APP)
    ended = audit(headgate, "--since", "1h")
    assert (ended.code, ended.err) == (0, "")
    resumed, pause, why = ended.out.splitlines()
    assert resumed.endswith(": resume tenant org-1: done")
    assert "@" in resumed  # the process's user, since nobody else is named
    assert pause.endswith("  ada: pause tenant org-1: done")
    assert why.startswith("    until ")
    assert why.endswith("; because: a flood")


@pytest.mark.usefixtures("table")
def test_the_environment_names_the_actor(
    headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_ACTOR", "on call")
    headgate("queues", "pause", "jobs", app=APP)
    [entry] = json.loads(audit(headgate, "--json").out)["entries"]
    assert (entry["actor"], entry["action"], entry["outcome"]) == ("on call", "pause", "done")
    assert entry["target"] == {"kind": "queue", "name": "jobs"}


@pytest.mark.usefixtures("table")
def test_options_choose_and_pages_follow(headgate: CommandLine) -> None:
    paused(headgate, "org-1", "org-2", "org-3")
    paused(headgate, "org-4", actor="bob")
    first = audit(headgate, "--actor", "ADA", "--limit", "2")
    assert [line.split(": ")[1] for line in first.out.splitlines()[:-1:2]] == [
        "pause tenant org-3",
        "pause tenant org-2",
    ]
    after = first.out.splitlines()[-1].removeprefix("There may be more: --after ")
    rest = json.loads(audit(headgate, "--actor", "ADA", "--after", after, "--json").out)
    assert [each["target"]["name"] for each in rest["entries"]] == ["org-1"]
    assert (rest["next"], rest["skipped"]) == ("", 0)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("options", [[], ["--action", "purge"], ["--json"]])
def test_nothing_of_the_kind_is_an_exit_code(headgate: CommandLine, options: list[str]) -> None:
    assert audit(headgate, *options).code == EXIT_NONE


def test_what_can_not_be_read_is_left_out_and_said(
    headgate: CommandLine, table: MemoryTable
) -> None:
    paused(headgate, "org-1")
    table.sync.put([Item(pk=AUDIT, sk="strange", data={"actor": "\x1b[2J"})])
    ended = audit(headgate)
    assert ended.code == 0
    assert "1 items of the audit can't be read" in ended.out
    assert "\x1b" not in ended.out


@pytest.mark.usefixtures("table")
def test_an_open_action_and_a_failed_one_are_told_apart(
    headgate: CommandLine, table: MemoryTable
) -> None:
    paused(headgate, "org-1")
    [_, outcome] = table.sync.query(AUDIT)
    table.sync.delete([(outcome.pk, outcome.sk)])
    assert "pause tenant org-1: no outcome is known" in audit(headgate).out
    missing = "0196a2b4-0000-7000-8000-000000000001"
    assert headgate("jobs", "rerun", missing, app=APP).code == 2
    assert f"rerun job {missing}: failed (JobNotEnded)" in audit(headgate).out


def test_a_role_that_may_not_write_the_audit_changes_nothing(
    headgate: CommandLine, table: MemoryTable
) -> None:
    table.faults.raise_on("replace", AccessDenied("dynamodb:PutItem is denied"))
    ended = headgate("queues", "pause", "jobs", app=APP)
    assert ended.code == 1
    assert "nothing was done, since the audit could not be written" in ended.err
    assert "dynamodb:PutItem is denied" in ended.err
    assert audit(headgate).code == EXIT_NONE


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("options", [["--since", "soon"], ["--limit", "0"], ["--after", "x!"]])
def test_options_that_can_not_be_are_refused(headgate: CommandLine, options: list[str]) -> None:
    assert audit(headgate, *options).code == 2
