"""``headgate export``: an app's deployment for tools other than CDK."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.ops.cli.cost_options import CdkJson
from headgate.ops.cli.shared import app_path_of, app_to_deploy_of, examples, noun

if TYPE_CHECKING:
    from headgate.jobs.definitions.app import App
    from headgate.jobs.deployment.deployment import Deployment
    from headgate.ops.export.artifacts import Artifact, ExportOrigin
    from headgate.ops.export.target import Target

export = noun(
    "Files of an app's deployment for tools other than CDK.",
    examples(
        "headgate -A shop.app:app export terraform --out infra",
        "headgate -A shop.app:app export kubernetes --image shop:1 --out k8s",
    ),
)

_STDOUT = Path("-")

Out = Annotated[
    Path,
    typer.Option(
        metavar="DIR", allow_dash=True, help="The folder for the files, or - to print them."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace files that were not written by this command.")
]
Account = Annotated[
    str | None,
    typer.Option(
        metavar="ID", help="The AWS account.  [default: the stage's, or $HEADGATE_ACCOUNT]"
    ),
]
Region = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The region.  [default: the stage's, or $AWS_REGION]"),
]
Image = Annotated[str, typer.Option(metavar="IMAGE", help="The workers' image, with its tag.")]


@export.command(
    epilog=examples(
        "headgate -A shop.app:app export kubernetes --image shop:1 --out k8s",
        "headgate export kubernetes --image shop:1 --out - | kubectl apply -f -",
    )
)
def kubernetes(
    context: typer.Context,
    *,
    out: Out,
    image: Image,
    account: Account = None,
    region: Region = None,
    cdk_json: CdkJson = None,
    force: Force = False,
) -> None:
    """Write manifests of the workers, and policies.

    KEDA scales them as ECS does. The policies are those of their roles, which need
    CDK's library: pip install 'headgate[export]'. Printing leaves them out.
    """
    from headgate.ops.export.files import kubernetes_files

    target = _target(context, account, region, cdk_json)
    origin = _workers_origin(target)
    files = kubernetes_files(target, origin, image=image, policies=out != _STDOUT)
    _write(out, files, origin, force=force)


@export.command(
    epilog=examples(
        "headgate -A shop.app:app export compose --out .",
        "headgate export compose --image shop:1 --out - > compose.yaml",
    )
)
def compose(
    context: typer.Context,
    *,
    out: Out,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE", help="The workers' image.  [default: built from the Dockerfile]"
        ),
    ] = None,
    account: Account = None,
    region: Region = None,
    cdk_json: CdkJson = None,
    force: Force = False,
) -> None:
    """Write a file for Compose.

    It has a service for each worker group.
    """
    from headgate.ops.export.files import compose_files

    target = _target(context, account, region, cdk_json)
    origin = _workers_origin(target)
    _write(out, compose_files(target, origin, image=image), origin, force=force)


@export.command(epilog=examples("headgate -A shop.app:app export systemd --out units"))
def systemd(
    context: typer.Context,
    *,
    out: Out,
    code: Annotated[
        str, typer.Option(metavar="DIR", help="The folder of the code on that machine.")
    ] = "/app",
    venv: Annotated[
        str, typer.Option(metavar="DIR", help="The virtual environment on that machine.")
    ] = "/opt/venv",
    account: Account = None,
    region: Region = None,
    cdk_json: CdkJson = None,
    force: Force = False,
) -> None:
    """Write units for systemd.

    There is one for each worker group, to be run on a machine such as EC2's. A group's sidecars are
    left out.
    """
    from headgate.ops.export.files import systemd_files
    from headgate.ops.export.notes import systemd_notes

    target = _target(context, account, region, cdk_json)
    origin = _origin(target.app, tuple(systemd_notes(target)))
    _write(out, systemd_files(target, origin, code=code, venv=venv), origin, force=force)


@export.command(
    epilog=examples(
        "headgate -A shop.app:app export terraform --out infra",
        "headgate export terraform --out - > infra/shop.tf.json",
    )
)
def terraform(
    context: typer.Context, *, out: Out, cdk_json: CdkJson = None, force: Force = False
) -> None:
    """Write a configuration for Terraform.

    It has the queues, the table, the bucket, schedules, functions and policies, rendered by
    CDK's library, which this machine alone needs: pip install 'headgate[export]'.
    """
    from headgate.ops.export.files import terraform_files

    _write_infrastructure(context, terraform_files, out, cdk_json, force=force)


@export.command(
    epilog=examples(
        "headgate -A shop.app:app export cloudformation --out infra",
        "headgate export cloudformation --out - > shop.template.json",
    )
)
def cloudformation(
    context: typer.Context, *, out: Out, cdk_json: CdkJson = None, force: Force = False
) -> None:
    """Write a template for CloudFormation.

    It has the queues, the table, the bucket, schedules, functions and policies, rendered by
    CDK's library, which this machine alone needs: pip install 'headgate[export]'.
    """
    from headgate.ops.export.files import cloudformation_files

    _write_infrastructure(context, cloudformation_files, out, cdk_json, force=force)


@export.command(epilog=examples("headgate -A shop.app:app export functions --out infra"))
def functions(
    context: typer.Context, *, out: Out, cdk_json: CdkJson = None, force: Force = False
) -> None:
    """Write the zip of the bridge and the sweep.

    The infrastructure that is exported with the same cdk.json runs it. Their dependencies
    are installed by pip or uv, for Lambda.
    """
    from headgate.ops.export.functions import functions_zip

    if out == _STDOUT:
        context.fail("a zip is not printed: name a folder with --out")
    app, _ = _app(context, cdk_json)
    _write(out, [functions_zip(app)], _origin(app, ()), force=force)


def _app(context: typer.Context, cdk_json: Path | None) -> tuple[App, Deployment]:
    from headgate.jobs.deployment.checks.check import require_fit
    from headgate.ops.cdk_context import stage_from_cdk_json

    app = app_to_deploy_of(context, cdk_json)
    stage = stage_from_cdk_json(cdk_json, app.stage)
    app = stage.app_in(app)
    require_fit(app, stage.deployment, datetime.now(UTC))
    return app, stage.deployment


def _target(
    context: typer.Context, account: str | None, region: str | None, cdk_json: Path | None
) -> Target:
    from headgate.jobs.core.settings import Settings
    from headgate.jobs.deployment.checks.check import require_fit
    from headgate.ops.cdk_context import stage_from_cdk_json
    from headgate.ops.export.target import Target

    app = app_to_deploy_of(context, cdk_json)
    stage = stage_from_cdk_json(cdk_json, app.stage)
    app = stage.app_in(app)
    require_fit(app, stage.deployment, datetime.now(UTC))
    account = account or stage.account or Settings.from_env().account
    region = region or stage.region or os.environ.get("AWS_REGION")
    if account is None or region is None:
        context.fail(
            "the account and the region have to be known: --account 111122223333 --region "
            "eu-central-1, or name both in the stage of cdk.json"
        )
    replace(stage, account=account, region=region)  # checks both
    return Target(
        app=app,
        app_path=app_path_of(context),
        deployment=stage.deployment,
        account=account,
        region=region,
    )


def _workers_origin(target: Target) -> ExportOrigin:
    from headgate.ops.export.notes import worker_notes

    return _origin(target.app, tuple(worker_notes(target)))


def _write_infrastructure(
    context: typer.Context,
    render: Callable[[App, Deployment, ExportOrigin], Sequence[Artifact]],
    out: Path,
    cdk_json: Path | None,
    *,
    force: bool,
) -> None:
    from headgate.ops.export.notes import infrastructure_notes

    app, deployment = _app(context, cdk_json)
    origin = _origin(app, tuple(infrastructure_notes(app, deployment)))
    _write(out, render(app, deployment, origin), origin, force=force)


def _origin(app: App, notes: tuple[str, ...]) -> ExportOrigin:
    from headgate.jobs.values.own_version import own_version
    from headgate.ops.export.artifacts import ExportOrigin
    from headgate.ops.views.output import in_line

    return ExportOrigin(
        command=in_line(shlex.join(["headgate", *sys.argv[1:]])),
        app=app.topology.schedule_group,
        version=own_version(),
        notes=notes,
    )


def _write(out: Path, artifacts: Sequence[Artifact], origin: ExportOrigin, *, force: bool) -> None:
    """Write the files and say which, with what is left to do; or print their texts alone."""
    from headgate.ops.export.artifacts import write_artifacts
    from headgate.ops.views.output import show

    if out == _STDOUT:
        for each in artifacts:
            print(each.text, end="")
        return
    for path in write_artifacts(out, artifacts, force=force):
        show(f"wrote {path}")
    for note in origin.notes:
        show(note)
