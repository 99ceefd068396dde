"""An app and a deployment to be exported, without CDK."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from headgate import App, Existing, ExistingQueue, Priority
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.surroundings import Sidecar
from headgate.ops.export.artifacts import ExportOrigin
from headgate.ops.export.target import Target

ORIGIN = ExportOrigin(
    command="headgate export", app="shop-prod", version="1.2.3", notes=("A note.",)
)
ACCOUNT, REGION = "111122223333", "eu-central-1"
SOURCE = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:db-AbCdEf"


class Params(BaseModel):
    """A payload."""

    days: int = 1


def shop(stage: str | None = "prod") -> App:
    """Return an app with a queue group of two priorities, and a FIFO queue."""
    app = App("shop", stage=stage)
    app.define("send-email", Params, priority=Priority.HIGH, timeout=timedelta(seconds=30))
    app.define("report", Params, priority=Priority.LOW)
    ledger = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])
    ledger.define("book", Params, group_by=lambda params: str(params.days))
    return app


LETTERS = f"arn:aws:sqs:{REGION}:999999999999:letters"
EXISTING = Existing(
    queues={
        "orders": {"normal": ExistingQueue(queue="orders", dead_letters="orders-dead")},
        "mail": {"normal": ExistingQueue(queue=LETTERS)},
    },
    table="their-table",
    bucket="their-bucket",
)


def moved_in() -> App:
    """Return an app with a queue of another account, and one of its own account's."""
    app = App("shop", stage="prod", existing=EXISTING)
    app.queue("orders", priorities=["normal"]).define("place-order", Params)
    app.queue("mail", priorities=["normal"]).define("send-letter", Params)
    return app


GROUPS = (
    WorkerGroup(name="urgent", priorities=(Priority.HIGH, Priority.NORMAL), min_tasks=2),
    WorkerGroup(
        name="rest",
        priorities=(Priority.LOW,),
        min_tasks=0,
        processes=2,
        cpu=512,
        memory_mib=1024,
        stop_timeout=timedelta(seconds=90.5),
        environment={"PRICE": "$5 at 100%"},
        secrets={"DATABASE_PASSWORD": SOURCE},
        sidecars=(Sidecar(name="traces", image="otel:1", environment={"LEVEL": "info"}),),
    ),
)


def target(**changes: Any) -> Target:
    """Return the shop's workers in an account and region."""
    made: dict[str, Any] = {
        "app": shop(),
        "app_path": "shop.app:app",
        "deployment": Deployment(workers=GROUPS, environment={"CURRENCY": "EUR"}),
        "account": ACCOUNT,
        "region": REGION,
    }
    return Target(**(made | changes))
