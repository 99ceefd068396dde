"""A worker group as a service on ECS Fargate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from aws_cdk import Duration, RemovalPolicy, Size, Stack
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from headgate.infra.data.log_groups import add_log_group
from headgate.infra.data.nag_suppressions import acknowledge, acknowledge_wildcard
from headgate.infra.data.permissions import check_account
from headgate.infra.fargate.network import Network
from headgate.infra.fargate.scaling_policies import Scaling
from headgate.infra.fargate.sidecars import add_sidecars
from headgate.infra.fargate.tasks import (
    linux_parameters,
    mount_tmp,
    secrets_in,
    task_definition,
)
from headgate.infra.fargate.worker_command import (
    CHECK_EVERY_S,
    CHECK_PATIENCE_S,
    CHECK_RETRIES,
    HEALTH_PORT,
    STARTING_S,
    USER,
    command,
    health_check,
)
from headgate.infra.roles.existing_role import ExistingRole
from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import HEALTH_HOSTS, WorkerGroup
from headgate.jobs.deployment.surroundings import WORKER, Architecture

_PROVIDERS = ("FARGATE", "FARGATE_SPOT")

_LOG_BUFFER_MIB = 10
"""Log lines buffered while CloudWatch doesn't accept them; the worker never waits for it."""


class Workers(Construct):
    """The services of all worker groups of an app, in one cluster.

    Args:
        network: the network that they run in.
        image: the image that they run.
        deployment: the deployment, with what all groups find around them.
        cluster: the cluster; None: the one that the deployment names, or one of their own.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        image: ecs.ContainerImage,
        deployment: Deployment,
        cluster: ecs.ICluster | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.network = network
        self.image = image
        self._deployment = deployment
        self.cluster = cluster or self._existing(deployment.cluster) or self._own_cluster()
        self.services: dict[str, ecs.FargateService] = {}
        self.grantees: dict[str, iam.IGrantable] = {}
        """The grantees of what their jobs need, by group name."""
        self._existing_roles: dict[str, ExistingRole] = {}
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
            image=self.image,
            role=self._existing_role(group.task_role, topology),
        )
        self.services[group.name] = made.service
        self.grantees[group.name] = made.grantee
        self.log_groups.append(made.log_group)
        return made.service

    def split_policies(self) -> None:
        """Split the policies of existing roles that are too long; after the last grant."""
        for role in self._existing_roles.values():
            role.split_policy()

    def _existing_role(self, arn: str | None, topology: Topology) -> ExistingRole | None:
        """Return the role of that ARN, which groups may share."""
        if arn is None:
            return None
        if (found := self._existing_roles.get(arn)) is None:
            found = ExistingRole(self, f"Role-{arn}", arn=arn, topology=topology)
            # Grants are made to its policy, which is of this account in any case.
            check_account(found.role, Stack.of(self).account, topology.app)
            self._existing_roles[arn] = found
        return found


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
        role: ExistingRole | None,
    ) -> None:
        super().__init__(scope, construct_id)
        task = task_definition(
            self,
            cpu=group.cpu,
            memory_mib=group.memory_mib,
            architecture=architecture,
            role=role.role if role is not None else None,
        )
        self.grantee: iam.IGrantable = role.policy if role is not None else task.task_role
        """The grantee of what its jobs need."""
        self._let_protect(cluster)
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
        if role is not None:
            self.service.node.add_dependency(role.policy)
        Scaling(self, "Scaling", group=group, topology=topology, service=self.service)

    def _let_protect(self, cluster: ecs.ICluster) -> None:
        """Let its tasks protect themselves from scaling in."""
        own_tasks = Stack.of(self).format_arn(
            service="ecs", resource="task", resource_name=f"{cluster.cluster_name}/*"
        )
        iam.Grant.add_to_principal(
            grantee=self.grantee, actions=["ecs:UpdateTaskProtection"], resource_arns=[own_tasks]
        )
        acknowledge_wildcard(
            self.grantee, own_tasks, "A task protects itself, and its id is made as it starts"
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
            secrets=secrets_in(self, secrets) or None,
            user=USER,
            readonly_root_filesystem=True,
            linux_parameters=linux_parameters(self),
            stop_timeout=_duration(group.stop_timeout),
            health_check=ecs.HealthCheck(
                command=["CMD", *health_check(group)],
                interval=Duration.seconds(CHECK_EVERY_S),
                timeout=Duration.seconds(CHECK_PATIENCE_S),
                retries=CHECK_RETRIES,
                start_period=Duration.seconds(STARTING_S),
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
        mount_tmp(container)


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


def _duration(span: timedelta) -> Duration:
    return Duration.seconds(int(span.total_seconds()))
