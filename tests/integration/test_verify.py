"""`headgate verify` on a local AWS: some of its steps; `make verify-local` tries all of them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from headgate.ops.verify import session
from headgate.ops.verify.options import VerifyOptions, new_stage
from headgate.ops.verify.planning import VerifyPlan, plan_of
from headgate.ops.verify.report import read_report
from headgate.ops.verify.steps.catalogue import STEPS
from headgate.ops.verify.steps.step import StepResult

QUICK = ("once", "large payload", "dead letter", "alarms")


@pytest.fixture
def plan(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VerifyPlan:
    monkeypatch.chdir(tmp_path)
    quick = tuple(each for each in STEPS if each.name in QUICK)
    monkeypatch.setattr(session, "STEPS", quick)
    return plan_of(VerifyOptions(stage=new_stage(), endpoint_url=server))


def test_it_drives_a_stage_of_its_own_reports_and_leaves_nothing(plan: VerifyPlan) -> None:
    told: list[StepResult] = []
    code = session.verify(plan, told.append, Console(file=io.StringIO()))
    report = read_report(plan.options.report)
    assert report is not None
    assert {each.name: each.state for each in report.steps} == {
        "deploy": "passed",
        "large payload": "passed",
        "once": "passed",
        "dead letter": "passed",
        "alarms": "not tried",
        "clean-up": "passed",
    }
    assert code == 0
    assert tuple(told) == report.steps
    assert sum(each.requests for each in told) > 0
