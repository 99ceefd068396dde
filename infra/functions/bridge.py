"""The bridge function: `lambdas.bridge` with a role of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_logs as logs
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data.encryption import key_use, queue_key_use
from headgate.infra.data.log_groups import add_log_group
from headgate.infra.data.nag_suppressions import acknowledge
from headgate.infra.data.permissions import SUBMIT, rows_statement, statement
from headgate.infra.data.signing_key import read_statements, secret_variable
from headgate.infra.data.table_rows import BRIDGED
from headgate.infra.functions.pip_install import OLDER_RUNTIME, RUNTIME
from headgate.infra.roles.own_role import own_role
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.resource_names import FUNCTION_MEMORY_MB
from headgate.jobs.deployment.triggers import has_schedules

_HANDLER = "headgate.lambdas.bridge.handler"
_TIMEOUT = Duration.seconds(90)  # two calls of at most three tries, 10 s each, with their pauses
_RETRIES = 2  # with six hours, Lambda's maximum for an asynchronous invocation
_KEEP_TRYING = Duration.hours(6)


class BridgeFunction(Construct):
    """The function that schedules and event rules invoke.

    Args:
        name: the function's name, by which schedules created at run time find it.
        code: the asset, which has the routes by which it checks what it is to send.
        feeds: the queues that it submits to; its role reaches no other.
        failed: the queue for firings and events that it could not submit.
        table: the table in which it records what it has sent.
        app: the app's name, with its stage's if any.
        log_days: days for which its log is kept.
        signing_key: the secret with the key that signs what it makes of firings and events; None:
            the app's messages are not signed.
        reserved: reserved concurrency. Without any it may use all that the account has free; in
            either case Lambda retries throttled invocations for six hours.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        code: lambda_.Code,
        feeds: Sequence[sqs.IQueue],
        failed: sqs.IQueue,
        table: dynamodb.ITableV2,
        app: str,
        log_days: int,
        signing_key: secretsmanager.ISecret | None = None,
        reserved: int | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.failed = failed
        """The queue for what it could not submit."""
        log_group = add_log_group(self, log_days)
        role = self._role(feeds, failed, table, log_group, signing_key)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            description=f"Submits the scheduled and delayed jobs of {app}, and those of events",
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            handler=_HANDLER,
            code=code,
            memory_size=FUNCTION_MEMORY_MB,
            timeout=_TIMEOUT,
            reserved_concurrent_executions=reserved,
            role=role.without_policy_updates(),
            log_group=log_group,
            environment={
                "POWERTOOLS_SERVICE_NAME": f"{app}-bridge",
                "HEADGATE_TABLE": table.table_name,
                **secret_variable(signing_key),
            },
            retry_attempts=_RETRIES,
            max_event_age=_KEEP_TRYING,
            on_failure=destinations.SqsDestination(failed),
        )
        acknowledge(self.function, "L1", OLDER_RUNTIME)

    def _role(
        self,
        feeds: Sequence[sqs.IQueue],
        failed: sqs.IQueue,
        table: dynamodb.ITableV2,
        log_group: logs.LogGroup,
        signing_key: secretsmanager.ISecret | None,
    ) -> iam.Role:
        statements = [
            statement(SUBMIT, *(queue.queue_arn for queue in feeds)),
            statement(["sqs:SendMessage"], failed.queue_arn),
            rows_statement(["dynamodb:PutItem"], table, BRIDGED),
            statement(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn),
            *queue_key_use(failed, *feeds),
            *key_use(table.encryption_key, "dynamodb"),
            *read_statements(signing_key),
        ]
        return own_role(self, "Role", "lambda.amazonaws.com", "bridge", statements)


def fed_by_bridge(app: App, queues: Mapping[str, sqs.IQueue]) -> list[sqs.IQueue]:
    """Return the queues of event-driven types; all queues of an app with schedules.

    A schedule that is made at run time may be of any type, and name any of its queues.
    """
    if has_schedules(app):
        return list(queues.values())
    driven = (rule.type for rule in app.event_rules.values())
    names = {app.topology.queue(job.queue, job.priority).name for job in driven}
    return [queues[name] for name in sorted(names)]
