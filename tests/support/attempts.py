"""The requests that holders of grants and roles of a stack may try, and the answers of IAM's rules.

The grants are those of an imported system, which are the same as those of a created one
(`tests/infra/test_imported_system.py`), and take no synthesis of the whole stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template
from pydantic import BaseModel

from headgate import App, Priority, cron
from headgate.infra.ijob_system import IJobSystem
from headgate.infra.job_system import JobSystem
from headgate.jobs.core.naming import (
    ASKED,
    CHILDREN,
    DEAD_LETTERS,
    JOB,
    LIMIT,
    PAYLOADS,
    RESULTS,
    SWEPT,
    UNIQUE,
    role_in,
)
from headgate.jobs.dead_letters.replaying.report import REPLAYS
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.queue_selection import QueueSelection
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.records.audit.entry import AUDIT
from headgate.jobs.records.cancellation import CANCELLATIONS
from headgate.jobs.records.fleet.worker_status import WORKER_STATUSES
from headgate.jobs.records.lives import LIVES
from headgate.jobs.schedules.bridging import SENT
from tests.support.cloudformation import ACCOUNT, REGION, arn_of, resolve
from tests.support.iam import Policies

QUEUE, TABLE, BUCKET = "AWS::SQS::Queue", "AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket"
ROLE, FUNCTION = "AWS::IAM::Role", "AWS::Lambda::Function"

GRANTS: Mapping[str, Callable[[IJobSystem, iam.IGrantable], object]] = {
    "submit": lambda system, role: system.grant_submit(role),
    "submit-unique": lambda system, role: system.grant_submit(role, unique=True),
    "follow": lambda system, role: system.grant_follow(role),
    "work-on-mail": lambda system, role: system.grant_work(
        role, selection=QueueSelection(queues=("mail",))
    ),
    "manage-schedules": lambda system, role: system.grant_manage_schedules(role),
    "view": lambda system, role: system.grant_view(role),
    "operate": lambda system, role: system.grant_operate(role),
    "operate-erase": lambda system, role: system.grant_operate(role, erase=True),
}
"""Each grant, by the word for it in the table's head."""

ROLES: Mapping[str, str] = {
    "worker": "JobsWorkersworkersRole",
    "worker-that-only-runs": "JobsWorkersquietRole",
    "consumer": "JobsConsumerpayerRole",
    "bridge": "JobsBridgeRole",
    "sweep": "JobsSweepRole",
    "schedules": "JobsSchedulesRole",
}
"""The start of the logical id of each of the stack's own roles, by the word for it in the table."""

_STACK = Deployment(
    workers=(
        WorkerGroup(queues=("mail",)),
        WorkerGroup(name="quiet", queues=("mail",), submits=False),
    ),
    consumers=(
        ConsumerGroup(
            name="payer",
            handler="attempts.handler",  # only its location matters
            source=str(Path(__file__).parent),
            queues=("money",),
        ),
    ),
)

_JOBS = ("019b76da-a800-7000-8000-000000000001", "019b76da-a800-7000-8000-000000000002")


class _Payload(BaseModel):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One thing that somebody may try."""

    label: str
    actions: Sequence[str]
    """It is allowed if each of these is."""
    resource: str
    context: Mapping[str, str | Sequence[str]]


def declared() -> App:
    """Return the app: a queue for mail, one for money, a schedule, long delays."""
    app = App("shop", stage="prod")
    app.queue("mail", priorities=[Priority.NORMAL]).define("letter", _Payload)
    money = app.queue("money", priorities=[Priority.CRITICAL])
    money.define("payout", _Payload, priority=Priority.CRITICAL, schedule=cron("0 8 * * ? *"))
    return app


def policies(app: App) -> Policies:
    """Return the policies of a role for each grant, which bears the grant's name."""
    place = cdk.Environment(account=ACCOUNT, region=REGION)
    stack = cdk.Stack(cdk.App(), "Grants", env=place)
    system = JobSystem.from_app(stack, "Jobs", app=app)
    tasks = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
    for number, (name, grant) in enumerate(GRANTS.items()):
        grant(system, iam.Role(stack, f"Role{number}", assumed_by=tasks, role_name=name))
    template = Template.from_stack(stack).to_json()
    return Policies.of(resolve(template))


def stack_policies(app: App) -> Policies:
    """Return the policies of a stack's own roles; those in `ROLES` bear their word of the table."""
    place = cdk.Environment(account=ACCOUNT, region=REGION)
    context: dict[str, Any] = {"aws:cdk:bundling-stacks": []}
    stack = cdk.Stack(cdk.App(context=context), "Stack", env=place)
    image = ecs.ContainerImage.from_registry("workers:1")
    JobSystem(stack, "Jobs", app=app, deployment=_STACK, image=image, app_path="shop.app:app")
    template = resolve(dict(Template.from_stack(stack).to_json()))
    found = Policies.of(template)
    words = {
        arn_of(ROLE, each.get("RoleName", logical_id)): arn_of(ROLE, word)
        for word, start in ROLES.items()
        for logical_id, each in template.of_type(ROLE).items()
        if logical_id.startswith(start)
    }
    return Policies(
        identity={words.get(role, role): each for role, each in found.identity.items()},
        resource=found.resource,
    )


def attempts(app: App) -> list[Attempt]:
    """Return everything that is tried, in the table's order."""
    return [
        *_on_queues(app),
        *_on_rows(app),
        *_on_objects(app),
        *_on_schedules(app),
        Attempt(
            label="invoke the bridge",
            actions=["lambda:InvokeFunction"],
            resource=arn_of(FUNCTION, app.topology.bridge_name),
            context={},
        ),
    ]


def allowed(found: Policies, grant: str, attempt: Attempt) -> bool:
    """Return True if the holder of a grant, or a role of the stack, may do it."""
    keys = {name.replace(":", "__"): value for name, value in attempt.context.items()}
    role = arn_of(ROLE, grant)
    return all(found.allows(role, each, attempt.resource, **keys) for each in attempt.actions)


def _on_queues(app: App) -> list[Attempt]:
    topology = app.topology
    mail, money = topology.queue("mail"), topology.queue("money")
    tried = [
        ("send to the queue of mail", "sqs:SendMessage", mail.name),
        ("send to the queue of money", "sqs:SendMessage", money.name),
        ("receive from the queue of mail", "sqs:ReceiveMessage", mail.name),
        ("receive from the queue of money", "sqs:ReceiveMessage", money.name),
        ("see how many jobs of mail wait", "sqs:GetQueueAttributes", mail.name),
        ("see how many jobs of mail are dead", "sqs:GetQueueAttributes", mail.dlq_name),
        ("look at a dead letter", "sqs:ReceiveMessage", mail.dlq_name),
        ("park a dead letter of mail", "sqs:SendMessage", mail.dlq_name),
        ("park a dead letter of money", "sqs:SendMessage", money.dlq_name),
        ("delete a dead letter", "sqs:DeleteMessage", money.dlq_name),
        ("purge a queue", "sqs:PurgeQueue", mail.name),
        ("send to another stage's queue", "sqs:SendMessage", "shop-dev-mail-normal"),
    ]
    return [
        Attempt(label=label, actions=[action], resource=arn_of(QUEUE, name), context={})
        for label, action, name in tried
    ]


def _on_rows(app: App) -> list[Attempt]:
    one, other = _JOBS
    tried: list[tuple[str, str, Sequence[str]]] = [
        ("read a job's history", "Query", [f"{JOB}{one}"]),
        ("write a job's history, result or claim", "PutItem", [f"{JOB}{one}"]),
        (
            "the same of many jobs, or delete them",
            "BatchWriteItem",
            [f"{JOB}{one}", f"{JOB}{other}"],
        ),
        ("ask for a cancellation", "PutItem", [CANCELLATIONS]),
        ("take cancellations back", "BatchWriteItem", [CANCELLATIONS]),
        ("write what is shown of a request", "PutItem", [f"{ASKED}{one}"]),
        ("read which children a job has", "Query", [f"{CHILDREN}{one}"]),
        ("enter a job among another's children", "PutItem", [f"{CHILDREN}{one}"]),
        (
            "enter it in one batch with the record of its submission",
            "BatchWriteItem",
            [f"{ASKED}{other}", f"{CHILDREN}{one}"],
        ),
        (
            "put a job's history beside a request in one batch",
            "BatchWriteItem",
            [f"{ASKED}{one}", f"{JOB}{one}"],
        ),
        ("claim a unique key", "PutItem", [f"{UNIQUE}1"]),
        ("take a limit's leases", "PutItem", [f"{LIMIT}stripe"]),
        ("write another worker's life", "PutItem", [LIVES]),
        ("read the workers' statuses", "Query", [WORKER_STATUSES]),
        ("write another worker's status", "PutItem", [WORKER_STATUSES]),
        ("read the replays", "Query", [REPLAYS]),
        ("write of a replay", "PutItem", [REPLAYS]),
        ("read the audit", "Query", [AUDIT]),
        ("enter something into the audit", "PutItem", [AUDIT]),
        ("delete an entry of the audit", "BatchWriteItem", [AUDIT]),
        ("put an entry beside a request in one batch", "BatchWriteItem", [AUDIT, CANCELLATIONS]),
        ("mark a firing as sent", "PutItem", [f"{SENT}{one}"]),
        ("delete a unique key's claim", "BatchWriteItem", [f"{UNIQUE}1"]),
        ("write the sweep's notes", "PutItem", [f"{SWEPT}shop-prod-mail-normal"]),
        ("read everything: a scan", "Scan", []),
    ]
    table = arn_of(TABLE, app.topology.table_name)
    return [
        Attempt(
            label=label,
            actions=[f"dynamodb:{action}"],
            resource=table,
            context={"dynamodb:LeadingKeys": rows} if rows else {},
        )
        for label, action, rows in tried
    ]


def _on_objects(app: App) -> list[Attempt]:
    bucket = arn_of(BUCKET, app.topology.bucket.name_in(ACCOUNT, REGION))
    one = _JOBS[0]
    new = {"s3:if-none-match": "*"}
    tried: list[tuple[str, str, str, Mapping[str, str]]] = [
        ("store a payload", "s3:PutObject", f"{PAYLOADS}{one}", new),
        ("replace a payload", "s3:PutObject", f"{PAYLOADS}{one}", {}),
        ("read a payload", "s3:GetObject", f"{PAYLOADS}{one}", {}),
        ("store a large result", "s3:PutObject", f"{RESULTS}{one}/payout", new),
        ("read a large result", "s3:GetObject", f"{RESULTS}{one}/payout", {}),
        ("keep a copy of a dead letter", "s3:PutObject", f"{DEAD_LETTERS}1", {}),
        ("read the copy of a dead letter", "s3:GetObject", f"{DEAD_LETTERS}1", {}),
        ("delete a payload, a result or a copy", "s3:DeleteObject", f"{PAYLOADS}{one}", {}),
        ("delete any other object", "s3:DeleteObject", "other/1", {}),
    ]
    return [
        Attempt(label=label, actions=[action], resource=f"{bucket}/{key}", context=context)
        for label, action, key, context in tried
    ]


def _on_schedules(app: App) -> list[Attempt]:
    group = f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/{app.topology.schedule_group}"
    tried = [
        ("create the schedule of a delayed job", "CreateSchedule", "delay.1"),
        ("read the schedule of a delayed job", "GetSchedule", "delay.1"),
        ("change the schedule of a delayed job", "UpdateSchedule", "delay.1"),
        ("delete the schedule of a delayed job", "DeleteSchedule", "delay.1"),
        ("create a schedule at run time", "CreateSchedule", "dynamic.own"),
        ("pause a declared schedule", "UpdateSchedule", "payout"),
        ("delete a declared schedule", "DeleteSchedule", "payout"),
        ("change a schedule that nobody declared", "UpdateSchedule", "other"),
    ]
    passed: dict[str, Any] = {"iam:PassedToService": "scheduler.amazonaws.com"}
    role = arn_of(ROLE, role_in(app.topology.scheduler_role, REGION))
    return [
        *(
            Attempt(
                label=label,
                actions=[f"scheduler:{action}"],
                resource=f"{group}/{name}",
                context={},
            )
            for label, action, name in tried
        ),
        Attempt(
            label="hand a schedule the app's role",
            actions=["iam:PassRole"],
            resource=role,
            context=passed,
        ),
        Attempt(
            label="hand a schedule another role",
            actions=["iam:PassRole"],
            resource=arn_of(ROLE, "admin"),
            context=passed,
        ),
    ]
