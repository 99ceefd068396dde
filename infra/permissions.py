"""Who may do what, and nothing more: what `jobs.aws` calls, on an app's own queues and table.

No role may create, list or purge queues, or scan a table.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs

from jobs.aws.provision import LINES

SUBMIT = ("sqs:SendMessage", "sqs:GetQueueUrl")
"""What submitting to a queue takes."""

WORK = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
)
"""What running a queue's jobs takes."""

FOLLOW = ("dynamodb:Query", "dynamodb:BatchWriteItem")
"""What the handle of a job takes: reading its records, and asking for its cancellation."""

RECORD = (
    "dynamodb:GetItem",
    "dynamodb:Query",
    "dynamodb:PutItem",
    "dynamodb:BatchWriteItem",
)
"""What keeping records of them takes."""


DELAY = ("scheduler:CreateSchedule", "scheduler:DeleteSchedule")
"""What making and removing schedules takes; who makes one also hands it its role."""

CHANGE = ("scheduler:GetSchedule", "scheduler:UpdateSchedule")
"""What reading, pausing and changing schedules takes."""


def grant_submit(grantee: iam.IGrantable, queues: Sequence[sqs.IQueue]) -> iam.Grant:
    """Let ``grantee`` submit jobs to these queues."""
    return _grant(grantee, SUBMIT, queues)


def grant_follow(grantee: iam.IGrantable, table: dynamodb.ITableV2) -> iam.Grant:
    """Let ``grantee`` ask what has become of jobs, and cancel them."""
    return iam.Grant.add_to_principal(
        grantee=grantee, actions=list(FOLLOW), resource_arns=[table.table_arn]
    )


def grant_work(
    grantee: iam.IGrantable,
    queues: Sequence[sqs.IQueue],
    parking: Sequence[sqs.IQueue],
    table: dynamodb.ITableV2,
) -> iam.Grant:
    """Let ``grantee`` run the jobs of these queues, and record them in the table.

    ``parking`` is where it may move what it gives up: the dead-letter queues and the quarantine.
    """
    record = iam.Grant.add_to_principal(
        grantee=grantee, actions=list(RECORD), resource_arns=[table.table_arn]
    )
    look_up = iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["dynamodb:Query"],
        resource_arns=[f"{table.table_arn}/index/{LINES}"],
    )
    work = _grant(grantee, WORK, queues).combine(_grant(grantee, SUBMIT, parking))
    return work.combine(record).combine(look_up)


def grant_schedules(
    grantee: iam.IGrantable, actions: Sequence[str], schedules: Sequence[str], role: iam.IRole
) -> iam.Grant:
    """Let ``grantee`` do this to schedules of these ARNs, which assume that role."""
    scheduling = iam.Grant.add_to_principal(
        grantee=grantee, actions=list(actions), resource_arns=list(schedules)
    )
    passing = iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["iam:PassRole"],
        resource_arns=[role.role_arn],
        conditions={"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
    )
    return scheduling.combine(passing)


def grant_listing(grantee: iam.IGrantable) -> iam.Grant:
    """Let ``grantee`` list schedules. That takes the names of all groups, or none.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoneventbridgescheduler.html
    """
    return iam.Grant.add_to_principal(
        grantee=grantee, actions=["scheduler:ListSchedules"], resource_arns=["*"]
    )


def statement(actions: Sequence[str], *resources: str) -> iam.PolicyStatement:
    """Allow these actions on the resources of these ARNs."""
    return iam.PolicyStatement(actions=list(actions), resources=list(resources))


def _grant(
    grantee: iam.IGrantable, actions: Sequence[str], queues: Sequence[sqs.IQueue]
) -> iam.Grant:
    return iam.Grant.add_to_principal(
        grantee=grantee,
        actions=list(actions),
        resource_arns=[queue.queue_arn for queue in queues],
    )
