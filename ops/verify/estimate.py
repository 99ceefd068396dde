"""The most that a run of `headgate verify` on AWS costs, by the model of `headgate cost`."""

from __future__ import annotations

from datetime import datetime, timedelta

from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.ops.costing.estimate import estimate
from headgate.ops.costing.load import Load
from headgate.ops.prices import IMAGE, MONTH_S

DEPLOYING = timedelta(minutes=30)
"""Time for creating the stack and deleting it, which is paid for, too."""

_JOBS = 200_000
"""Jobs of a month that submits at the rate of a run."""

_IMAGE_GB = 0.2
"""The image of the workers, which CDK's bootstrap keeps in its repository."""


def most_usd(app: App, deployment: Deployment, within: timedelta, now: datetime) -> float:
    """Return the costs of a stage that stands for that long, in USD, without any free tier.

    All is taken to be billed by its share of a month, and the image for a whole one.

    Args:
        app: the app.
        deployment: its stage's.
        within: the bound of the run, without the time for deploying.
        now: the time; aware.
    """
    month = estimate(app, deployment, Load(jobs=_JOBS), now=now).bill.usd
    share = (within + DEPLOYING).total_seconds() / MONTH_S
    return month * share + IMAGE.of(_IMAGE_GB)
