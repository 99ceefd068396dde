"""The example shop, synthesized and deployed on a MiniStack of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from examples.shop import contracts as shop
from tests.support.deployable import Template, deployable
from tests.support.deployed import Cloud, Stack, bootstrap, cloud_at, publish, template_in
from tests.support.environment import with_test_credentials
from tests.support.servers import running_server
from tests.support.synthesis import synthesize_for_this_machine

TOPOLOGY = shop.app.topology


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedShop:
    """The shop's stack, and what the services say of it."""

    cloud: Cloud
    stack: Stack
    template: Template
    """As it was synthesized, with nothing left out."""

    def url(self, queue: str) -> str:
        """Where a queue is."""
        return str(self.cloud.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"])

    def attributes(self, queue: str) -> Mapping[str, str]:
        """What SQS says of a queue."""
        answer = self.cloud.client("sqs").get_queue_attributes(
            QueueUrl=self.url(queue), AttributeNames=["All"]
        )
        found: Mapping[str, str] = answer["Attributes"]
        return found

    def send(self, queue: str, body: str) -> None:
        """Put any message into a queue."""
        self.cloud.client("sqs").send_message(QueueUrl=self.url(queue), MessageBody=body)

    def receive(self, queue: str) -> str | None:
        """The body of a message of a queue, which shows again at once; None if there is none."""
        answer = self.cloud.client("sqs").receive_message(
            QueueUrl=self.url(queue), VisibilityTimeout=0, WaitTimeSeconds=0
        )
        return next((str(message["Body"]) for message in answer.get("Messages", [])), None)

    def schedule(self, name: str) -> Mapping[str, Any]:
        """What EventBridge Scheduler says of a schedule."""
        found: Mapping[str, Any] = self.cloud.client("scheduler").get_schedule(
            GroupName=TOPOLOGY.schedule_group, Name=name
        )
        return found

    def processes_of(self, function: str) -> list[psutil.Process]:
        """The processes that run a function."""
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
def deployed_shop(directory: Path) -> Iterator[DeployedShop]:
    """Synthesize it into an empty directory and deploy it; while it stands, the environment is
    such that SDKs reach it, and nothing else."""
    name = synthesize_for_this_machine(directory)
    template = template_in(directory, name)
    with pytest.MonkeyPatch.context() as patch, running_server("ministack") as endpoint_url:
        with_test_credentials(patch, directory)
        patch.setenv("AWS_ENDPOINT_URL", endpoint_url)
        with cloud_at(endpoint_url) as cloud:
            bootstrap(cloud)
            publish(cloud, directory, name)
            stack = Stack(cloud, name)
            stack.create(deployable(template))
            yield DeployedShop(cloud=cloud, stack=stack, template=template)


def _environment(process: psutil.Process) -> Mapping[str, str]:
    try:
        found: Mapping[str, str] = process.environ()
    except psutil.Error:  # it has ended, or is another user's
        return {}
    return found
