"""``headgate verify``."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.ops.cli.shared import AsJson, examples, require_posix

if TYPE_CHECKING:
    from headgate.ops.verify.options import VerifyOptions
    from headgate.ops.verify.planning import VerifyPlan
    from headgate.ops.verify.steps.step import StepResult

EXAMPLES = examples(
    "headgate verify --minutes 20 --max-usd 1",
    "headgate verify --minutes 45 --yes --json",
    "headgate verify --stage verify-k3x9q2 --clean-up",
    "headgate verify --local",
)


def verify(
    *,
    local: Annotated[
        bool, typer.Option("--local", help="Start a local AWS, and try what can be tried there.")
    ] = False,
    endpoint: Annotated[
        str | None, typer.Option(metavar="URL", help="A local AWS that runs already.")
    ] = None,
    minutes: Annotated[
        int, typer.Option(min=1, metavar="N", help="The bound of all steps together.")
    ] = 30,
    max_usd: Annotated[
        float, typer.Option(min=0, metavar="USD", help="Refuse to begin if it may cost more.")
    ] = 1.0,
    yes: Annotated[bool, typer.Option("--yes", help="Begin without asking.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the stage, for another run to take up.")
    ] = False,
    stage: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The stage of an earlier run: go on with it.  [default: a new one]",
            show_default=False,
        ),
    ] = None,
    clean_up: Annotated[
        bool, typer.Option("--clean-up", help="Only remove what an earlier run has left.")
    ] = False,
    x86: Annotated[
        bool, typer.Option("--x86", help="Build for x86-64, on a machine that can't for arm64.")
    ] = False,
    requirements: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Requirements of the workers' image.  [default: this version of Headgate]",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Try all that Headgate does, in a stage of its own.

    On AWS it deploys a stack of its own, submits jobs of each kind, stops a worker, compares what
    it sees with what is promised, removes everything, and writes a report. It needs Node and
    docker, and an account and region that CDK is bootstrapped in. It says before what it may take
    and cost, and asks. Exits with 1 if a step failed.
    """
    require_posix("headgate verify")
    from headgate.ops.verify.options import VerifyOptions, new_stage

    if clean_up and stage is None:
        raise typer.BadParameter("--clean-up needs the stage: add --stage verify-...")
    options = VerifyOptions(
        stage=stage or new_stage(),
        endpoint_url=endpoint,
        local=local,
        within=timedelta(minutes=minutes),
        keep=keep,
        architecture="x86_64" if x86 else "arm64",
        requirements=requirements,
    )
    raise typer.Exit(_carried_out(options, max_usd, yes=yes, only_clean_up=clean_up, as_json=json))


def _carried_out(
    options: VerifyOptions, max_usd: float, *, yes: bool, only_clean_up: bool, as_json: bool
) -> int:
    from headgate.ops.demo.options import default_console
    from headgate.ops.verify import session
    from headgate.ops.verify.planning import own_settings, plan_of
    from headgate.ops.verify.report import read_report
    from headgate.ops.views.deploying.verify import show_report, show_step

    with own_settings():
        plan = plan_of(options)
        if not only_clean_up:
            _confirm(plan, max_usd, yes=yes, as_json=as_json)
        carry_out = session.clean_up if only_clean_up else session.verify
        tell = _untold if as_json else show_step
        code = carry_out(plan, tell, default_console())
    if (report := read_report(options.report)) is not None:
        show_report(report, options.report, as_json=as_json)
    return code


def _confirm(plan: VerifyPlan, max_usd: float, *, yes: bool, as_json: bool) -> None:
    from headgate.jobs.errors import SettingsInvalid
    from headgate.ops.verify.steps.catalogue import STEPS
    from headgate.ops.views.deploying.verify import show_plan

    if plan.report.usd_estimated > max_usd:
        raise SettingsInvalid(
            f"a run of this length may cost {plan.report.usd_estimated:.2f} USD: lower --minutes, "
            "or raise --max-usd"
        )
    if not as_json:
        show_plan(plan, STEPS)
    if plan.account and not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("nobody is there to confirm it: add --yes")
        typer.confirm("Begin?", abort=True, err=True)


def _untold(_result: StepResult) -> None:
    """Print nothing: the report has it."""
