"""An app with everything that can be declared, and a deployment with all that a stage may have."""

from __future__ import annotations

from datetime import timedelta

from jobs import App, Priority, cron
from jobs.deployment import Deployment, WorkerGroup
from tests.infra.conftest import Params

DEPLOYMENT = Deployment(
    workers=(WorkerGroup(), WorkerGroup(name="batch", priorities=(Priority.LOW,), spot=True)),
    alerts_to=("oncall@example.com",),
)


def everything(stage: str | None = "prod") -> App:
    """The app: standard and FIFO queues, a schedule, an event rule, long delays."""
    app = App("shop", stage=stage)
    app.define("send-email", Params, priority=Priority.HIGH, timeout=timedelta(seconds=30))
    report = app.define("report", Params, schedule=cron("0 8 * * ? *"), priority=Priority.LOW)
    ledger = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    ledger.define("book", Params, group_by=lambda params: str(params.days))
    app.on_event("order-placed", pattern={"source": ["shop"]}, type=report)
    return app
