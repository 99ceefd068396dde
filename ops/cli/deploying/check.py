"""``headgate check`` and ``headgate plan``: an app as it is declared, without asking AWS."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from headgate.ops.cli.shared import AsJson, app_of, examples

CHECK_EXAMPLES = examples(
    "headgate -A shop.app:app check", "HEADGATE_STAGE=prod headgate -A shop.app:app check --json"
)
PLAN_EXAMPLES = examples("headgate -A shop.app:app plan send-email")


def check(context: typer.Context, json: AsJson = False) -> None:
    """Find faults of the configuration before AWS does.

    The deployment is taken from the context of ./cdk.json, if there is one. Exits with 1 if there
    are errors; warnings alone leave it at 0.
    """
    from headgate.jobs.definitions.policies import load_handlers
    from headgate.jobs.deployment.checks.check import check as faults_of
    from headgate.ops.cdk_context import deployment_from_cdk_json
    from headgate.ops.views.faults import show_faults

    app = app_of(context)
    load_handlers(app)
    deployment = deployment_from_cdk_json(None, app.stage)
    raise typer.Exit(show_faults(faults_of(app, datetime.now(UTC), deployment), as_json=json))


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
