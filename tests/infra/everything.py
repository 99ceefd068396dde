"""An app with everything that can be declared, and a deployment with all that a stage may have."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from aws_cdk import aws_ecs as ecs

from headgate import App, Priority, cron
from headgate.jobs.deployment.alarms.mutes import MuteWindow
from headgate.jobs.deployment.alarms.thresholds import QueueThresholds, Thresholds
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.pollers import ProvisionedPollers
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.surroundings import Hardening, Sidecar
from tests.infra.conftest import Params

GROUPS = ("jobs", "ledger")

DEPLOYMENT = Deployment(
    workers=(
        WorkerGroup(queues=GROUPS, sidecars=(Sidecar(name="traces", image="collector:1"),)),
        WorkerGroup(
            name="batch", queues=GROUPS, priorities=(Priority.LOW,), min_tasks=0, spot=True
        ),
    ),
    consumers=(
        ConsumerGroup(
            name="mailer",
            handler="everything.handler",  # only its location matters
            source=str(Path(__file__).parent),
            queues=("mail",),
            pollers=ProvisionedPollers(),
            tracing=True,
        ),
    ),
    alerts_to=("oncall@example.com",),
    tickets_to=("shop-team@example.com",),
    alarms=Thresholds(by_tenant=True, queues={"mail": QueueThresholds(depth=100)}),
    mutes=(MuteWindow(schedule="cron(0 22 * * *)", duration=8 * 3_600, timezone="Europe/Berlin"),),
    # Not the default security group, whose function of CDK's has a policy of AWS's own.
    hardening=Hardening(flow_logs=True, endpoint_policies=True, egress=True),
    budget_of="stage",
    protected=True,
)

_IMAGE = ecs.ContainerImage.from_asset(str(Path(__file__).parents[2] / "workers"))

ON_AWS: dict[str, Any] = {"deployment": DEPLOYMENT, "image": _IMAGE, "app_path": "shop.app:app"}
"""The arguments of its `JobSystem`. Nothing is run, so no image is built."""


def everything(stage: str | None = "prod", **options: Any) -> App:
    """Return an app with everything that can be declared; ``options`` are those of `App`.

    It has standard and FIFO queues, one of them a function's, a schedule, an event rule and long
    delays.
    """
    app = App("shop", stage=stage, priorities="all", **options)
    app.define("send-email", Params, priority=Priority.HIGH, timeout=timedelta(seconds=30))
    report = app.define("report", Params, schedule=cron("0 8 * * ? *"), priority=Priority.LOW)
    ledger = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    ledger.define("book", Params, group_by=lambda params: str(params.days))
    mail = app.queue("mail", priorities=[Priority.NORMAL])
    mail.define("send-letter", Params, timeout=timedelta(seconds=20))
    app.event_rule("order-placed", pattern={"source": ["shop"]}, job=report)
    return app
