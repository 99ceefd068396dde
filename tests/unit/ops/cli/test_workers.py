"""``headgate workers``."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from headgate import Client
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.ports.table import Item
from headgate.jobs.records.fleet.worker_status import (
    SILENT_AFTER_S,
    WORKER_STATUSES,
    WorkerStatus,
    status_item,
)
from headgate.jobs.testing import MemorySqs, MemoryTable
from headgate.ops.views.overview.workers import EXIT_NONE
from tests.support.backends import over
from tests.support.command_line import CommandLine, Ended
from tests.support.statuses import JOB, STATUS

APP = "cli_shop:app"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> MemoryTable:
    """The table that the command's client asks, in place of AWS's."""
    table = MemoryTable(SystemClock())
    backend = over(MemorySqs(SystemClock()).sync, table=table.sync)
    monkeypatch.setattr(
        "headgate.jobs.client.client.Client", lambda app: Client(app, backend=backend)
    )
    monkeypatch.syspath_prepend(".")
    return table


def workers(headgate: CommandLine, *options: str) -> Ended:
    return headgate("workers", "list", *options, app=APP)


def status(name: str, *, age_s: float = 0, job_type: str = "send-email") -> WorkerStatus:
    """Return the status of a worker that began three hours before it was written."""
    at = SystemClock().now() - timedelta(seconds=age_s)
    job = replace(JOB, type=job_type, started_at=at - timedelta(seconds=90))
    return replace(
        STATUS,
        name=name,
        seen_at=at,
        started_at=at - timedelta(hours=3),
        running=[job],
        polls={"jobs": STATUS.polls["mail"], "money": STATUS.polls["money"]},
    )


def put(table: MemoryTable, *items: Item) -> None:
    asyncio.run(table.put(items))


def test_each_worker_is_shown_with_what_it_polls_and_runs(
    table: MemoryTable, headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    put(table, status_item(status("host-1-3cc7")), status_item(status("host-2-9a01")))
    ended = workers(headgate)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "host-1-3cc7 │ working │ 3h │  1/50 │     3 │ jobs," in ended.out
    assert "send-email, 1m" in " ".join(ended.out.split())
    assert "2 workers with Headgate 0.1.0 and the app at 4f2a91c" in lines
    assert "2 workers with 50 slots each, of which 5 are for critical jobs alone" in lines
    assert "breaker:type:send-email: open at 2 workers" in lines
    assert "paused: the tenant 'org-1', as 2 workers know" in lines
    assert JOB.id not in ended.out


def test_running_jobs_are_listed_when_asked_for(table: MemoryTable, headgate: CommandLine) -> None:
    put(table, status_item(status("host-1-3cc7")))
    ended = workers(headgate, "--jobs")
    assert ended.code == 0
    assert f"{JOB.id} │ send-email │       2 │  1m │ host-1-3cc7" in ended.out


@pytest.mark.usefixtures("table")
def test_a_fleet_without_running_jobs_says_so(headgate: CommandLine) -> None:
    assert workers(headgate, "--jobs").out.endswith("no job is running\n")


def test_a_silent_worker_is_named_and_does_not_count_as_alive(
    table: MemoryTable, headgate: CommandLine
) -> None:
    put(table, status_item(status("host-1-3cc7", age_s=SILENT_AFTER_S + 60)))
    ended = workers(headgate)
    assert ended.code == EXIT_NONE
    assert ended.out.splitlines() == [
        "no worker lives",
        "host-1-3cc7 has been silent for 2m",
    ]


def test_a_script_gets_all_that_is_known(table: MemoryTable, headgate: CommandLine) -> None:
    put(table, status_item(status("host-1-3cc7")), Item(pk=WORKER_STATUSES, sk="strange"))
    ended = workers(headgate, "--json")
    assert ended.code == 0
    assert ended.err == "headgate: skipped items: 1, which no worker of this version wrote\n"
    found = json.loads(ended.out)
    assert (found["silent"], found["skipped"], found["complete"]) == ([], 1, True)
    [worker] = found["workers"]
    assert list(worker) == [
        *("name", "state", "started_at", "seen_at", "version", "app_version", "polls", "slots"),
        *("busy", "waiting", "running", "limits", "pauses", "tenants", "failed", "reserved"),
    ]
    assert worker["polls"] == {"jobs": ["critical", "high", "normal", "low"], "money": ["critical"]}
    [job] = worker["running"]
    assert list(job) == ["id", "type", "queue", "priority", "attempt", "started_at"]


def test_a_strange_name_does_nothing_to_the_terminal(
    table: MemoryTable, headgate: CommandLine
) -> None:
    put(table, status_item(status("\x1b[2J", job_type="\u202e[red]")))
    ended = workers(headgate, "--jobs")
    assert "\x1b" not in ended.out
    assert "\u202e" not in ended.out
    assert r"\x1b[2J" in ended.out
    assert r"\u202e[red]" in ended.out
