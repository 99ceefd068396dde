"""`headgate verify` on AWS: a stage that CDK deploys, with workers on ECS and a function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headgate.jobs.aws.backend import AsyncAwsBackend
from headgate.jobs.aws.cloudformation import CloudFormationStacks
from headgate.jobs.aws.stages.deployed import DeployedStage
from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.core.topology import Topology
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import HeadgateError
from headgate.ops.verify.project import WORKERS, VerifyProject
from headgate.ops.verify.steps.site import RequestCount, VerifySite

_SERVICE = f"Workers{WORKERS.capitalize()}"
_CLUSTER = "Cluster"


def forbidden(topology: Topology, account: str, region: str) -> Sequence[tuple[str, str]]:
    """Return actions that no role of workers may have, each with a resource."""
    queue = f"arn:aws:sqs:{region}:{account}:{topology.queues[0].name}"
    table = f"arn:aws:dynamodb:{region}:{account}:table/{topology.table_name}"
    bridge = f"arn:aws:lambda:{region}:{account}:function:{topology.bridge_name}"
    return (
        ("sqs:CreateQueue", queue),
        ("sqs:DeleteQueue", queue),
        ("sqs:PurgeQueue", queue),
        ("sqs:ListQueues", "*"),
        ("sqs:ReceiveMessage", f"arn:aws:sqs:{region}:{account}:another-app-jobs-normal"),
        ("dynamodb:Scan", table),
        ("dynamodb:DeleteTable", table),
        ("dynamodb:GetItem", f"arn:aws:dynamodb:{region}:{account}:table/another-app"),
        ("s3:ListAllMyBuckets", "*"),
        ("lambda:InvokeFunction", bridge),
        ("iam:CreateUser", "*"),
    )


@dataclass(slots=True, kw_only=True)
class AwsSite:
    """A stage on AWS; made by `aws_site`."""

    app: App
    client: AsyncClient
    project: VerifyProject
    outputs: Mapping[str, str]
    count: RequestCount
    lacks: Mapping[str, str] = field(default_factory=dict)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def requests(self) -> int:
        return self.count.total

    async def stop_worker(self) -> None:
        reason = "headgate verify stops one task"
        stage, cluster = self._stage(), self.outputs[_CLUSTER]
        if not await stage.stop_task(cluster, self.outputs[_SERVICE], reason):
            raise HeadgateError("no task of the workers' service runs")

    async def alarms(self) -> Mapping[str, str]:
        return await self._stage().alarms()

    async def excess(self) -> Sequence[str]:
        stage = self._stage()
        asked = forbidden(self.app.topology, *await stage.account_and_region())
        return await stage.allowed(self.outputs[_CLUSTER], self.outputs[_SERVICE], asked)

    def _stage(self) -> DeployedStage:
        return DeployedStage(self.project.stack)


async def remove_stage(project: VerifyProject) -> Sequence[str]:
    """Delete a project's stack and the logs that it leaves; returns the names of what is left.

    Raises:
        HeadgateError: CDK failed, or AWS could not be asked.
    """
    await project.destroy()
    await DeployedStage(project.stack).remove_logs()
    stacks = CloudFormationStacks()
    try:
        return () if stacks.template(project.stack) is None else (f"the stack {project.stack}",)
    finally:
        stacks.close()


@asynccontextmanager
async def aws_site(app: App, project: VerifyProject) -> AsyncIterator[VerifySite]:
    """Deploy a project, and open a client of its stage; what was deployed stays.

    Raises:
        HeadgateError: CDK failed, or AWS could not be asked.
    """
    project.write()
    outputs = await project.deploy()
    count = RequestCount()
    backend = AsyncAwsBackend(app.topology, on_request=count)
    async with backend, AsyncClient(app, backend=backend) as client:
        yield AwsSite(app=app, client=client, project=project, outputs=outputs, count=count)
