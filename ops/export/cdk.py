"""CDK, on whose templates and policies exports are based; imported where it is needed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headgate.infra.checks.node import has_node
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.schedules.routes import Routes

_INSTALL = (
    "what AWS needs is rendered by CDK's library, from the same constructs that CDK deploys: "
    "pip install 'headgate[export]', and have Node 20 or newer on the PATH. Only the machine that "
    "exports needs them"
)


def synthesized_template(app: App, deployment: Deployment) -> Mapping[str, Any]:
    """Return the template of an app's system without workers, consumers and alarms.

    Raises:
        AppFaulty: ``headgate check`` finds errors.
        ConfigurationError: CDK's library or Node is not installed, or CDK refuses the app.
    """
    with _needed():
        from headgate.infra.exported import synthesis
    return synthesis.exported_template(app, deployment)


def synthesized_policies(
    app: App, deployment: Deployment, *, account: str, region: str
) -> Mapping[str, Mapping[str, Any]]:
    """Return the policies of an app's system in an account and region, by their names.

    Raises:
        ConfigurationError: CDK's library or Node is not installed, or CDK refuses the app.
    """
    with _needed():
        from headgate.infra.exported import synthesis
    return synthesis.policy_documents(app, deployment, account=account, region=region)


def build_functions(app: App, folder: Path) -> None:
    """Write the code of the bridge and the sweep into a folder, with their dependencies.

    Raises:
        ConfigurationError: CDK's library, Node or the dependencies can't be had.
    """
    with _needed():
        from headgate.infra.functions import bundling, pip_install
    bundle = bundling.functions_bundle(Routes.of(app))
    bundle.build(folder, pip_install.for_lambda(bundle.requirements.machine))


@contextmanager
def _needed() -> Iterator[None]:
    if not has_node():
        raise ConfigurationError(f"{_INSTALL}: there is no node on the PATH")
    # CDK's own validation of a template takes seconds and only warns; cfn-lint is among our tests.
    os.environ.setdefault("CDK_VALIDATION", "false")  # read by the Node that the import starts
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{_INSTALL}: {error}") from error
