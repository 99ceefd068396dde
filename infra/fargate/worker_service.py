"""A worker group as a service on ECS Fargate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from aws_cdk import Duration, RemovalPolicy, Size, Stack
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from headgate.infra.data.log_groups import add_log_group
from headgate.infra.data.nag_suppressions import acknowledge, acknowledge_wildcard
from headgate.infra.fargate.network import Network
from headgate.infra.fargate.scaling_policies import Scaling
from headgate.infra.fargate.sidecars import add_sidecars
from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups import HEALTH_HOSTS, WorkerGroup
from headgate.jobs.deployment.surroundings import SSM, WORKER, Architecture

HEALTH_PORT = 8080
"""The first process's port; by default only the task's own containers can reach it."""

USER = "10001"
"""The worker's unprivileged user, whatever the image says; the workers' Dockerfile has it too."""

_PROVIDERS = ("FARGATE", "FARGATE_SPOT")

_PROCESSORS: Mapping[Architecture, ecs.CpuArchitecture] = {
    "arm64": ecs.CpuArchitecture.ARM64,
    "x86_64": ecs.CpuArchitecture.X86_64,
}

_CHECK = """
from http.client import HTTPConnection
for port in range({first}, {first} + {processes}):
    connection = HTTPConnection("127.0.0.1", port, timeout={patience_s})
    connection.request("GET", "/startupz")
    if connection.getresponse().status != 200:
        raise SystemExit(1)
""".strip()
"""Asks each process whether it has ever received: a task that can't, such as one of the wrong
stage, fails its deploy, while one that has is healthy as long as it answers, even in an outage.
Python's images have no curl, and `headgate` takes a second to start."""

_CHECK_EVERY_S = 30
_CHECK_PATIENCE_S = 5
_CHECK_RETRIES = 3
_STARTING_S = 120
_QUEUE_GRACE_S = 300
"""Longer than the checks take to fail: tasks that fail them count against a deploy, but tasks that
exit by themselves may not.
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/deployment-circuit-breaker.html"""

_PARTS_OF_ARN = 7

_LOG_BUFFER_MIB = 10
"""Log lines buffered while CloudWatch doesn't accept them; the worker never waits for it."""


class Workers(Construct):
    """The services of all worker groups of an app, in one cluster.

    Args:
        network: the network that they run in.
        image: the image that they run.
        deployment: the deployment, with what all groups find around them.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        image: ecs.ContainerImage,
        deployment: Deployment,
    ) -> None:
        super().__init__(scope, construct_id)
        self.network = network
        self._image = image
        self._deployment = deployment
        self.cluster = self._existing(deployment.cluster) or self._own_cluster()
        self.services: dict[str, ecs.FargateService] = {}
        self.log_groups: list[logs.ILogGroup] = []
        """The log groups of the workers."""

    def _existing(self, cluster: str | None) -> ecs.ICluster | None:
        if cluster is None:
            return None
        return ecs.Cluster.from_cluster_attributes(
            self, "Cluster", cluster_name=cluster, vpc=self.network.vpc, security_groups=[]
        )

    def _own_cluster(self) -> ecs.Cluster:
        made = ecs.Cluster(
            self,
            "Cluster",
            vpc=self.network.vpc,
            container_insights_v2=ecs.ContainerInsights.DISABLED,
        )
        cluster = made.node.default_child
        assert isinstance(cluster, ecs.CfnCluster)  # noqa: S101 - CDK's own; narrows the type
        # A property of the cluster instead of CDK's resource for it: that one would be deleted
        # before the services that use it, which AWS refuses.
        cluster.capacity_providers = list(_PROVIDERS)
        acknowledge(
            made,
            "ECS4",
            "Workers tell their own metrics, by queue and type; Container Insights costs more",
        )
        return made

    def add(
        self,
        group: WorkerGroup,
        *,
        service_name: str,
        topology: Topology,
        roll_back_on: Sequence[str],
        environment: Mapping[str, str],
    ) -> ecs.FargateService:
        """Add the service of one group, which scales with its queues in the topology.

        A deployment during which an alarm named in ``roll_back_on`` goes off is rolled back.

        Its task role may protect its own tasks, and nothing else yet.
        """
        made = WorkerService(
            self,
            group.name,
            group=group,
            service_name=service_name,
            topology=topology,
            roll_back_on=roll_back_on,
            environment={**self._deployment.environment_of(group), **environment},
            secrets=self._deployment.secrets_of(group),
            architecture=self._deployment.architecture,
            log_days=self._deployment.log_retention_days,
            cluster=self.cluster,
            network=self.network,
            image=self._image,
        )
        self.services[group.name] = made.service
        self.log_groups.append(made.log_group)
        return made.service


class WorkerService(Construct):
    """One group's service; see `Workers`."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        group: WorkerGroup,
        service_name: str,
        topology: Topology,
        roll_back_on: Sequence[str],
        environment: Mapping[str, str],
        secrets: Mapping[str, str],
        architecture: Architecture,
        log_days: int,
        cluster: ecs.ICluster,
        network: Network,
        image: ecs.ContainerImage,
    ) -> None:
        super().__init__(scope, construct_id)
        task = self._task(group, cluster, architecture)
        # Workers that don't start fail the deployment, and their log alone says why: it outlives
        # even the rollback of its creation.
        self.log_group = add_log_group(self, log_days, RemovalPolicy.RETAIN)
        self._add_container(task, group, image, environment, secrets)
        add_sidecars(task, group.sidecars, self.log_group)
        self.service = ecs.FargateService(
            self,
            "Service",
            service_name=service_name,
            cluster=cluster,
            task_definition=task,
            capacity_provider_strategies=_capacity(group),
            vpc_subnets=network.subnets,
            assign_public_ip=network.assign_public_ip,
            security_groups=network.security_groups,
            # New tasks start first: jobs never lack a worker, and the overlap does no harm.
            min_healthy_percent=100,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(enable=True, rollback=True),
            deployment_alarms=_alarms(roll_back_on),
            enable_ecs_managed_tags=True,
            propagate_tags=ecs.PropagatedTagSource.SERVICE,  # tags attribute the costs
            enable_execute_command=False,
        )
        # The first task needs them to start: the route to its image, and the permission to pull it.
        self.service.node.add_dependency(network, task.obtain_execution_role())
        Scaling(self, "Scaling", group=group, topology=topology, service=self.service)

    def _task(
        self, group: WorkerGroup, cluster: ecs.ICluster, architecture: Architecture
    ) -> ecs.FargateTaskDefinition:
        task = ecs.FargateTaskDefinition(
            self,
            "Task",
            cpu=group.cpu,
            memory_limit_mib=group.memory_mib,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=_PROCESSORS[architecture],
                operating_system_family=ecs.OperatingSystemFamily.LINUX,
            ),
            task_role=self._role(),
        )
        own_tasks = Stack.of(self).format_arn(
            service="ecs", resource="task", resource_name=f"{cluster.cluster_name}/*"
        )
        task.add_to_task_role_policy(
            iam.PolicyStatement(actions=["ecs:UpdateTaskProtection"], resources=[own_tasks])
        )
        acknowledge_wildcard(
            task.task_role, own_tasks, "A task protects itself, and its id is made as it starts"
        )
        acknowledge_wildcard(
            task.obtain_execution_role(), "*", "ecr:GetAuthorizationToken takes no resource by name"
        )
        acknowledge(
            task, "ECS2", "The variables are names and numbers; credentials are the task role's"
        )
        # Writable for everyone if the image declares VOLUME /tmp with such a mode.
        # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/bind-mounts.html
        task.add_volume(name="tmp")
        return task

    def _role(self) -> iam.Role:
        # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html
        stack = Stack.of(self)
        anywhere = stack.format_arn(service="ecs", resource="*", arn_format=None)
        return iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "ecs-tasks.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": stack.account},
                    "ArnLike": {"aws:SourceArn": anywhere},
                },
            ),
        )

    def _add_container(
        self,
        task: ecs.FargateTaskDefinition,
        group: WorkerGroup,
        image: ecs.ContainerImage,
        environment: Mapping[str, str],
        secrets: Mapping[str, str],
    ) -> None:
        container = task.add_container(
            "Worker",
            container_name=WORKER,
            image=image,
            entry_point=["headgate"],
            command=command(group),
            environment=dict(environment),
            secrets=_secrets(self, secrets) or None,
            user=USER,
            readonly_root_filesystem=True,
            linux_parameters=self._linux(),
            stop_timeout=_duration(group.stop_timeout),
            health_check=ecs.HealthCheck(
                command=["CMD", "python", "-I", "-S", "-c", health_check(group)],
                interval=Duration.seconds(_CHECK_EVERY_S),
                timeout=Duration.seconds(_CHECK_PATIENCE_S),
                retries=_CHECK_RETRIES,
                start_period=Duration.seconds(_STARTING_S),
            ),
            logging=ecs.LogDrivers.aws_logs(
                stream_prefix=group.name,
                log_group=self.log_group,
                mode=ecs.AwsLogDriverMode.NON_BLOCKING,
                max_buffer_size=Size.mebibytes(_LOG_BUFFER_MIB),
            ),
        )
        if group.health_host != HEALTH_HOSTS[0]:
            ports = range(HEALTH_PORT, HEALTH_PORT + group.processes)
            container.add_port_mappings(*(ecs.PortMapping(container_port=port) for port in ports))
        container.add_mount_points(
            ecs.MountPoint(container_path="/tmp", source_volume="tmp", read_only=False)  # noqa: S108 - the container's own
        )

    def _linux(self) -> ecs.LinuxParameters:
        # As process 1 a worker would get no SIGTERM before it has a handler, and nothing would
        # reap its jobs' orphans.
        linux = ecs.LinuxParameters(self, "Linux", init_process_enabled=True)
        linux.drop_capabilities(ecs.Capability.ALL)
        return linux


def command(group: WorkerGroup) -> list[str]:
    """Return the arguments of ``headgate`` that start a worker of this group."""
    lanes = []
    if group.queues is not None:
        lanes += ["--queues", ",".join(group.queues)]
    if group.priorities is not None:
        lanes += ["--priorities", ",".join(group.priorities)]
    host = [] if group.health_host == HEALTH_HOSTS[0] else ["--health-host", group.health_host]
    return [
        "worker",
        *lanes,
        "--concurrency",
        str(group.concurrency),
        "--processes",
        str(group.processes),
        "--drain",
        f"{group.drain.total_seconds():g}s",
        "--queue-grace",
        f"{_QUEUE_GRACE_S}s",
        "--health-port",
        str(HEALTH_PORT),
        *host,
        "--emf",
        "--log-json",
    ]


def health_check(group: WorkerGroup) -> str:
    """Return the Python program that checks whether all of a task's processes are healthy."""
    return _CHECK.format(
        first=HEALTH_PORT, processes=group.processes, patience_s=_CHECK_PATIENCE_S - 1
    )


def _alarms(names: Sequence[str]) -> ecs.DeploymentAlarmConfig | None:
    """Return the alarms that roll back a deployment, by name: they are created after the service.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/deployment-alarm-failure.html
    """
    if not names:
        return None
    roll_back = ecs.AlarmBehavior.ROLLBACK_ON_ALARM
    return ecs.DeploymentAlarmConfig(alarm_names=list(names), behavior=roll_back)


def _capacity(group: WorkerGroup) -> list[ecs.CapacityProviderStrategy]:
    on_demand, spot = _PROVIDERS
    if not group.spot:
        return [ecs.CapacityProviderStrategy(capacity_provider=on_demand, weight=1)]
    sparing = ecs.CapacityProviderStrategy(capacity_provider=spot, weight=1)
    if not group.on_demand:
        return [sparing]
    # The first ``on_demand`` tasks run on demand; weight 0: none of the others.
    steady = ecs.CapacityProviderStrategy(
        capacity_provider=on_demand, base=group.on_demand, weight=0
    )
    return [steady, sparing]


def _secrets(scope: Construct, sources: Mapping[str, str]) -> dict[str, ecs.Secret]:
    """Return secrets by the variables that hold them; the role that starts a task may read each."""
    return {
        name: _parameter(scope, name, source)
        if source.startswith(SSM)
        else _secret(scope, name, source)
        for name, source in sources.items()
    }


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


def _duration(span: timedelta) -> Duration:
    return Duration.seconds(int(span.total_seconds()))
