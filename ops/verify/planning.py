"""The plan of a run of `headgate verify`: its steps, time and cost, before anything is made."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from headgate.jobs.aws.stages.deployed import DeployedStage
from headgate.jobs.definitions.app import App
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.demo.environment import REGION
from headgate.ops.verify.estimate import most_usd
from headgate.ops.verify.options import VerifyOptions
from headgate.ops.verify.project import VerifyProject
from headgate.ops.verify.report import VerifyReport, read_report
from headgate.ops.verify.steps.verify_app import make_app

_SETTINGS = "HEADGATE_"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPlan:
    """A run that hasn't begun."""

    options: VerifyOptions
    app: App
    project: VerifyProject
    report: VerifyReport
    """Empty, or that of the run that made the stage."""
    account: str
    """Of the credentials; empty on a local AWS."""


@contextmanager
def own_settings() -> Iterator[None]:
    """Hide the ``HEADGATE_*`` variables within the block: they are of the user's own app."""
    hidden = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith(_SETTINGS)}
    try:
        yield
    finally:
        os.environ.update(hidden)


def plan_of(options: VerifyOptions) -> VerifyPlan:
    """Return the plan of a run; asks AWS for the account alone.

    Raises:
        ConfigurationError: the report of an earlier run can't be read.
        TransportError: AWS could not be asked for the account.
    """
    app = make_app(options.stage)
    project = VerifyProject(
        folder=options.folder,
        stage=options.stage,
        architecture=options.architecture,
        requirements=options.requirements,
    )
    account, region = "", REGION
    if not options.is_local:
        account, region = asyncio.run(DeployedStage(project.stack).account_and_region())
    now = datetime.now(UTC)
    usd = 0.0 if options.is_local else most_usd(app, project.deployment(), options.within, now)
    report = read_report(options.report) or VerifyReport(
        stage=options.stage,
        where="local AWS" if options.is_local else "AWS",
        region=region,
        began_at=now,
        usd_estimated=round(usd, 2),
    )
    return VerifyPlan(options=options, app=app, project=project, report=report, account=account)
