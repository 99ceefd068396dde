"""``headgate health``."""

from __future__ import annotations

import typer

from headgate.ops.cli.shared import AsJson, app_of, client_of, examples

EXAMPLES = examples(
    "headgate -A shop.app:app health", "headgate -A shop.app:app health --json | jq .reasons"
)


def health(context: typer.Context, json: AsJson = False) -> None:
    """Say whether the system is healthy, and if not, why.

    Looks at queues, dead letters, waiting times and workers. Exits with 0 if it is healthy, 1 if it
    is degraded, 2 if it is unhealthy. Thresholds, and the Lambda functions that run jobs, are those
    of cdk.json if the current directory has one.
    """
    from headgate.ops.cdk_context import deployment_to_watch
    from headgate.ops.views.output import show_error
    from headgate.ops.views.overview.system_health import show_health

    deployment = deployment_to_watch(app_of(context).stage, show_error)
    with client_of(context) as client:
        found = client.health(deployment)
    raise typer.Exit(show_health(found, as_json=json))
