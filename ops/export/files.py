"""The files of each kind of export."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.ops.export.artifacts import Artifact, ExportOrigin
from headgate.ops.export.cdk import synthesized_template
from headgate.ops.export.cloudformation import cloudformation_text
from headgate.ops.export.compose import compose_file
from headgate.ops.export.kubernetes import manifests
from headgate.ops.export.policies import policy_files
from headgate.ops.export.resources import resources_of
from headgate.ops.export.systemd import units
from headgate.ops.export.target import Target
from headgate.ops.export.terraform.document import terraform_text
from headgate.ops.export.yaml_text import yaml_text


def kubernetes_files(
    target: Target, origin: ExportOrigin, *, image: str, policies: bool = True
) -> Sequence[Artifact]:
    """Return the manifests, and the policies of the roles that they need.

    Args:
        target: the app and its place.
        origin: what the manifests say about themselves.
        image: the workers' image.
        policies: False: the manifests alone, for which no CDK is needed.

    Raises:
        ConfigurationError: a name is too long, or CDK's library is not installed.
    """
    text = origin.comment + yaml_text(list(manifests(target, image)))
    roles = list(policy_files(target)) if policies else []
    return [Artifact.of_text(f"{target.name}.yaml", text), *roles]


def compose_files(target: Target, origin: ExportOrigin, *, image: str | None) -> Sequence[Artifact]:
    """Return the file for Compose.

    Args:
        target: the app and its place.
        origin: what the file says about itself.
        image: the workers' image; None: Compose builds it.
    """
    text = origin.comment + yaml_text([compose_file(target, image)])
    return [Artifact.of_text("compose.yaml", text)]


def systemd_files(
    target: Target, origin: ExportOrigin, *, code: str, venv: str
) -> Sequence[Artifact]:
    """Return a unit for each worker group; see `ops.export.systemd.units`."""
    return list(units(target, origin, code=code, venv=venv))


def terraform_files(app: App, deployment: Deployment, origin: ExportOrigin) -> Sequence[Artifact]:
    """Return the configuration for Terraform.

    Raises:
        AppFaulty: ``headgate check`` finds errors.
        ConfigurationError: CDK's library is not installed, or refuses the app.
    """
    resources = resources_of(synthesized_template(app, deployment))
    text = terraform_text(resources, app.topology, origin)
    return [Artifact.of_text(f"{app.topology.schedule_group}.tf.json", text)]


def cloudformation_files(
    app: App, deployment: Deployment, origin: ExportOrigin
) -> Sequence[Artifact]:
    """Return the template for CloudFormation; raises as `terraform_files`."""
    resources = resources_of(synthesized_template(app, deployment))
    text = cloudformation_text(resources, app.topology, origin)
    return [Artifact.of_text(f"{app.topology.schedule_group}.template.json", text)]
