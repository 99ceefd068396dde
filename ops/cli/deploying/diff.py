"""``headgate diff``: the jobs that a deployment would take away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.ops.cli.shared import AsJson, app_of, examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.jobs.definitions.app import App
    from headgate.ops.removals import StackRemovals

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
            metavar="NAME",
            help="Only this stack.  [default: the stage's, as shop-prod, and its standby's]",
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

    Compares the template of `cdk synth` with that of the deployed stack, in the stage's region,
    and counts the jobs in what is gone; likewise that of its standby in another region. Exits with
    1 if jobs would be lost, or would wait where no worker looks, unless --accept names each.
    """
    from headgate.ops.removals import keeping
    from headgate.ops.views.deploying.removals import show_removals

    app = app_of(context)
    if stack is not None or template is not None:
        found = [_removals(app, stack or app.topology.schedule_group, None, template)]
    else:
        found = [_removals(app, name, region) for name, region in _stacks(app)]
    kept = keeping(app)
    raise typer.Exit(show_removals(found, accepted=accept or (), kept=kept, as_json=json))


def _stacks(app: App) -> Iterator[tuple[str, str | None]]:
    """Yield the stacks of the app's stage, each with its region as cdk.json names it."""
    from headgate.infra.stages import standby_stack
    from headgate.ops.cdk_context import stages_from_cdk_json

    stage, standby = stages_from_cdk_json(None, app.stage)
    name = app.topology.schedule_group
    yield name, stage.region
    if standby is not None:
        yield standby_stack(name), standby.region


def _removals(
    app: App, stack: str, region: str | None, template: Path | None = None
) -> StackRemovals:
    from headgate.jobs.aws.backend import AwsBackend
    from headgate.jobs.aws.cloudformation import CloudFormationStacks
    from headgate.jobs.deployment.removals import removals
    from headgate.ops.removals import StackRemovals, count_jobs
    from headgate.ops.synthesized import read_template

    planned = read_template(template or Path("cdk.out", f"{stack}.template.json"))
    stacks = CloudFormationStacks(region=region)
    try:
        deployed = stacks.template(stack)
        if deployed is None:
            return StackRemovals(stack=stack, region=region, found=None)
        found = removals(deployed, planned, stacks.pseudo_parameters())
    finally:
        stacks.close()
    with AwsBackend(app.topology, region=region) as backend:
        counted = count_jobs(found, backend.ports)
    return StackRemovals(stack=stack, region=region, found=counted)
