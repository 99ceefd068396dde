"""The sweep: `lambdas.sweep.handler`, run every few minutes with a role of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data.alert_topic import Alerts
from headgate.infra.data.encryption import key_use, queue_key_use
from headgate.infra.data.log_groups import add_log_group
from headgate.infra.data.nag_suppressions import acknowledge, acknowledge_wildcard
from headgate.infra.data.permissions import rows_statement, statement
from headgate.infra.data.queues import Queues
from headgate.infra.data.signing_key import read_statements, secret_variable
from headgate.infra.data.table_rows import RESENDING, SWEEPING
from headgate.infra.functions.periodic import invoke_every
from headgate.infra.functions.pip_install import OLDER_RUNTIME, RUNTIME
from headgate.infra.roles.own_role import own_role
from headgate.jobs.core.naming import DEAD_LETTERS, PAYLOADS
from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.resource_names import FUNCTION_MEMORY_MB
from headgate.jobs.deployment.sweep_plan import EVERY, TIMEOUT, SweepPlan, plan_input
from headgate.jobs.records.cancellation import CANCELLATIONS

_HANDLER = "headgate.lambdas.sweep.handler.handler"
_RETRIES = 1  # the next sweep comes soon anyway, and does what this one could not

PEEK = (
    "sqs:ReceiveMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
)
"""Inspecting a queue's messages and making them visible again; nothing that deletes any."""

RESEND = ("sqs:SendMessage", "sqs:GetQueueUrl")
"""Sending dead letters back, as policies have it."""

REMEMBER = ("dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:BatchWriteItem")
"""Remembering the known messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resending:
    """The queues and the key with which the sweep sends dead letters back by policies."""

    feeds: Sequence[sqs.IQueue]
    """The queues that they are sent to; likewise ``letters``, where they lie, and no other."""
    letters: Sequence[sqs.IQueue]
    signing_key: secretsmanager.ISecret | None
    """The secret with the key, if the app's messages are signed."""

    @classmethod
    def of(
        cls,
        plan: SweepPlan,
        topology: Topology,
        queues: Queues,
        signing_key: secretsmanager.ISecret | None,
    ) -> Self | None:
        """Return what a plan's policies need; None if it has none."""
        if plan.replay is None:
            return None
        groups = {group.name for group in plan.replay.groups}
        names = [spec.name for spec in topology.queues if spec.group in groups]
        return cls(
            feeds=[queues.named(name) for name in names],
            letters=[queues.dead_letters[name] for name in names],
            signing_key=signing_key,
        )


class Sweep(Construct):
    """The function that sweeps the dead letters, and the schedule that invokes it.

    A lease in the table lets one sweep work at a time. No concurrency is reserved: AWS requires an
    account to keep a minimum unreserved, which in a new account is all there is, and the deployment
    would fail.
    https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html

    Args:
        name: the function's name, by which people invoke it in between.
        code: the asset.
        plan: the queues to inspect, and the critical ones.
        parking: the queues of the plan; its role reaches no other.
        failed: a standard queue for the invocations of sweeps that failed.
        table: the table in which it remembers messages.
        bucket: the bucket for copies of messages that SQS is about to delete.
        alerts: the topics for its alerts.
        log_days: days for which its log is kept.
        resending: what it sends back by policies; None: nothing.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        code: lambda_.Code,
        plan: SweepPlan,
        parking: Sequence[sqs.IQueue],
        failed: sqs.IQueue,
        table: dynamodb.ITableV2,
        bucket: s3.IBucket,
        alerts: Alerts,
        log_days: int,
        resending: Resending | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        log_group = add_log_group(self, log_days)
        own = [
            statement(PEEK, *(queue.queue_arn for queue in parking)),
            rows_statement(REMEMBER, table, SWEEPING),
            *_copying(bucket),
            statement(["sns:Publish"], alerts.topic.topic_arn, alerts.tickets.topic_arn),
            statement(["kms:Decrypt", "kms:GenerateDataKey"], alerts.key.key_arn),
            statement(["sqs:SendMessage"], failed.queue_arn),
            statement(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn),
            *queue_key_use(failed, *parking, *(resending.feeds if resending else ())),
            *key_use(table.encryption_key, "dynamodb"),
            *key_use(bucket.encryption_key, "s3"),
            *_resending(resending, table),
        ]
        role = own_role(self, "Role", "lambda.amazonaws.com", "sweep", own)
        for prefix in (DEAD_LETTERS, PAYLOADS):
            pattern = bucket.arn_for_objects(f"{prefix}*")
            acknowledge_wildcard(role, pattern, "Objects are named after future jobs")
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            description=f"Sweeps the dead letters of {plan.app}: copies, counts and tells of them",
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            handler=_HANDLER,
            code=code,
            memory_size=FUNCTION_MEMORY_MB,
            timeout=Duration.seconds(int(TIMEOUT.total_seconds())),
            role=role.without_policy_updates(),
            log_group=log_group,
            environment={
                "HEADGATE_TABLE": table.table_name,
                "HEADGATE_BUCKET": bucket.bucket_name,
                "HEADGATE_TOPIC": alerts.topic.topic_arn,
                "HEADGATE_TICKETS": alerts.tickets.topic_arn,
                **secret_variable(resending.signing_key if resending else None),
            },
            retry_attempts=_RETRIES,
            max_event_age=_every(),
            on_failure=destinations.SqsDestination(failed),
        )
        acknowledge(self.function, "L1", OLDER_RUNTIME)
        invoke_every(
            self,
            self.function,
            every=EVERY,
            description=f"Sweeps the dead letters of {plan.app}",
            plan=plan_input(plan),
            policy="sweep",
            retries=_RETRIES,
            failed=failed,
        )


def _resending(
    resending: Resending | None, table: dynamodb.ITableV2
) -> Sequence[iam.PolicyStatement]:
    """Return the statements for sending letters back, which only an app with policies needs."""
    if resending is None:
        return ()
    # Marks and the jobs' histories are written in one batch, so one statement names both.
    return [
        statement(RESEND, *(queue.queue_arn for queue in resending.feeds)),
        statement(["sqs:DeleteMessage"], *(queue.queue_arn for queue in resending.letters)),
        rows_statement(REMEMBER, table, RESENDING),
        rows_statement(["dynamodb:Query"], table, (CANCELLATIONS,)),
        *read_statements(resending.signing_key),
    ]


def _copying(bucket: s3.IBucket) -> list[iam.PolicyStatement]:
    """Return the statements for writing copies, and for reading the payloads they refer to."""
    return [
        statement(["s3:PutObject"], bucket.arn_for_objects(f"{DEAD_LETTERS}*")),
        statement(["s3:GetObject"], bucket.arn_for_objects(f"{PAYLOADS}*")),
        # Without it S3 answers "access denied" for a payload that is gone.
        # https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
        statement(["s3:ListBucket"], bucket.bucket_arn),
    ]


def _every() -> Duration:
    return Duration.minutes(EVERY.total_seconds() / 60)
