"""Containers beside the worker in its tasks."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_logs as logs

from headgate.jobs.deployment.surroundings import Sidecar


def add_sidecars(
    task: ecs.FargateTaskDefinition, sidecars: Sequence[Sidecar], log_group: logs.ILogGroup
) -> None:
    """Add the containers to a task; they write to the workers' log, under their own names."""
    for sidecar in sidecars:
        task.add_container(
            sidecar.name,
            container_name=sidecar.name,
            image=ecs.ContainerImage.from_registry(sidecar.image),
            command=list(sidecar.command) or None,
            environment=dict(sidecar.environment),
            memory_limit_mib=sidecar.memory_mib,
            essential=sidecar.essential,
            logging=ecs.LogDrivers.aws_logs(stream_prefix=sidecar.name, log_group=log_group),
        )
