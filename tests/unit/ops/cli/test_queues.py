"""``headgate queues``."""

from __future__ import annotations

import asyncio
import json
from typing import Self

import pytest

from headgate import load_app
from headgate.jobs.core.ports import OutgoingMessage
from headgate.jobs.errors import Throttled
from headgate.jobs.testing import MemorySqs, VirtualClock
from headgate.ops.views.queues import EXIT_MISSING
from tests.support.command_line import CommandLine, Ended

APP = "cli_shop:app"


class Opened(MemorySqs):
    """An SQS that is opened and closed like that of AWS."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """The SQS that the command asks, in place of AWS's."""
    sqs = Opened(VirtualClock())
    monkeypatch.setattr("headgate.jobs.aws.sqs.transport.AsyncSqsTransport", lambda: sqs)
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
