"""``headgate cost``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from headgate.ops.cli import cost_options
from headgate.ops.cli.durations import duration
from headgate.ops.cli.shared import AsJson, app_to_deploy_of, examples

EXAMPLES = examples(
    "headgate -A shop.app:app cost --jobs 10M",
    "headgate cost --jobs 250k --share send-email=0.8 --duration 200ms",
)


def cost(
    context: typer.Context,
    *,
    jobs: cost_options.Jobs,
    share: cost_options.Shares = None,
    typical: Annotated[
        timedelta | None,
        typer.Option(
            "--duration",
            parser=duration,
            metavar="DURATION",
            help="How long a handler runs.  [default: as its worker group or consumer says]",
        ),
    ] = None,
    payload: cost_options.PayloadBytes = 500,
    result: cost_options.ResultBytes = 100,
    failure_rate: cost_options.FailureRate = 0.01,
    together: cost_options.Together = 1,
    peak: cost_options.Peak = 2,
    delayed: cost_options.Delayed = 0,
    children: cost_options.Children = 0,
    bundled: cost_options.Bundled = None,
    tenants: cost_options.Tenants = False,
    free_tier: cost_options.FreeTier = False,
    cdk_json: cost_options.CdkJson = None,
    json: AsJson = False,
) -> None:
    """Estimate what a month on AWS costs, by service and job type.

    A standby in another region counts as it waits, without a job.
    """
    from headgate.ops.cdk_context import stages_from_cdk_json
    from headgate.ops.costing.alternatives import alternatives
    from headgate.ops.costing.estimate import estimate
    from headgate.ops.costing.load import Load
    from headgate.ops.costing.standby import Standby
    from headgate.ops.views.cost import show_cost

    app, now = app_to_deploy_of(context, cdk_json), datetime.now(UTC)
    load = Load(
        jobs=jobs,
        shares=cost_options.shares(share),
        duration=typical,
        payload_bytes=payload,
        result_bytes=result,
        failure_rate=failure_rate,
        together=together,
        peak=peak,
        delayed=delayed,
        tenants=tenants,
        children=children,
        bundled=bundled,
    )
    stage, other = stages_from_cdk_json(cdk_json, app.stage)
    standby = None
    if other is not None:
        standby = Standby(app=other.app_in(app), deployment=other.deployment)
    asked = (stage.app_in(app), stage.deployment, load)
    others = alternatives(*asked, now=now, free_tier=free_tier, standby=standby)
    month = estimate(*asked, now=now, free_tier=free_tier, standby=standby)
    show_cost(month, others, as_json=json)
