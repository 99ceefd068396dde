"""Who may do what, and nothing more: what `jobs.aws` calls, on what an app has of its own.

No role may create, list or purge queues, or scan a table.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from jobs.aws.descriptions import LINES
from jobs.topology import PAYLOADS, RESULTS

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

UNIQUE = ("dynamodb:GetItem", "dynamodb:PutItem")
"""What submitting with ``unique_for=`` takes beside."""

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


def grant_submit(
    grantee: iam.IGrantable, queues: Sequence[sqs.IQueue], bucket: s3.IBucket
) -> iam.Grant:
    """Let ``grantee`` submit jobs to these queues, with payloads of any size."""
    put = iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["s3:PutObject"],
        resource_arns=[bucket.arn_for_objects(f"{PAYLOADS}*")],
    )
    return _grant(grantee, SUBMIT, queues).combine(put)


def grant_unique(grantee: iam.IGrantable, table: dynamodb.ITableV2) -> iam.Grant:
    """Let ``grantee`` claim in the table that what it submits counts once."""
    return iam.Grant.add_to_principal(
        grantee=grantee, actions=list(UNIQUE), resource_arns=[table.table_arn]
    )


def grant_follow(
    grantee: iam.IGrantable, table: dynamodb.ITableV2, bucket: s3.IBucket
) -> iam.Grant:
    """Let ``grantee`` ask what has become of jobs, with results of any size, and cancel them."""
    follow = iam.Grant.add_to_principal(
        grantee=grantee, actions=list(FOLLOW), resource_arns=[table.table_arn]
    )
    return follow.combine(_grant_read(grantee, bucket, RESULTS))


def grant_work(
    grantee: iam.IGrantable,
    queues: Sequence[sqs.IQueue],
    parking: Sequence[sqs.IQueue],
    table: dynamodb.ITableV2,
    bucket: s3.IBucket,
) -> iam.Grant:
    """Let ``grantee`` run the jobs of these queues, record them in the table, read payloads, and
    keep large results.

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
    keep = iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["s3:PutObject"],
        resource_arns=[bucket.arn_for_objects(f"{RESULTS}*")],
    )
    work = _grant(grantee, WORK, queues).combine(_grant(grantee, SUBMIT, parking))
    read = _grant_read(grantee, bucket, PAYLOADS)
    return work.combine(record).combine(look_up).combine(keep).combine(read)


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


def _grant_read(grantee: iam.IGrantable, bucket: s3.IBucket, prefix: str) -> iam.Grant:
    payloads = iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["s3:GetObject"],
        resource_arns=[bucket.arn_for_objects(f"{prefix}*")],
    )
    # Nothing is listed. But without this S3 says of an object that is gone that access is denied.
    # https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
    listing = iam.Grant.add_to_principal(
        grantee=grantee, actions=["s3:ListBucket"], resource_arns=[bucket.bucket_arn]
    )
    return payloads.combine(listing)
