"""``headgate health``."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from headgate import Client, load_app
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.testing import MemorySqs, MemoryTable
from tests.support.backends import over
from tests.support.command_line import CommandLine, Ended

APP = "cli_shop:app"


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> MemorySqs:
    """The SQS that the command's client asks."""
    monkeypatch.syspath_prepend(".")
    clock = SystemClock()
    sqs = MemorySqs(clock)
    sqs.provision(load_app(APP).topology)
    backend = over(sqs.sync, table=MemoryTable(clock).sync)
    monkeypatch.setattr(
        "headgate.jobs.client.client.Client", lambda app: Client(app, backend=backend)
    )
    return sqs


def health(headgate: CommandLine, *options: str) -> Ended:
    return headgate("health", *options, app=APP)


def wait(sqs: MemorySqs) -> None:
    asyncio.run(sqs.send("shop-test-jobs-normal", [OutgoingMessage(body="{}")]))


@pytest.mark.usefixtures("sqs")
def test_a_healthy_system_ends_it_with_0(headgate: CommandLine) -> None:
    assert health(headgate) == Ended(0, "healthy\n", "")


def test_a_degraded_system_ends_it_with_1_and_the_reasons(
    sqs: MemorySqs, headgate: CommandLine
) -> None:
    wait(sqs)
    ended = health(headgate)
    assert (ended.code, ended.err) == (1, "")
    assert ended.out == (
        "degraded\n"
        "degraded: 1 job waits in shop-test-jobs-normal, and no live worker polls it; whether a "
        "Lambda function does is unknown\n"
    )


def test_an_unhealthy_system_by_the_deployment_of_cdk_json_ends_it_with_2(
    sqs: MemorySqs, headgate: CommandLine
) -> None:
    wait(sqs)
    Path("cdk.json").write_text(json.dumps({"context": {"headgate:deployment": {}}}))
    ended = health(headgate, "--json")
    assert (ended.code, ended.err) == (2, "")
    assert json.loads(ended.out) == {
        "state": "unhealthy",
        "reasons": [
            {
                "state": "unhealthy",
                "queue": "shop-test-jobs-normal",
                "text": "1 job waits in shop-test-jobs-normal, and no live worker polls it",
            }
        ],
        "paused": [],
        "paused_schedules": [],
        "unknown": {},
    }


@pytest.mark.usefixtures("sqs")
def test_a_deployment_that_can_not_be_read_ends_it_with_2_and_no_verdict(
    headgate: CommandLine,
) -> None:
    Path("cdk.json").write_text("{")
    ended = health(headgate)
    assert (ended.code, ended.out) == (2, "")
    assert "cdk.json could not be read" in ended.err


@pytest.mark.usefixtures("sqs")
def test_on_a_local_aws_stages_that_none_of_is_the_apps_are_told_and_passed_over(
    headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("cdk.json").write_text(json.dumps({"context": {"headgate:stages": {"prod": {}}}}))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    ended = health(headgate)
    assert (ended.code, ended.out) == (0, "healthy\n")
    assert ended.err.startswith("headgate: nothing of cdk.json is used on this local AWS: ")
    assert "'test' is not in cdk.json's headgate:stages" in ended.err


@pytest.mark.usefixtures("sqs")
def test_on_aws_a_stage_that_cdk_json_does_not_declare_is_refused(
    headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("cdk.json").write_text(json.dumps({"context": {"headgate:stages": {"prod": {}}}}))
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS"):
        monkeypatch.delenv(name, raising=False)
    ended = health(headgate)
    assert (ended.code, ended.out) == (2, "")
    assert "'test' is not in cdk.json's headgate:stages" in ended.err
