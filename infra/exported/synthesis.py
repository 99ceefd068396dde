"""Templates and policies for tools other than CDK, synthesized by CDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aws_cdk as cdk
from jsii.errors import JavaScriptError

from headgate.infra.checks.cdk_errors import in_words
from headgate.infra.exported.stack import ExportedStack, PolicyStack
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError

_CONTEXT: Mapping[str, Any] = {
    "aws:cdk:bundling-stacks": [],  # no function's code is built
    "aws:cdk:disable-asset-staging": True,
    "aws:cdk:enable-path-metadata": True,
}

Template = Mapping[str, Any]


def exported_template(app: App, deployment: Deployment) -> Template:
    """Return the template of an `ExportedStack`, whose resources have their constructs' paths.

    Raises:
        AppFaulty: ``headgate check`` finds errors.
        ConfigurationError: the app has no job types, a name is too long for AWS, or CDK refuses.
    """
    return _synthesized(
        lambda assembly: ExportedStack(assembly, "Exported", app=app, deployment=deployment)
    )


def policy_documents(
    app: App, deployment: Deployment, *, account: str, region: str
) -> Mapping[str, Mapping[str, Any]]:
    """Return the policies of an app's system in an account and region, by their names.

    Raises:
        ConfigurationError: the app has no job types, or its encryption key is in another region.
        UnknownQueue: a worker group names a queue that the app doesn't have.
    """
    template = _synthesized(
        lambda assembly: PolicyStack(
            assembly, "Policies", app=app, deployment=deployment, account=account, region=region
        )
    )
    made = (each["Properties"] for each in template["Resources"].values())
    return {each["ManagedPolicyName"]: each["PolicyDocument"] for each in made}


def _synthesized(add: Callable[[cdk.App], cdk.Stack]) -> Template:
    """Return the template of the stack that is added to an assembly.

    Raises:
        ConfigurationError: CDK refuses it.
    """
    with TemporaryDirectory() as folder:
        assembly = cdk.App(outdir=folder, analytics_reporting=False, context=dict(_CONTEXT))
        try:
            stack = add(assembly)
            assembly.synth()
        except RuntimeError as error:  # jsii has no class of its own for CDK's errors
            if not isinstance(error.__cause__, JavaScriptError):
                raise
            raise ConfigurationError(in_words(error)) from error
        found: Template = json.loads((Path(folder) / stack.template_file).read_text())
    return found
