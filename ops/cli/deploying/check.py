"""``headgate check`` and ``headgate plan``: an app as it is declared; AWS is asked with --live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.ops.cli.shared import AsJson, app_of, app_to_deploy_of, examples

if TYPE_CHECKING:
    from headgate.infra.stages import Stage
    from headgate.jobs.definitions.app import App
    from headgate.jobs.errors import Fault

CHECK_EXAMPLES = examples(
    "headgate -A shop.app:app check",
    "HEADGATE_STAGE=prod headgate -A shop.app:app check --json",
    "HEADGATE_STAGE=prod headgate -A shop.app:app check --live",
)
PLAN_EXAMPLES = examples("headgate -A shop.app:app plan send-email")


def check(
    context: typer.Context,
    live: Annotated[
        bool, typer.Option("--live", help="Also compare what is on AWS with what is needed.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Find errors in the configuration before AWS does.

    The deployment is taken from the context of ./cdk.json, if there is one, with its standby in
    another region; the stage from HEADGATE_STAGE, or else from there too. Exits with 1 if there
    are errors; warnings and advice alone leave it at 0.
    """
    from headgate.jobs.definitions.policies import load_handlers
    from headgate.ops.advice import advice
    from headgate.ops.cdk_context import stages_from_cdk_json
    from headgate.ops.views.faults import show_faults

    app, now = app_to_deploy_of(context, None), datetime.now(UTC)
    load_handlers(app)
    stage, standby = stages_from_cdk_json(None, app.stage)
    faults = _faults(app, stage, now, live=live)
    if standby is not None:
        faults += _of_standby(_faults(app, standby, now, live=live), standby, faults)
    if not any(fault.severity == "error" for fault in faults):
        faults += advice(stage.app_in(app), stage.deployment)
    raise typer.Exit(show_faults(faults, as_json=json))


def _faults(app: App, stage: Stage, now: datetime, *, live: bool) -> list[Fault]:
    from headgate.jobs.deployment.checks.check import check as faults_of

    here = stage.app_in(app)
    faults = faults_of(here, now, stage.deployment)
    return faults + _live(here, stage) if live else faults


def _of_standby(found: list[Fault], standby: Stage, active: list[Fault]) -> Iterator[Fault]:
    """Yield the faults that the standby has and the stage has not, each with its place."""
    for fault in found:
        if fault not in active:
            yield replace(fault, where=f"the standby in {standby.region}, {fault.where}")


def _live(app: App, stage: Stage) -> list[Fault]:
    from contextlib import closing

    from headgate.jobs.aws.stages.lookup import StageLookup
    from headgate.ops.live_check import live_faults

    with closing(StageLookup(region=stage.region)) as lookup:
        return live_faults(app, stage.deployment, lookup, stage.region or lookup.region())


def plan(
    context: typer.Context,
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The job type's name.")],
    json: AsJson = False,
) -> None:
    """Show when each attempt of a failing job comes."""
    from headgate.jobs.deployment.checks.retry_rules import has_long_delays
    from headgate.ops.views.retry_plan import show_plan

    app = app_of(context)
    declared = app.find_type(job_type)
    queue = app.topology.queue(declared.queue, declared.priority)
    show_plan(declared, queue, long_delays=has_long_delays(app, declared), as_json=json)
