"""``headgate check`` at synthesis: an app with errors gets no template."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from aws_cdk import Annotations
from constructs import IConstruct

from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.checks.check import check
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import AppFaulty, Fault


def passed(app: App, deployment: Deployment, now: datetime) -> list[Fault]:
    """Return the warnings for an app that is fit for this deployment.

    Raises:
        AppFaulty: it isn't; the message has all errors at once.
    """
    faults = check(app, now, deployment)
    if errors := [fault for fault in faults if fault.severity == "error"]:
        told = "".join(f"\n- {fault}" for fault in errors)
        raise AppFaulty(f"the app {app.name!r} can't be deployed:{told}", errors)
    return faults


def warn(construct: IConstruct, faults: Iterable[Fault]) -> None:
    """Show faults as warnings of CDK's command line.

    ``cdk synth --strict`` turns them into errors. To acknowledge one, pass its id,
    ``headgate:RULE:WHERE``, to ``Annotations.of(...).acknowledge_warning``.
    """
    for fault in faults:
        identity = f"headgate:{fault.rule}:{fault.where}"
        Annotations.of(construct).add_warning_v2(identity, str(fault))
