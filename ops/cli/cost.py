"""``headgate cost``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from headgate.ops.cli import cost_options
from headgate.ops.cli.durations import duration
from headgate.ops.cli.shared import AsJson, app_of, examples

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
            help="How long a handler runs.  [default: that of its worker group]",
        ),
    ] = None,
    payload: cost_options.PayloadBytes = 500,
    result: cost_options.ResultBytes = 100,
    failure_rate: cost_options.FailureRate = 0.01,
    together: cost_options.Together = 1,
    peak: cost_options.Peak = 2,
    delayed: cost_options.Delayed = 0,
    tenants: cost_options.Tenants = False,
    free_tier: cost_options.FreeTier = False,
    cdk_json: cost_options.CdkJson = None,
    json: AsJson = False,
) -> None:
    """Estimate what a month on AWS costs, by service and job type."""
    from headgate.ops.cdk_context import deployment_from_cdk_json
    from headgate.ops.costing.alternatives import alternatives
    from headgate.ops.costing.estimate import estimate
    from headgate.ops.costing.load import Load
    from headgate.ops.views.cost import show_cost

    app, now = app_of(context), datetime.now(UTC)
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
    )
    deployment = deployment_from_cdk_json(cdk_json, app.stage)
    others = alternatives(app, deployment, load, now=now, free_tier=free_tier)
    month = estimate(app, deployment, load, now=now, free_tier=free_tier)
    show_cost(month, others, as_json=json)
