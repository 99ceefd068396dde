"""Output of ``headgate verify``: the plan, each step as it ends, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headgate.ops.views.output import in_line, show, show_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.ops.verify.planning import VerifyPlan
    from headgate.ops.verify.report import VerifyReport
    from headgate.ops.verify.steps.step import StepResult, VerifyStep

_MARKS = {"passed": "     ok", "failed": " FAILED", "not tried": "not tried"}


def show_plan(plan: VerifyPlan, steps: Iterable[VerifyStep]) -> None:
    """Print what a run is going to do, take and cost."""
    report, minutes = plan.report, plan.options.within.total_seconds() / 60
    account = f" in the account {plan.account}" if plan.account else ""
    show(f"makes the stage {report.stage} on {report.where}, {report.region}{account}")
    show(f"tries {len(tuple(steps))} steps for at most {minutes:g} minutes, besides deploying")
    if plan.account:
        show(f"costs at most {report.usd_estimated:.2f} USD by list prices, without a free tier")
    after = "leaves the stage for another run" if plan.options.keep else "removes all that it made"
    show(f"{after}; nothing else is touched", at_once=True)


def show_step(result: StepResult) -> None:
    """Print the result of one step."""
    cost = f" ({result.took_s:.1f} s, {result.requests} requests)" if result.took_s else ""
    show(f"{_MARKS[result.state]:>9}  {result.name}: {in_line(result.seen)}{cost}", at_once=True)


def show_report(report: VerifyReport, path: Path, *, as_json: bool) -> None:
    """Print the whole report, and where it is."""
    if as_json:
        show_json(report.as_json())
        return
    states = [each.state for each in report.steps]
    counts = ", ".join(f"{states.count(each)} {each}" for each in _MARKS if each in states)
    show(f"Headgate {report.headgate} on {report.where} ({report.region}), Python {report.python}")
    show(f"{counts}, in {report.took_s / 60:.1f} minutes")
    for each in report.steps:
        if each.state == "failed":
            show(f"{each.name}: expected that {each.expected}")
    show(f"The report is in {path}. It names no account, and holds no payload.")
