"""The parts that all tasks on Fargate have in common."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from headgate.infra.data.nag_suppressions import acknowledge, acknowledge_wildcard
from headgate.jobs.deployment.surroundings import SSM, Architecture

_PROCESSORS: Mapping[Architecture, ecs.CpuArchitecture] = {
    "arm64": ecs.CpuArchitecture.ARM64,
    "x86_64": ecs.CpuArchitecture.X86_64,
}

_TMP = "tmp"
_PARTS_OF_ARN = 7


def task_definition(
    scope: Construct,
    *,
    cpu: int,
    memory_mib: int,
    architecture: Architecture,
    role: iam.IRole | None = None,
) -> ecs.FargateTaskDefinition:
    """Add a task definition with a volume for ``/tmp``.

    Without a role it gets a new one, which may do nothing yet.
    """
    task = ecs.FargateTaskDefinition(
        scope,
        "Task",
        cpu=cpu,
        memory_limit_mib=memory_mib,
        runtime_platform=ecs.RuntimePlatform(
            cpu_architecture=_PROCESSORS[architecture],
            operating_system_family=ecs.OperatingSystemFamily.LINUX,
        ),
        task_role=role or _role(scope),
    )
    acknowledge_wildcard(
        task.obtain_execution_role(), "*", "ecr:GetAuthorizationToken takes no resource by name"
    )
    acknowledge(
        task, "ECS2", "The variables are names and numbers; credentials are the task role's"
    )
    # Writable for everyone if the image declares VOLUME /tmp with such a mode.
    # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/bind-mounts.html
    task.add_volume(name=_TMP)
    return task


def linux_parameters(scope: Construct) -> ecs.LinuxParameters:
    """Add parameters of a container without capabilities, whose first process is an init."""
    # As process 1 a worker would get no SIGTERM before it has a handler, and nothing would
    # reap its jobs' orphans.
    linux = ecs.LinuxParameters(scope, "Linux", init_process_enabled=True)
    linux.drop_capabilities(ecs.Capability.ALL)
    return linux


def mount_tmp(container: ecs.ContainerDefinition) -> None:
    """Give a container with a read-only file system its task's ``/tmp`` to write to."""
    container.add_mount_points(
        ecs.MountPoint(container_path="/tmp", source_volume=_TMP, read_only=False)  # noqa: S108 - the container's own
    )


def secrets_in(scope: Construct, sources: Mapping[str, str]) -> dict[str, ecs.Secret]:
    """Return secrets by the variables that hold them; the role that starts a task may read each."""
    return {
        name: _parameter(scope, name, source)
        if source.startswith(SSM)
        else _secret(scope, name, source)
        for name, source in sources.items()
    }


def _role(scope: Construct) -> iam.Role:
    """Add a role that tasks of this account alone may assume."""
    # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html
    stack = Stack.of(scope)
    anywhere = stack.format_arn(service="ecs", resource="*", arn_format=None)
    return iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal(
            "ecs-tasks.amazonaws.com",
            conditions={
                "StringEquals": {"aws:SourceAccount": stack.account},
                "ArnLike": {"aws:SourceArn": anywhere},
            },
        ),
    )


def _secret(scope: Construct, name: str, arn: str) -> ecs.Secret:
    # arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME, and maybe :KEY
    # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/secrets-envvar-secrets-manager.html
    *whole, last = arn.split(":", 7)
    key = last if len(whole) == _PARTS_OF_ARN else None
    found = secretsmanager.Secret.from_secret_complete_arn(
        scope, f"Secret-{name}", ":".join(whole) if key else arn
    )
    return ecs.Secret.from_secrets_manager(found, key)


def _parameter(scope: Construct, name: str, source: str) -> ecs.Secret:
    found = ssm.StringParameter.from_secure_string_parameter_attributes(
        scope, f"Secret-{name}", parameter_name=source.removeprefix(SSM)
    )
    return ecs.Secret.from_ssm_parameter(found)
