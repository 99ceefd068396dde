"""The function that publishes how many tasks worker groups want: `lambdas.demand`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data.log_groups import add_log_group
from headgate.infra.data.nag_suppressions import acknowledge
from headgate.infra.data.permissions import DEPTHS, statement
from headgate.infra.functions.periodic import invoke_every
from headgate.infra.functions.pip_install import OLDER_RUNTIME, RUNTIME
from headgate.infra.roles.own_role import own_role
from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.resource_names import FUNCTION_MEMORY_MB, function_name
from headgate.jobs.deployment.scaling.backlog import counted_groups
from headgate.jobs.deployment.scaling.demand_plan import EVERY, TIMEOUT, demand_plan


class DemandFunction(Construct):
    """The function that counts for groups with more queues than an alarm can watch, every minute.

    It may ask for the depth of these queues, and nothing else. A count that fails is not repeated:
    the next one is a minute away.

    Args:
        topology: the app's queues.
        groups: the worker groups to count for.
        queues: the constructs of the queues, by physical name.
        code: the asset.
        log_days: days for which its log is kept.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        topology: Topology,
        groups: Sequence[WorkerGroup],
        queues: Mapping[str, sqs.IQueue],
        code: lambda_.Code,
        log_days: int,
    ) -> None:
        super().__init__(scope, construct_id)
        plan = demand_plan(topology, groups)
        counted = {queue.name: None for group in plan.groups for queue in group.queues}
        log_group = add_log_group(self, log_days)
        own = [
            statement(DEPTHS, *(queues[name].queue_arn for name in counted)),
            statement(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn),
        ]
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=function_name(topology, "demand"),
            description=f"Counts the tasks that the worker groups of {plan.app} want",
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            handler="headgate.lambdas.demand.handler",
            code=code,
            memory_size=FUNCTION_MEMORY_MB,
            timeout=Duration.seconds(int(TIMEOUT.total_seconds())),
            role=own_role(
                self, "Role", "lambda.amazonaws.com", "demand", own
            ).without_policy_updates(),
            log_group=log_group,
            retry_attempts=0,
            max_event_age=Duration.minutes(1),
        )
        acknowledge(self.function, "L1", OLDER_RUNTIME)
        invoke_every(
            self,
            self.function,
            every=EVERY,
            description=f"Counts the tasks that the worker groups of {plan.app} want",
            plan=plan.model_dump(mode="json"),
            policy="demand",
            retries=0,
        )


def add_demand(
    scope: Construct,
    topology: Topology,
    deployment: Deployment,
    queues: Mapping[str, sqs.IQueue],
    code: lambda_.Code,
) -> None:
    """Add the function for those of a deployment's worker groups that need it, if any does."""
    groups = counted_groups(topology, deployment.workers)
    if groups:
        DemandFunction(
            scope,
            "Demand",
            topology=topology,
            groups=groups,
            queues=queues,
            code=code,
            log_days=deployment.log_retention_days,
        )
