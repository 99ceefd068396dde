"""Containers beside the worker share its task and its log."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_logs as logs

from headgate.infra.fargate.sidecars import add_sidecars
from headgate.jobs.deployment.cdk_context import parse_deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.surroundings import Sidecar
from headgate.jobs.errors import ConfigurationError
from tests.infra.templates import resources, template_of

TRACES = Sidecar(
    name="traces",
    image="public.ecr.aws/aws-observability/aws-otel-collector:v0.43.1",
    command=("--config=/etc/ecs/ecs-default-config.yaml",),
    environment={"AWS_REGION": "eu-central-1"},
    memory_mib=128,
)


def containers(*sidecars: Sidecar) -> list[dict[str, Any]]:
    stack = cdk.Stack()
    task = ecs.FargateTaskDefinition(stack, "Task")
    task.add_container("Worker", image=ecs.ContainerImage.from_registry("shop"))
    add_sidecars(task, sidecars, logs.LogGroup(stack, "Logs"))
    [found] = resources(template_of(stack), "AWS::ECS::TaskDefinition").values()
    return list(found["ContainerDefinitions"])


def test_a_sidecar_runs_beside_the_worker_and_may_end_without_it() -> None:
    worker, sidecar = containers(TRACES)
    assert worker["Essential"] is True
    assert sidecar["Name"] == TRACES.name
    assert sidecar["Image"] == TRACES.image
    assert sidecar["Command"] == list(TRACES.command)
    assert sidecar["Environment"] == [{"Name": "AWS_REGION", "Value": "eu-central-1"}]
    assert sidecar["Memory"] == TRACES.memory_mib
    assert sidecar["Essential"] is False
    assert sidecar["LogConfiguration"]["Options"]["awslogs-stream-prefix"] == TRACES.name


def test_a_task_without_sidecars_has_the_worker_alone() -> None:
    assert len(containers()) == 1


def test_cdk_json_names_them_by_group() -> None:
    json = {"name": "traces", "image": TRACES.image, "memory_mib": 128}
    [group] = parse_deployment({"workers": [{"sidecars": [json]}]}).workers
    assert group.sidecars == (Sidecar(name="traces", image=TRACES.image, memory_mib=128),)


def test_names_that_are_taken_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="the worker's own container"):
        Sidecar(name="worker", image="shop")
    with pytest.raises(ConfigurationError, match="two sidecars"):
        WorkerGroup(sidecars=(TRACES, TRACES))
