"""The parts of a deployed stage besides its queues: alarms, tasks, roles and logs.

Everything is found by the stage's own names, so nothing of another stage is ever touched.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headgate.jobs.aws.connections.connection import Connection, async_aws_client
from headgate.jobs.aws.connections.faults import naming

_ALLOWED = "allowed"


class DeployedStage:
    """A stage's resources on AWS.

    Args:
        service: the stage's name on AWS, as in ``shop-prod``, with which its names begin.
        region: the region; None: that of AWS's settings.
    """

    def __init__(self, service: str, *, region: str | None = None) -> None:
        self._service = service
        self._connection = Connection(region=region)

    async def alarms(self) -> Mapping[str, str]:
        """Return the state of each alarm by its name (DescribeAlarms)."""
        found: dict[str, str] = {}
        async with self._client("cloudwatch", "cloudwatch:DescribeAlarms") as client:
            pages = client.get_paginator("describe_alarms").paginate(
                AlarmNamePrefix=f"{self._service}-", AlarmTypes=["MetricAlarm"]
            )
            async for page in pages:
                found |= {each["AlarmName"]: each["StateValue"] for each in page["MetricAlarms"]}
        return found

    async def stop_task(self, cluster: str, ecs_service: str, reason: str) -> bool:
        """Stop one running task of a service (ListTasks, StopTask); return False if none runs.

        Its containers are sent SIGTERM, and the service starts another.
        """
        async with self._client("ecs", "ecs:ListTasks") as client:
            listed = await client.list_tasks(cluster=cluster, serviceName=ecs_service)
            for task in listed["taskArns"][:1]:
                with naming("ecs:StopTask", self._service):
                    await client.stop_task(cluster=cluster, task=task, reason=reason)
        return bool(listed["taskArns"])

    async def allowed(
        self, cluster: str, ecs_service: str, asked: Sequence[tuple[str, str]]
    ) -> Sequence[str]:
        """Return the actions that the role of a service's tasks is allowed.

        Args:
            cluster: the ECS cluster.
            ecs_service: the service.
            asked: actions, each with the ARN of a resource, or ``*``.
        """
        role = await self._task_role(cluster, ecs_service)
        found = []
        async with self._client("iam", "iam:SimulatePrincipalPolicy") as client:
            for action, resource in asked:
                answer = await client.simulate_principal_policy(
                    PolicySourceArn=role, ActionNames=[action], ResourceArns=[resource]
                )
                if any(each["EvalDecision"] == _ALLOWED for each in answer["EvaluationResults"]):
                    found.append(action)
        return found

    async def remove_logs(self) -> None:
        """Delete the log groups that the stack has left (DescribeLogGroups, DeleteLogGroup)."""
        async with self._client("logs", "logs:DescribeLogGroups") as client:
            pages = client.get_paginator("describe_log_groups").paginate(
                logGroupNamePrefix=f"{self._service}-"
            )
            async for page in pages:
                for each in page["logGroups"]:
                    with naming("logs:DeleteLogGroup", self._service):
                        await client.delete_log_group(logGroupName=each["logGroupName"])

    async def account_and_region(self) -> tuple[str, str]:
        """Return the credentials' account, and the region."""
        async with self._client("sts", "sts:GetCallerIdentity") as client:
            return (await client.get_caller_identity())["Account"], client.meta.region_name

    async def _task_role(self, cluster: str, ecs_service: str) -> str:
        async with self._client("ecs", "ecs:DescribeServices") as client:
            answer = await client.describe_services(cluster=cluster, services=[ecs_service])
            definition = answer["services"][0]["taskDefinition"]
            with naming("ecs:DescribeTaskDefinition", self._service):
                told = await client.describe_task_definition(taskDefinition=definition)
        role: str = told["taskDefinition"]["taskRoleArn"]
        return role

    @asynccontextmanager
    async def _client(self, service: str, action: str) -> AsyncIterator[Any]:
        async with async_aws_client(service, self._connection) as client:
            with naming(action, self._service):
                yield client
