"""``headgate diff``: the jobs that a deployment would take away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.ops.cli.shared import AsJson, app_of, examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.jobs.definitions.app import App
    from headgate.ops.removals import CountedRemoval

EXAMPLES = examples(
    "npx aws-cdk synth -c headgate:stage=qa && HEADGATE_STAGE=qa headgate diff",
    "headgate -A shop.app:app diff --accept shop-prod-mail-high",
)


def diff(
    context: typer.Context,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A resource whose removal is meant, by its name on AWS; repeatable.",
            show_default=False,
        ),
    ] = None,
    stack: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The stack.  [default: the app and its stage, as in shop-prod]"
        ),
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The synthesized template.  [default: the stack's in cdk.out]",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show which jobs a deployment would lose.

    Compares the template of `cdk synth` with that of the deployed stack, and counts the jobs in
    what is gone. Exits with 1 if jobs would be lost, or would wait where no worker looks, unless
    --accept names each.
    """
    from headgate.ops.views.deploying.removals import show_removals

    app = app_of(context)
    found = _removals(app, stack or app.topology.schedule_group, template)
    raise typer.Exit(show_removals(found, accepted=accept or (), as_json=json))


def _removals(app: App, stack: str, template: Path | None) -> Sequence[CountedRemoval]:
    from headgate.jobs.aws.backend import AwsBackend
    from headgate.jobs.aws.cloudformation import CloudFormationStacks
    from headgate.jobs.deployment.removals import removals
    from headgate.ops.removals import count_jobs
    from headgate.ops.synthesized import read_template

    planned = read_template(template or Path("cdk.out", f"{stack}.template.json"))
    stacks = CloudFormationStacks()
    try:
        deployed = stacks.template(stack)
    finally:
        stacks.close()
    if deployed is None:
        return []
    with AwsBackend(app.topology) as backend:
        return count_jobs(removals(deployed, planned), backend.ports)
