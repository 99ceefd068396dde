"""The web console as a service of one small task, behind an internal load balancer."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration, RemovalPolicy, SecretValue, Size
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elb
from aws_cdk import aws_logs as logs
from constructs import Construct

from headgate.infra.data.log_groups import add_log_group
from headgate.infra.data.nag_suppressions import acknowledge
from headgate.infra.fargate.network import Network
from headgate.infra.fargate.tasks import (
    linux_parameters,
    mount_tmp,
    secrets_in,
    task_definition,
)
from headgate.infra.fargate.worker_command import USER
from headgate.infra.fargate.worker_service import Workers
from headgate.infra.ijob_system import IJobSystem
from headgate.jobs.deployment.console.sign_in import SignIn
from headgate.jobs.deployment.console.web_console import (
    CONSOLE_CPU,
    CONSOLE_MEMORY_MIB,
    WebConsole,
    private_subnets_needed,
)
from headgate.jobs.deployment.deployment import Deployment

PORT = 8484
"""The port on which the task serves; only its load balancer reaches it."""

HEALTHY = "/static/icon.svg"
"""A path that the console answers whoever asks."""

_CHECK = f"""
from http.client import HTTPConnection
connection = HTTPConnection("127.0.0.1", {PORT}, timeout=4)
connection.request("GET", "{HEALTHY}")
if connection.getresponse().status != 200:
    raise SystemExit(1)
""".strip()

_SESSION = Duration.hours(12)
"""Time after which people sign in again."""

_STICKY = Duration.minutes(15)
"""Time for which the load balancer leads somebody to the same task."""

_LONGEST_ANSWER = Duration.seconds(150)
"""Time that a purge may take, the longest of what is answered once it is done."""

_STARTING = Duration.seconds(120)
"""Time for the app to be imported, on a quarter of a processor, before a check counts."""

_LOG_BUFFER_MIB = 1


class ConsoleService(Construct):
    """The console's load balancer, and the service of the one task behind it.

    Args:
        console: the console, as the deployment has it.
        workers: the workers' services, whose cluster, image and network it shares.
        deployment: the deployment.
        environment: the environment variables that the app reads.

    Raises:
        ConfigurationError: the workers' subnets have no way to the internet, or are public.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        console: WebConsole,
        workers: Workers,
        deployment: Deployment,
        environment: Mapping[str, str],
    ) -> None:
        _check_network(workers.network)
        super().__init__(scope, construct_id)
        self.load_balancer = self._load_balancer(workers.network, console)
        """The load balancer, which the console's domain has to lead to."""
        self.log_group: logs.ILogGroup = add_log_group(
            self, deployment.log_retention_days, RemovalPolicy.RETAIN
        )
        task = task_definition(
            self,
            cpu=CONSOLE_CPU,
            memory_mib=CONSOLE_MEMORY_MIB,
            architecture=deployment.architecture,
        )
        trusted = {"HEADGATE_CONSOLE_LOAD_BALANCER": self.load_balancer.load_balancer_arn}
        self._add_container(
            task,
            workers.image,
            command=command(console),
            environment={**deployment.environment, **environment, **trusted},
            secrets=deployment.secrets,
        )
        self.service = self._service(task, workers)
        self._add_listener(console, workers.network.vpc)

    def _load_balancer(self, network: Network, console: WebConsole) -> elb.ApplicationLoadBalancer:
        group = ec2.SecurityGroup(
            self,
            "LoadBalancerGroup",
            vpc=network.vpc,
            description="The console: for the addresses that the deployment admits",
            allow_all_outbound=False,
        )
        for each in console.admits:
            group.add_ingress_rule(ec2.Peer.ipv4(each), ec2.Port.HTTPS, "People open the console")
        group.add_egress_rule(
            ec2.Peer.any_ipv4(), ec2.Port.HTTPS, "It asks the identity provider who they are"
        )
        made = elb.ApplicationLoadBalancer(
            self,
            "LoadBalancer",
            vpc=network.vpc,
            internet_facing=False,
            vpc_subnets=network.subnets,
            security_group=group,
            drop_invalid_header_fields=True,
            idle_timeout=_LONGEST_ANSWER,
        )
        acknowledge(made, "ELB2", "The audit tells who did what; looks are not logged")
        return made

    def _add_container(
        self,
        task: ecs.FargateTaskDefinition,
        image: ecs.ContainerImage,
        *,
        command: list[str],
        environment: Mapping[str, str],
        secrets: Mapping[str, str],
    ) -> None:
        container = task.add_container(
            "Console",
            container_name="console",
            image=image,
            entry_point=["headgate"],
            command=command,
            environment=dict(environment),
            secrets=secrets_in(self, secrets) or None,
            user=USER,
            readonly_root_filesystem=True,
            linux_parameters=linux_parameters(self),
            port_mappings=[ecs.PortMapping(container_port=PORT)],
            health_check=ecs.HealthCheck(
                command=["CMD", "python", "-I", "-S", "-c", _CHECK], start_period=_STARTING
            ),
            logging=ecs.LogDrivers.aws_logs(
                stream_prefix="console",
                log_group=self.log_group,
                mode=ecs.AwsLogDriverMode.NON_BLOCKING,
                max_buffer_size=Size.mebibytes(_LOG_BUFFER_MIB),
            ),
        )
        mount_tmp(container)

    def _service(self, task: ecs.FargateTaskDefinition, workers: Workers) -> ecs.FargateService:
        network = workers.network
        group = ec2.SecurityGroup(
            self,
            "Tasks",
            vpc=network.vpc,
            description="The console: for its load balancer alone",
            allow_all_outbound=True,
        )
        # The given groups may be what the VPC's endpoints let in; the workers' own is not.
        given = [each for each in network.security_groups if each is not network.security_group]
        made = ecs.FargateService(
            self,
            "Service",
            cluster=workers.cluster,
            task_definition=task,
            desired_count=1,  # each reads AWS for itself
            vpc_subnets=network.subnets,
            assign_public_ip=False,
            security_groups=[group, *given],
            min_healthy_percent=100,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(enable=True, rollback=True),
            health_check_grace_period=_STARTING,
            enable_ecs_managed_tags=True,
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
            enable_execute_command=False,
        )
        made.node.add_dependency(network, task.obtain_execution_role())
        return made

    def _add_listener(self, console: WebConsole, vpc: ec2.IVpc) -> None:
        """Have people sign in who come by the console's domain, and nobody else answered."""
        listener = self.load_balancer.add_listener(
            "Https",
            port=443,
            protocol=elb.ApplicationProtocol.HTTPS,
            certificates=[elb.ListenerCertificate.from_arn(console.certificate)],
            ssl_policy=elb.SslPolicy.RECOMMENDED_TLS,
            open=False,
            default_action=elb.ListenerAction.fixed_response(
                421, content_type="text/plain", message_body=f"This is {console.url}"
            ),
        )
        listener.add_action(
            "Domain",
            priority=1,
            conditions=[elb.ListenerCondition.host_headers([console.domain])],
            action=_signing_in(
                console.sign_in, elb.ListenerAction.forward([self._target_group(vpc)])
            ),
        )

    def _target_group(self, vpc: ec2.IVpc) -> elb.ApplicationTargetGroup:
        return elb.ApplicationTargetGroup(
            self,
            "Targets",
            vpc=vpc,
            port=PORT,
            protocol=elb.ApplicationProtocol.HTTP,
            targets=[self.service],
            health_check=elb.HealthCheck(
                path=HEALTHY, interval=Duration.seconds(15), healthy_threshold_count=2
            ),
            deregistration_delay=_LONGEST_ANSWER,
            # While a deployment runs there are two tasks, and each keeps the outcomes of its own
            # actions, which a page shows next.
            stickiness_cookie_duration=_STICKY,
        )


def console_beside(
    system: IJobSystem, workers: Workers, deployment: Deployment, environment: Mapping[str, str]
) -> ConsoleService | None:
    """Add a system's console beside its workers, if the deployment has one."""
    console = deployment.console
    if console is None:
        return None
    made = ConsoleService(
        system,
        "Console",
        console=console,
        workers=workers,
        deployment=deployment,
        environment=environment,
    )
    role = made.service.task_definition.task_role
    if console.read_only:
        system.grant_view(role)
    else:
        system.grant_operate(role, opens=console.opens)
    return made


def command(console: WebConsole) -> list[str]:
    """Return the arguments of ``headgate`` that serve the console."""
    read_only = ["--read-only"] if console.read_only else []
    return ["console", "--host", "0.0.0.0", "--port", str(PORT), "--auth", "alb", *read_only]  # noqa: S104 - its load balancer alone reaches it


def _signing_in(sign_in: SignIn, then: elb.ListenerAction) -> elb.ListenerAction:
    return elb.ListenerAction.authenticate_oidc(
        issuer=sign_in.issuer,
        authorization_endpoint=sign_in.authorization_endpoint,
        token_endpoint=sign_in.token_endpoint,
        user_info_endpoint=sign_in.user_info_endpoint,
        client_id=sign_in.client_id,
        client_secret=SecretValue.secrets_manager(sign_in.client_secret),
        scope=sign_in.scope,
        session_timeout=_SESSION,
        allow_https_outbound=False,  # the load balancer's security group has the rule
        next=then,
    )


def _check_network(network: Network) -> None:
    isolated = network.subnets.subnet_type == ec2.SubnetType.PRIVATE_ISOLATED
    if isolated or network.assign_public_ip:
        raise private_subnets_needed()
