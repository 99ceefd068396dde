"""``headgate verify``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from headgate.jobs.aws.stages.deployed import DeployedStage
from headgate.ops.verify.steps.step import StepResult
from tests.support.command_line import CommandLine

RESULT = StepResult(
    name="priorities",
    expected="a job of each priority completes",
    state="passed",
    seen="4 of 4 completed",
    took_s=1.5,
    requests=12,
)


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    """The credentials' account, and nothing else of AWS."""

    async def told(_stage: DeployedStage) -> tuple[str, str]:
        return "111122223333", "eu-central-1"

    monkeypatch.setattr(DeployedStage, "account_and_region", told)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans that were carried out: each with one step."""
    plans: list[Any] = []

    def carry_out(plan: Any, tell: Any, _console: Any) -> int:
        plans.append((plan, os.environ.get("HEADGATE_BUCKET")))
        plan.report.with_step(RESULT, 1.5).write(plan.options.report)
        tell(RESULT)
        return 0

    monkeypatch.setattr("headgate.ops.verify.session.verify", carry_out)
    monkeypatch.setattr("headgate.ops.verify.session.clean_up", carry_out)
    return plans


def test_it_says_what_it_may_take_and_cost_and_reports(
    headgate: CommandLine, tried: list[Any], here: Path
) -> None:
    ended = headgate("verify", "--yes", "--minutes", "20", "--stage", "verify-a")
    assert ended.code == 0
    assert "makes the stage verify-a on AWS, eu-central-1 in the account 111122223333" in ended.out
    assert "for at most 20 minutes" in ended.out
    assert "costs at most 0." in ended.out
    assert "     ok  priorities: 4 of 4 completed (1.5 s, 12 requests)" in ended.out
    assert len(tried) == 1
    report = json.loads((here / ".headgate" / "verify-a" / "report.json").read_text())
    assert report["passed"]
    assert "111122223333" not in json.dumps(report)


def test_as_json_it_prints_the_report_alone(headgate: CommandLine, tried: list[Any]) -> None:
    ended = headgate("verify", "--yes", "--stage", "verify-a", "--json")
    assert tried
    assert json.loads(ended.out)["steps"] == [
        {
            "name": "priorities",
            "expected": "a job of each priority completes",
            "state": "passed",
            "seen": "4 of 4 completed",
            "took_s": 1.5,
            "requests": 12,
        }
    ]


def test_more_than_the_given_cost_is_refused_before_anything_is_made(
    headgate: CommandLine, tried: list[Any]
) -> None:
    ended = headgate("verify", "--yes", "--max-usd", "0.01")
    assert (ended.code, tried) == (2, [])
    assert "lower --minutes, or raise --max-usd" in ended.err


def test_where_nobody_can_confirm_it_yes_is_asked_for(
    headgate: CommandLine, tried: list[Any]
) -> None:
    ended = headgate("verify")
    assert (ended.code, tried) == (2, [])
    assert "add --yes" in ended.err


def test_a_clean_up_needs_the_stage(headgate: CommandLine, tried: list[Any]) -> None:
    assert headgate("verify", "--clean-up").code == 2
    assert headgate("verify", "--clean-up", "--stage", "verify-a").code == 0
    assert len(tried) == 1


def test_the_settings_of_the_users_own_app_are_hidden(
    headgate: CommandLine, tried: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_BUCKET", "shop-prod-payloads")
    headgate("verify", "--local")
    [(plan, bucket)] = tried
    assert bucket is None
    assert plan.app.stage.startswith("verify-")
    assert os.environ["HEADGATE_BUCKET"] == "shop-prod-payloads"
