"""A consumer: a function that runs the jobs of some queues, polled by Lambda.

Its failures need no destination: a job that is given up goes to its queue's own dead-letter queue
with the reason, and a message that the function could not even settle is moved there by SQS's
redrive. Lambda has no other failure destination for SQS.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from aws_cdk import Duration, Stage
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data.log_groups import add_log_group
from headgate.infra.data.nag_suppressions import acknowledge, acknowledge_wildcard
from headgate.infra.data.permissions import statement
from headgate.infra.data.queues import Queues
from headgate.infra.functions.bundling import consumer_bundle
from headgate.infra.functions.pip_install import OLDER_RUNTIME, RUNTIME
from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.pollers import ProvisionedPollers
from headgate.jobs.deployment.groups.variables import function_variables
from headgate.jobs.deployment.resource_names import function_name
from headgate.jobs.deployment.serving import consumed
from headgate.jobs.deployment.surroundings import Architecture

_PROCESSORS: Mapping[Architecture, lambda_.Architecture] = {
    "arm64": lambda_.Architecture.ARM_64,
    "x86_64": lambda_.Architecture.X86_64,
}

_DESCRIBED = 256  # https://docs.aws.amazon.com/lambda/latest/api/API_CreateFunction.html


class ConsumerFunction(Construct):
    """The function of one `ConsumerGroup`, with an event source mapping for each of its queues.

    Its role may write its log, and nothing else: the caller grants ``function`` the permissions
    that the jobs of ``specs`` need. Permissions for a user's code are granted alike, as in
    ``bucket.grant_read(system.consumers["thumbnails"].function)``.

    None of the account's concurrency is reserved for it unless `reserved_concurrency` says so:
    MaximumConcurrency limits it, and a reservation reduces what all other functions can use.
    https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html

    Args:
        group: the queues, code and size of the consumer.
        topology: the topology of its queues.
        queues: the constructs of the queues.
        environment: the variables by which the app finds its stage and its bucket.
        log_days: days for which its log is kept.

    Raises:
        ConfigurationError: it isn't fit for one of its queues, or its code doesn't exist.
        UnknownQueue: it names a queue that the app doesn't have.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        group: ConsumerGroup,
        topology: Topology,
        queues: Queues,
        environment: Mapping[str, str],
        log_days: int,
    ) -> None:
        super().__init__(scope, construct_id)
        self.specs = consumed(topology, group)
        """The queues whose jobs it runs."""
        log_group = add_log_group(self, log_days)
        self.function = self._function(group, topology, log_group, environment)
        acknowledge(self.function, "L1", OLDER_RUNTIME)
        for spec in self.specs:
            self._map(group, spec, queues.by_name[spec.name])

    def _function(
        self,
        group: ConsumerGroup,
        topology: Topology,
        log_group: logs.ILogGroup,
        environment: Mapping[str, str],
    ) -> lambda_.Function:
        name = function_name(topology, group.name)
        queues = ", ".join(spec.name for spec in self.specs)
        return lambda_.Function(
            self,
            "Function",
            function_name=name,
            description=f"Runs the jobs of {queues}"[:_DESCRIBED],
            runtime=RUNTIME,
            architecture=_PROCESSORS[group.architecture],
            tracing=lambda_.Tracing.ACTIVE if group.tracing else lambda_.Tracing.DISABLED,
            handler=group.handler,
            code=consumer_bundle(group, _output_of(self)).code(),
            memory_size=group.memory_mib,
            timeout=_duration(group.timeout),
            role=self._role(log_group, tracing=group.tracing),
            log_group=log_group,
            environment=function_variables(group, name, environment),
            reserved_concurrent_executions=group.reserved_concurrency,
            # Otherwise Lambda takes the seventeenth in a chain of jobs that submit each other for a
            # loop, and SQS moves it to the dead letters, though it never ran.
            # https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
            recursive_loop=lambda_.RecursiveLoop.ALLOW if group.submits else None,
        )

    def _role(self, log_group: logs.ILogGroup, *, tracing: bool) -> iam.Role:
        write = statement(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={"log": iam.PolicyDocument(statements=[write])},
        )
        if tracing:  # CDK grants it
            acknowledge_wildcard(role, "*", "xray:PutTraceSegments takes no resource by name")
        return role

    def _map(self, group: ConsumerGroup, spec: QueueSpec, queue: sqs.IQueue) -> None:
        # Not CDK's SqsEventSource, which grants permissions too: the role has them by `grant_work`.
        lambda_.EventSourceMapping(
            self,
            f"{spec.group}-{spec.priority}",
            target=self.function,
            event_source_arn=queue.queue_arn,
            batch_size=group.batch_size,
            max_batching_window=_duration(group.max_batching_window)
            if group.max_batching_window
            else None,
            max_concurrency=None if group.pollers else group.most_invocations,
            provisioned_poller_config=_pollers(group.pollers),
            report_batch_item_failures=True,
        )


def _pollers(pollers: ProvisionedPollers | None) -> lambda_.ProvisionedPollerConfig | None:
    if pollers is None:
        return None
    return lambda_.ProvisionedPollerConfig(
        minimum_pollers=pollers.minimum, maximum_pollers=pollers.maximum
    )


def _output_of(construct: Construct) -> Path | None:
    root = construct.node.root
    return Path(root.outdir) if isinstance(root, Stage) else None


def _duration(span: timedelta) -> Duration:
    return Duration.seconds(int(span.total_seconds()))
