"""An app with worker groups of several kinds, and its template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ecs as ecs

from headgate import App, Priority
from headgate.infra.stack import HeadgateStack
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from tests.infra.conftest import NO_BUNDLING, Params
from tests.infra.templates import Properties, resources, template_of

APP_PATH = "shop.app:app"
IMAGE = "registry.example.com/shop:7"

DEFAULT = WorkerGroup()
URGENT = WorkerGroup(
    name="urgent",
    queues=("payments",),
    priorities=(Priority.CRITICAL, Priority.HIGH),
    cpu=1024,
    memory_mib=2048,
    concurrency=20,
    processes=2,
    min_tasks=2,
    max_tasks=8,
    typical=timedelta(seconds=5),
    stop_timeout=timedelta(seconds=90),
)
NIGHT = WorkerGroup(
    name="night", priorities=(Priority.LOW,), min_tasks=0, max_tasks=4, spot=True, submits=False
)
SPARE = WorkerGroup(
    name="spare",
    queues=("payments",),
    processes=2,
    spot=True,
    health_host="0.0.0.0",  # noqa: S104 - what is tested
)

DEPLOYMENT = Deployment(workers=(DEFAULT, URGENT, NIGHT, SPARE))


def shop() -> App:
    """Return an app with two queue groups: ``jobs`` with all priorities, ``payments`` with two."""
    app = App("shop", priorities="all", stage="test")
    app.define("send-email", Params)
    payments = app.queue("payments", priorities=[Priority.CRITICAL, Priority.LOW])
    payments.define("capture", Params, priority=Priority.CRITICAL)
    return app


@dataclass(frozen=True, slots=True)
class Deployed:
    """A stack with workers: the app, its template, and each group's resources."""

    app: App
    deployment: Deployment
    stack: HeadgateStack
    template: Mapping[str, Any]

    def service(self, group: WorkerGroup) -> Properties:
        """Return the properties of a group's service."""
        of_group = {
            properties["ServiceName"]: properties
            for properties in resources(self.template, "AWS::ECS::Service").values()
        }
        return of_group[f"shop-test-{group.name}"]

    def task(self, group: WorkerGroup) -> Properties:
        """Return the properties of a group's task definition."""
        return self.resource(self.service(group)["TaskDefinition"])

    def container(self, group: WorkerGroup) -> Properties:
        """Return a group's only container."""
        [container] = self.task(group)["ContainerDefinitions"]
        return dict(container)

    def resource(self, reference: Any) -> Properties:
        """Return the properties of the resource that a ``Ref`` or ``Fn::GetAtt`` refers to."""
        match reference:
            case {"Ref": logical_id} | {"Fn::GetAtt": [logical_id, _]}:
                return dict(self.template["Resources"][logical_id]["Properties"])
        raise AssertionError(f"no reference: {reference}")

    def of_group(self, group: WorkerGroup, kind: str) -> list[Properties]:
        """Return the properties of all resources of a type that belong to a group."""
        return [
            properties
            for logical_id, properties in resources(self.template, kind).items()
            if logical_id.startswith(f"JobsWorkers{group.name}")
        ]


def deployed(
    app: App, deployment: Deployment, *, assembly: cdk.App | None = None, **arguments: Any
) -> Deployed:
    """Return the stack of an app whose image is in a registry, by default in an assembly of its
    own."""
    stack = HeadgateStack(
        assembly or cdk.App(context=NO_BUNDLING),
        "Stack",
        app=app,
        deployment=deployment,
        app_path=APP_PATH,
        image=ecs.ContainerImage.from_registry(IMAGE),
        **arguments,
    )
    return Deployed(app, deployment, stack, template_of(stack))
