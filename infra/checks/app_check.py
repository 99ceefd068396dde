"""``headgate check`` at synthesis: an app with faults gets no template."""

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
    """The warnings of an app that is fit to be deployed so.

    Raises:
        AppFaulty: it isn't; all its errors are told at once.
    """
    faults = check(app, now, deployment)
    if errors := [fault for fault in faults if fault.severity == "error"]:
        told = "".join(f"\n- {fault}" for fault in errors)
        raise AppFaulty(f"the app {app.name!r} is not fit to be deployed:{told}", errors)
    return faults


def warn(construct: IConstruct, faults: Iterable[Fault]) -> None:
    """Have CDK's command line show these with the synthesis.

    ``cdk synth --strict`` refuses them; ``Annotations.of(...).acknowledge_warning`` takes the id,
    ``headgate:RULE:WHERE``.
    """
    for fault in faults:
        identity = f"headgate:{fault.rule}:{fault.where}"
        Annotations.of(construct).add_warning_v2(identity, str(fault))
