"""The example shop, synthesized and deployed on a MiniStack of its own.

A worker runs the jobs of all queues except the notifications', which a function runs.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from examples.shop import contracts as shop
from headgate.jobs.deployment.resource_names import function_name
from headgate.jobs.schedules.firing import schedule_name
from tests.infra.templates import resources
from tests.support.deployable import Template, deployable
from tests.support.deployed import Cloud, Stack, bootstrap, cloud_at, publish, template_in
from tests.support.environment import with_test_credentials
from tests.support.servers import running_server
from tests.support.synthesis import synthesize_for_this_machine

TOPOLOGY = shop.app.topology

NOTIFICATIONS = "notifications"
"""The queue group that the function serves."""

WORKERS_QUEUES = [group for group in TOPOLOGY.groups if group != NOTIFICATIONS]

_CONSUMER = "notifier"
NOTIFIER = function_name(TOPOLOGY, _CONSUMER)
"""The function that serves it."""

_FUNCTION = """
from examples.shop.app import app
from headgate.lambdas.consume import consumer

handler = consumer(app)
"""

EVERY_MINUTE = schedule_name(*shop.update_order_status.schedules)
"""The schedule that fires every minute here, so that no test waits five for its second firing."""

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedShop:
    """The shop's stack, and the state of its services."""

    cloud: Cloud
    stack: Stack
    template: Template
    """The synthesized template, with nothing left out; only `EVERY_MINUTE`'s rate differs."""

    def url(self, queue: str) -> str:
        """Return a queue's URL."""
        return str(self.cloud.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"])

    def attributes(self, queue: str) -> Mapping[str, str]:
        """Return a queue's attributes, as SQS reports them."""
        answer = self.cloud.client("sqs").get_queue_attributes(
            QueueUrl=self.url(queue), AttributeNames=["All"]
        )
        found: Mapping[str, str] = answer["Attributes"]
        return found

    def send(self, queue: str, body: str) -> None:
        """Send any message to a queue."""
        self.cloud.client("sqs").send_message(QueueUrl=self.url(queue), MessageBody=body)

    def receive(self, queue: str, *, wait_s: int = 0) -> str | None:
        """Return the body of one message, or None if none comes in ``wait_s`` seconds, at most 20.

        The message becomes visible again at once.
        """
        answer = self.cloud.client("sqs").receive_message(
            QueueUrl=self.url(queue), VisibilityTimeout=0, WaitTimeSeconds=wait_s
        )
        return next((str(message["Body"]) for message in answer.get("Messages", [])), None)

    def schedule(self, name: str) -> Mapping[str, Any]:
        """Return a schedule, as EventBridge Scheduler reports it."""
        found: Mapping[str, Any] = self.cloud.client("scheduler").get_schedule(
            GroupName=TOPOLOGY.schedule_group, Name=name
        )
        return found

    def subscribe(self, queue: str) -> None:
        """Create a queue that receives the notifications to people."""
        sns, sqs = self.cloud.client("sns"), self.cloud.client("sqs")
        sqs.create_queue(QueueName=queue)
        arn = self.attributes(queue)["QueueArn"]
        for topic in sns.list_topics()["Topics"]:
            sns.subscribe(TopicArn=topic["TopicArn"], Protocol="sqs", Endpoint=arn)

    def sweep(self) -> None:
        """Invoke the sweep as its schedule does."""
        names = self.stack.resources()
        [function] = self.logical_ids("AWS::Lambda::Function", "Sweep")
        [schedule] = self.logical_ids("AWS::Scheduler::Schedule", "Sweep")
        [group] = self.logical_ids("AWS::Scheduler::ScheduleGroup", "Sweep")
        answer = self.cloud.client("scheduler").get_schedule(
            GroupName=names[group], Name=names[schedule]
        )
        done = self.cloud.client("lambda").invoke(
            FunctionName=names[function], Payload=answer["Target"]["Input"]
        )
        assert "FunctionError" not in done, done["Payload"].read()

    def logical_ids(self, kind: str, part: str) -> list[str]:
        """Return the logical ids of a type's resources in a part of the system."""
        return list(resources(self.template, kind, within=f"Jobs{part}"))

    def processes_of(self, function: str) -> list[psutil.Process]:
        """Return the processes that run a function."""
        mine = {
            "AWS_LAMBDA_FUNCTION_NAME": function,
            "AWS_ENDPOINT_URL": self.cloud.endpoint_url,
        }
        return [
            process
            for process in psutil.process_iter()
            if mine.items() <= _environment(process).items()
        ]


@contextmanager
def deployed_shop(scratch: Path) -> Iterator[DeployedShop]:
    """Synthesize and deploy the shop.

    Until it is deleted, the environment lets SDKs reach this deployment and nothing else.
    ``scratch`` is a directory for all files.
    """
    directory = scratch / "cdk.out"
    name = synthesize_for_this_machine(directory, _deployment(scratch / "project"))
    template = _quickened(template_in(directory, name))
    with pytest.MonkeyPatch.context() as patch, running_server("ministack") as endpoint_url:
        with_test_credentials(patch, scratch)
        patch.setenv("AWS_ENDPOINT_URL", endpoint_url)
        with cloud_at(endpoint_url) as cloud:
            bootstrap(cloud)
            publish(cloud, directory, name)
            stack = Stack(cloud, name)
            stack.create(deployable(template))
            yield DeployedShop(cloud=cloud, stack=stack, template=template)


def _deployment(project: Path) -> Mapping[str, Any]:
    """Return the contents of ``cdk.json``, with ``project`` as the source of the function."""
    shutil.copytree(_ROOT / "examples", project / "examples")
    (project / "notify.py").write_text(_FUNCTION)
    consumer = {
        "name": _CONSUMER,
        "handler": "notify.handler",
        "source": str(project),
        "queues": [NOTIFICATIONS],
    }
    workers = {"queues": WORKERS_QUEUES}
    return {
        "workers": [workers],
        "consumers": [consumer],
        "network": "endpoints",
        "keep_data": True,
    }


def _quickened(template: Template) -> Template:
    """Return the template with a schedule at EventBridge's highest rate."""
    quickened: Any = copy.deepcopy(template)
    [schedule] = [
        resource["Properties"]
        for resource in quickened["Resources"].values()
        if resource.get("Properties", {}).get("Name") == EVERY_MINUTE
    ]
    schedule["ScheduleExpression"] = "rate(1 minute)"
    found: Template = quickened
    return found


def _environment(process: psutil.Process) -> Mapping[str, str]:
    try:
        found: Mapping[str, str] = process.environ()
    except psutil.Error:  # it has ended, or belongs to another user
        return {}
    return found
