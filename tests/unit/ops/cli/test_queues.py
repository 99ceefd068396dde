"""``headgate queues``."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from typing import Self

import pytest

from headgate import Client, load_app
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.ports import OutgoingMessage
from headgate.jobs.errors import Throttled
from headgate.jobs.testing import MemorySqs, MemoryTable, VirtualClock
from headgate.ops.views.pauses import EXIT_NOT_PAUSED
from headgate.ops.views.queues import EXIT_MISSING
from tests.support.backends import over
from tests.support.command_line import CommandLine, Ended

APP = "cli_shop:app"


class Opened(MemorySqs):
    """An SQS that is opened and closed like that of AWS."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.fixture
def table() -> MemoryTable:
    """The table that the command's client asks, in place of AWS's."""
    return MemoryTable(SystemClock())


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch, table: MemoryTable) -> Opened:
    """The SQS that the command asks, in place of AWS's."""
    sqs = Opened(VirtualClock())
    monkeypatch.setattr("headgate.jobs.aws.sqs.transport.AsyncSqsTransport", lambda: sqs)
    backend = over(sqs.sync, table=table.sync)
    monkeypatch.setattr(
        "headgate.jobs.client.client.Client", lambda app: Client(app, backend=backend)
    )
    return sqs


@pytest.fixture
def deployed(sqs: Opened, monkeypatch: pytest.MonkeyPatch) -> Opened:
    monkeypatch.syspath_prepend(".")
    sqs.provision(load_app(APP).topology)
    return sqs


def queues(headgate: CommandLine, *options: str) -> Ended:
    return headgate("queues", "list", *options, app=APP)


async def _fill(sqs: MemorySqs) -> None:
    delayed = OutgoingMessage(body="{}", delay_s=60)
    await sqs.send("shop-test-jobs-high", [OutgoingMessage(body="{}")] * 3)
    await sqs.receive("shop-test-jobs-high", limit=1, wait_s=0)
    await sqs.send("shop-test-jobs-low", [delayed])
    await sqs.send("shop-test-jobs-low-dlq", [OutgoingMessage(body="{}"), delayed])
    await sqs.send("shop-test-quarantine", [OutgoingMessage(body="{}")])


def test_each_queue_is_shown_with_its_messages(deployed: Opened, headgate: CommandLine) -> None:
    asyncio.run(_fill(deployed))
    ended = queues(headgate, "--json")
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    by_priority = {each["priority"]: each for each in found["queues"]}
    assert list(by_priority) == ["critical", "high", "normal", "low"]
    assert by_priority["high"] == {
        "queue": "jobs",
        "priority": "high",
        "name": "shop-test-jobs-high",
        "waiting": 2,
        "in_flight": 1,
        "delayed": 0,
        "dead": 0,
    }
    assert (by_priority["low"]["delayed"], by_priority["low"]["dead"]) == (1, 2)
    assert found["quarantine"] == {"name": "shop-test-quarantine", "messages": 1}


def test_the_table_has_a_row_for_each_queue(deployed: Opened, headgate: CommandLine) -> None:
    asyncio.run(_fill(deployed))
    ended = queues(headgate)
    [high] = [line for line in ended.out.splitlines() if "shop-test-jobs-high" in line]
    assert [cell.strip() for cell in high.strip("│").split("│")] == [
        *("jobs", "high", "2", "1", "0", "0", "shop-test-jobs-high"),
    ]
    assert ended.out.endswith("\nIn quarantine: 1\n")


def test_queues_that_do_not_exist_are_named_beside_the_others(
    deployed: Opened, headgate: CommandLine
) -> None:
    del deployed._queues["shop-test-jobs-low"]
    ended = queues(headgate, "--json")
    assert ended.code == EXIT_MISSING
    assert ended.err == (
        "headgate: these queues don't exist: shop-test-jobs-low. `cdk deploy` creates them\n"
    )
    waiting = {each["priority"]: each["waiting"] for each in json.loads(ended.out)["queues"]}
    assert waiting == {"critical": 0, "high": 0, "normal": 0, "low": None}


def test_an_sqs_that_refuses_ends_it_with_1(
    deployed: Opened, headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_queue: str) -> None:
        raise Throttled("SQS is too busy")

    monkeypatch.setattr(deployed, "depth", refuse)
    assert queues(headgate) == Ended(1, "", "headgate: SQS is too busy\n")


# --- pause and resume ----------------------------------------------------------------------------


def run(headgate: CommandLine, *words: str, app: str = APP) -> Ended:
    return headgate("queues", *words, app=app)


@pytest.mark.usefixtures("deployed")
def test_a_paused_queue_is_listed_with_its_reason_until_it_is_resumed(
    headgate: CommandLine,
) -> None:
    paused = run(headgate, "pause", "jobs", "--for", "2h", "--reason", "a migration")
    assert (paused.code, paused.err) == (0, "")
    assert paused.out.startswith("paused: the queue 'jobs', since ")
    assert paused.out.endswith(" UTC: a migration\n")
    assert paused.out in queues(headgate).out

    [listed] = json.loads(queues(headgate, "--json").out)["paused"]
    assert {name: listed[name] for name in ("kind", "name", "priority", "reason")} == {
        "kind": "queue",
        "name": "jobs",
        "priority": None,
        "reason": "a migration",
    }
    assert "@" in listed["actor"]
    since, until = (datetime.fromisoformat(listed[name]) for name in ("since", "until"))
    assert until - since == timedelta(hours=2)

    assert run(headgate, "resume", "jobs") == Ended(0, "resumed\n", "")
    assert json.loads(queues(headgate, "--json").out)["paused"] == []


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jobs", "--priority", "low"], "the queue 'jobs' with the priority low"),
        (["--type", "send-email"], "the type 'send-email'"),
        (["--tenant", "org-1"], "the tenant 'org-1'"),
    ],
)
def test_a_priority_a_type_or_a_tenant_is_paused_and_resumed(
    words: list[str], said: str, headgate: CommandLine
) -> None:
    assert f"paused: {said}, since " in run(headgate, "pause", *words).out
    assert f"paused: {said}, since " in queues(headgate).out
    assert run(headgate, "resume", *words).code == 0
    assert "paused" not in queues(headgate).out


@pytest.mark.usefixtures("deployed")
def test_resuming_what_is_not_paused_ends_with_1_and_says_what_is(headgate: CommandLine) -> None:
    run(headgate, "pause", "jobs", "--priority", "low")
    ended = run(headgate, "resume", "jobs")
    assert ended.code == EXIT_NOT_PAUSED
    assert ended.out.startswith("it was not paused\npaused: the queue 'jobs' with the priority low")


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name one queue, or one --type, or one --tenant"),
        (["jobs", "--tenant", "org-1"], "name one queue, or one --type, or one --tenant"),
        (["--tenant", "org-1", "--priority", "low"], "only queues have priorities"),
        (["jobz"], "did you mean 'jobs'"),
        (["--type", "send-mail"], "did you mean 'send-email'"),
        (["jobs", "--for", "9d"], "can be paused for at most 3 days"),
        (["jobs", "--for", "soon"], "is not a duration"),
        (["jobs", "--reason", "x" * 301], "reason has at most 300 characters"),
    ],
)
def test_a_pause_that_names_nothing_or_lasts_too_long_ends_with_2(
    words: list[str], said: str, headgate: CommandLine
) -> None:
    ended = run(headgate, "pause", *words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


@pytest.mark.usefixtures("deployed")
def test_a_table_that_can_not_be_read_hides_no_queue(
    headgate: CommandLine, table: MemoryTable
) -> None:
    table.missing = True
    ended = queues(headgate, "--json")
    assert ended.code == 0
    assert ended.err.startswith("headgate: what is paused can't be read: ")
    found = json.loads(ended.out)
    assert (found["paused"], len(found["queues"])) == (None, 4)
