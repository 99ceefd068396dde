"""Least-privilege permissions: the actions that `jobs.aws` calls, on an app's own resources.

No role may create, list or purge queues, nor scan a table, but to erase data. Dead letters are
deleted one by one, as they were inspected; PurgeQueue would also delete those that arrive
meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Token
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from headgate.infra.data import table_rows
from headgate.infra.data.encryption import grant_key_use, queue_keys
from headgate.infra.data.nag_suppressions import acknowledge_wildcard
from headgate.jobs.aws.descriptions import LINES
from headgate.jobs.core.naming import DEAD_LETTERS, EARLIER_RESULTS, PAYLOADS, RESULTS
from headgate.jobs.errors import ConfigurationError

SUBMIT = ("sqs:SendMessage", "sqs:GetQueueUrl")
"""Submitting to a queue."""

WORK = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
)
"""Running a queue's jobs."""

DEPTHS = ("sqs:GetQueueAttributes", "sqs:GetQueueUrl")
"""Counting a queue's messages."""

_MOST_QUEUES = 36
"""Queues of one statement. CDK splits a role's policy between statements alone, into managed ones
of at most 6,144 characters, and an ARN of a queue may have 127."""

_MOST_SCHEDULES = 34
"""Schedules of one statement, likewise. With the name of its group, an ARN of one may have 165
characters, and CDK reckons with 150: so many that no policy takes a second such statement, not even
the inline one of up to 10,000, and few enough for a managed one by themselves."""

_CARRY = frozenset({"sqs:SendMessage", "sqs:ReceiveMessage"})
"""Actions that encrypt or decrypt messages, and so need the key of a queue.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html"""

UNIQUE = ("dynamodb:GetItem", "dynamodb:PutItem")
"""Submitting with ``unique=``, in addition to `SUBMIT`."""

ENTER = ("dynamodb:PutItem", "dynamodb:BatchWriteItem")
"""Recording submissions, of types with ``records="full"``."""

LOOK = ("dynamodb:GetItem", "dynamodb:Query")
"""Reading the table."""

ASK = ("dynamodb:PutItem",)
"""Requesting the cancellation of a job; nothing that deletes, as BatchWriteItem may."""

ENTER_AUDIT = ("dynamodb:PutItem",)
"""Writing entries of the audit; nothing that deletes. IAM can't tell a PutItem that replaces an
item from one that creates it, so the condition on it is the client's."""

RECORD = (*LOOK, "dynamodb:PutItem", "dynamodb:BatchWriteItem")
"""Keeping records of jobs, claims and limits."""

PEEK = ("sqs:ReceiveMessage", "sqs:ChangeMessageVisibility", "sqs:DeleteMessage")
"""Inspecting dead letters, making them visible again, and deleting those that were replayed."""

CHANGE_ROWS = ("dynamodb:PutItem", "dynamodb:BatchWriteItem")
"""Writing the rows that are an operator's."""

FIND = ("dynamodb:Scan",)
"""Finding a tenant's rows, which no key and no list does."""

FORGET = ("dynamodb:BatchWriteItem", "dynamodb:PutItem")
"""Deleting the rows of jobs, and emptying their claims."""

DELAY = ("scheduler:CreateSchedule", "scheduler:GetSchedule", "scheduler:DeleteSchedule")
"""Creating and deleting schedules, and reading one of the same name; creating a schedule also takes
passing its role."""

CHANGE = ("scheduler:GetSchedule", "scheduler:UpdateSchedule")
"""Reading, pausing and changing schedules."""


def check_account(grantee: iam.IGrantable, account: str, app: str) -> None:
    """Refuse a principal of another account, which the resources' own policies don't let in.

    Args:
        grantee: the principal.
        account: the account of the app's system; nothing is refused if it is a token.
        app: the app's name.

    Raises:
        ConfigurationError: the principal is of another account.
    """
    theirs = grantee.grant_principal.principal_account
    if theirs is None or Token.is_unresolved(theirs) or Token.is_unresolved(account):
        return
    if theirs != account:
        raise ConfigurationError(
            f"the system of {app!r} is in the account {account}, and a role of {theirs} can't be "
            "granted access to it: grant it to a role of its own account, and let your code assume "
            "that one"
        )


def grant_submit(
    grantee: iam.IGrantable, queues: Sequence[sqs.IQueue], bucket: s3.IBucket
) -> iam.Grant:
    """Let ``grantee`` submit jobs to these queues, with payloads of any size."""
    return _grant(grantee, SUBMIT, queues).combine(_grant_create(grantee, bucket, PAYLOADS))


def grant_enter(grantee: iam.IGrantable, table: dynamodb.ITableV2) -> iam.Grant:
    """Let ``grantee`` record its submissions."""
    return _grant_rows(grantee, ENTER, table, table_rows.ENTERED)


def grant_unique(grantee: iam.IGrantable, table: dynamodb.ITableV2) -> iam.Grant:
    """Let ``grantee`` claim unique jobs in the table."""
    return _grant_rows(grantee, UNIQUE, table, table_rows.CLAIMED_KEYS)


def grant_follow(
    grantee: iam.IGrantable, table: dynamodb.ITableV2, bucket: s3.IBucket
) -> iam.Grant:
    """Let ``grantee`` read the outcomes of jobs, with results of any size, and cancel them."""
    read = _grant_rows(grantee, ("dynamodb:Query",), table, table_rows.HISTORY)
    ask = _grant_rows(grantee, ASK, table, table_rows.REQUESTS)
    results = _grant_read(grantee, bucket, RESULTS, EARLIER_RESULTS)
    return read.combine(ask).combine(grant_audited(grantee, table)).combine(results)


def grant_audited(grantee: iam.IGrantable, table: dynamodb.ITableV2) -> iam.Grant:
    """Let ``grantee`` enter what it does into the audit, which it has to before it does it."""
    return _grant_rows(grantee, ENTER_AUDIT, table, table_rows.AUDITED)


def grant_work(
    grantee: iam.IGrantable,
    queues: Sequence[sqs.IQueue],
    parking: Sequence[sqs.IQueue],
    table: dynamodb.ITableV2,
    bucket: s3.IBucket,
) -> iam.Grant:
    """Let ``grantee`` run the jobs of these queues.

    It may resend them before SQS deletes them, record them in the table, read payloads and renew
    their expiry, and store large results. ``parking`` are the queues for jobs that are given up:
    the dead-letter queues and the quarantine, whose depths its metrics show.
    """
    record = (
        _grant_rows(grantee, RECORD, table, table_rows.WORKED)
        .combine(_grant_rows(grantee, LOOK, table, table_rows.WATCHED))
        .combine(_grant_rows(grantee, UNIQUE, table, table_rows.CLAIMED_KEYS))
    )
    listed = _grant_lines(grantee, table)
    keep = _grant_put(grantee, bucket, PAYLOADS, RESULTS)
    work = _grant(grantee, WORK, queues).combine(_grant(grantee, SUBMIT, queues))
    park = _grant(grantee, ("sqs:GetQueueAttributes", *SUBMIT), parking)
    read = _grant_read(grantee, bucket, PAYLOADS)
    return work.combine(park).combine(record).combine(listed).combine(keep).combine(read)


def grant_view(
    grantee: iam.IGrantable, queues: Sequence[sqs.IQueue], table: dynamodb.ITableV2
) -> iam.Grant:
    """Let ``grantee`` see jobs, queues, workers, pauses, replays and the audit, and change nothing.

    Of dead letters it sees their number and their records alone: receiving a message hides it from
    others, and shows its payload.
    """
    depths = _grant(grantee, DEPTHS, queues)
    rows = _grant_rows(grantee, LOOK, table, table_rows.VIEWED)
    return (
        depths.combine(rows).combine(_grant_lines(grantee, table)).combine(_grant_metrics(grantee))
    )


def grant_operate(
    grantee: iam.IGrantable,
    queues: Sequence[sqs.IQueue],
    set_aside: Sequence[sqs.IQueue],
    table: dynamodb.ITableV2,
    bucket: s3.IBucket,
) -> iam.Grant:
    """Let ``grantee`` inspect and pause queues, cancel jobs, and handle messages set aside.

    It may inspect, replay, delete and import these: dead letters, the quarantine, and messages that
    could not become jobs; and save copies of them in the bucket, and restore these with their
    payloads. It may not receive from any other queue, so running jobs are out of its reach.
    """
    depths = _grant(grantee, ("sqs:GetQueueAttributes", *SUBMIT), queues)
    dead = _grant(grantee, ("sqs:GetQueueAttributes", *SUBMIT, *PEEK), set_aside)
    read = _grant_table(grantee, LOOK, table).combine(_grant_lines(grantee, table))
    write = _grant_rows(grantee, CHANGE_ROWS, table, table_rows.OPERATED).combine(
        grant_audited(grantee, table)
    )
    read_objects = _grant_read(grantee, bucket, PAYLOADS, RESULTS, DEAD_LETTERS)
    put = _grant_put(grantee, bucket, DEAD_LETTERS)
    objects = read_objects.combine(put).combine(_grant_create(grantee, bucket, PAYLOADS))
    granted = depths.combine(dead).combine(read).combine(write).combine(objects)
    return granted.combine(_grant_metrics(grantee))


def grant_erase(grantee: iam.IGrantable, table: dynamodb.ITableV2, bucket: s3.IBucket) -> iam.Grant:
    """Let ``grantee``, who operates the app, delete all that is kept of a tenant's jobs.

    It may scan the table, and delete the rows of jobs, payloads, results and copies of dead
    letters, which alone tell whose they are.
    """
    found = _grant_table(grantee, FIND, table)
    rows = _grant_rows(grantee, FORGET, table, table_rows.HISTORY)
    objects = (PAYLOADS, RESULTS, DEAD_LETTERS)
    deleted = _grant_objects(grantee, "s3:DeleteObject", bucket, objects)
    return found.combine(rows).combine(deleted)


def grant_schedules(
    grantee: iam.IGrantable, actions: Sequence[str], schedules: Sequence[str], role_arn: str
) -> iam.Grant:
    """Allow ``actions`` on schedules of these ARNs, and passing the role that they assume."""
    scheduling = _grant_each(grantee, actions, schedules, most=_MOST_SCHEDULES)
    passing = iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["iam:PassRole"],
        resource_arns=[role_arn],
        conditions={"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
    )
    for pattern in schedules:
        if "*" in pattern:
            acknowledge_wildcard(grantee, pattern, "Schedules are named after future jobs")
    return scheduling.combine(passing)


def grant_listing(grantee: iam.IGrantable) -> iam.Grant:
    """Let ``grantee`` list schedules. The permission covers all groups: it can't be narrowed.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoneventbridgescheduler.html
    """
    acknowledge_wildcard(grantee, "*", "scheduler:ListSchedules takes no narrower resource")
    return iam.Grant.add_to_principal(
        grantee=grantee, actions=["scheduler:ListSchedules"], resource_arns=["*"]
    )


def statement(actions: Sequence[str], *resources: str) -> iam.PolicyStatement:
    """Allow these actions on the resources of these ARNs."""
    return iam.PolicyStatement(actions=list(actions), resources=list(resources))


def rows_statement(
    actions: Sequence[str], table: dynamodb.ITableV2, rows: Sequence[str]
) -> iam.PolicyStatement:
    """Allow these actions on the items of these partitions alone."""
    return iam.PolicyStatement(
        actions=list(actions),
        resources=[table.table_arn],
        conditions=table_rows.condition(rows),
    )


def _grant(
    grantee: iam.IGrantable, actions: Sequence[str], queues: Sequence[sqs.IQueue]
) -> iam.Grant:
    grant = _grant_each(grantee, actions, [each.queue_arn for each in queues], most=_MOST_QUEUES)
    for key in queue_keys(queues) if not _CARRY.isdisjoint(actions) else ():
        grant = grant_key_use(grant, grantee, key, "sqs")
    return grant


def _grant_each(
    grantee: iam.IGrantable, actions: Sequence[str], resources: Sequence[str], *, most: int
) -> iam.Grant:
    """Allow actions on the resources of these ARNs, at most so many in a statement."""
    grant = iam.Grant.drop(grantee, "there is no resource")
    for at in range(0, len(resources), most):
        added = iam.Grant.add_to_principal(
            grantee=grantee, actions=list(actions), resource_arns=list(resources[at : at + most])
        )
        grant = grant.combine(added)
    return grant


def _grant_table(
    grantee: iam.IGrantable, actions: Sequence[str], table: dynamodb.ITableV2
) -> iam.Grant:
    grant = iam.Grant.add_to_principal(
        grantee=grantee, actions=list(actions), resource_arns=[table.table_arn]
    )
    return grant_key_use(grant, grantee, table.encryption_key, "dynamodb")


def _grant_rows(
    grantee: iam.IGrantable,
    actions: Sequence[str],
    table: dynamodb.ITableV2,
    rows: Sequence[str],
) -> iam.Grant:
    """Allow actions on the items of these partitions alone, by their names or patterns."""
    grant = iam.Grant.add_to_principal(
        grantee=grantee,
        actions=list(actions),
        resource_arns=[table.table_arn],
        conditions=table_rows.condition(rows),
    )
    return grant_key_use(grant, grantee, table.encryption_key, "dynamodb")


def _grant_lines(grantee: iam.IGrantable, table: dynamodb.ITableV2) -> iam.Grant:
    """Let ``grantee`` query the table's index, which lists the jobs."""
    return iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["dynamodb:Query"],
        resource_arns=[f"{table.table_arn}/index/{LINES}"],
    )


def _grant_metrics(grantee: iam.IGrantable) -> iam.Grant:
    """Let ``grantee`` read metrics. The permission covers all of the account: it can't be narrowed.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoncloudwatch.html
    """
    acknowledge_wildcard(grantee, "*", "cloudwatch:GetMetricData takes no narrower resource")
    return iam.Grant.add_to_principal(
        grantee=grantee, actions=["cloudwatch:GetMetricData"], resource_arns=["*"]
    )


def _grant_put(grantee: iam.IGrantable, bucket: s3.IBucket, *prefixes: str) -> iam.Grant:
    return _grant_objects(grantee, "s3:PutObject", bucket, prefixes)


def _grant_create(grantee: iam.IGrantable, bucket: s3.IBucket, *prefixes: str) -> iam.Grant:
    """Let ``grantee`` put objects, and replace none.

    The parts of a multipart upload have no such header, and are thus denied.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
    """
    absent = {"Null": {"s3:if-none-match": "false"}}
    return _grant_objects(grantee, "s3:PutObject", bucket, prefixes, conditions=absent)


def _grant_objects(
    grantee: iam.IGrantable,
    action: str,
    bucket: s3.IBucket,
    prefixes: Sequence[str],
    *,
    conditions: Mapping[str, Mapping[str, str]] | None = None,
) -> iam.Grant:
    objects = [bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes]
    for pattern in objects:
        acknowledge_wildcard(grantee, pattern, "Objects are named after future jobs")
    grant = iam.Grant.add_to_principal(
        grantee=grantee, actions=[action], resource_arns=objects, conditions=conditions
    )
    return grant_key_use(grant, grantee, bucket.encryption_key, "s3")


def _grant_read(grantee: iam.IGrantable, bucket: s3.IBucket, *prefixes: str) -> iam.Grant:
    objects = _grant_objects(grantee, "s3:GetObject", bucket, prefixes)
    # Only operators list, but without it S3 answers "access denied" for an object that is gone.
    # https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
    listing = iam.Grant.add_to_principal(
        grantee=grantee, actions=["s3:ListBucket"], resource_arns=[bucket.bucket_arn]
    )
    return objects.combine(listing)
