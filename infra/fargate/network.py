"""The workers' network: one of their own without NAT, or an existing one."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from headgate.infra.data.log_groups import add_log_group
from headgate.infra.data.nag_suppressions import acknowledge
from headgate.infra.fargate.endpoint_policies import Owners, confine
from headgate.jobs.deployment.deployment import GATEWAY_ENDPOINTS, ZONES, Deployment
from headgate.jobs.deployment.surroundings import ExistingVpc, Hardening
from headgate.jobs.errors import ConfigurationError

_GATEWAYS = {
    "dynamodb": ec2.GatewayVpcEndpointAwsService.DYNAMODB,
    "s3": ec2.GatewayVpcEndpointAwsService.S3,
}


class Network(Construct):
    """A VPC, the workers' subnets in it, and a security group that admits nothing.

    Args:
        deployment: the deployment, with the kind of network to create, or an existing one.
        vpc: an existing VPC, left unchanged; the workers go into its private subnets, else its
            public ones, else its isolated ones, whose endpoints its owner provides.
        long_delays: whether the workers call EventBridge Scheduler.
        seals: whether they call KMS.
        signing: whether they read the key that signs messages.
        owners: other accounts whose queues, secrets and keys they use, for endpoint policies.

    Raises:
        ConfigurationError: the VPC has no subnets, or the deployment names another one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        vpc: ec2.IVpc | None,
        long_delays: bool,
        seals: bool,
        signing: bool = False,
        owners: Owners = MappingProxyType({}),
    ) -> None:
        super().__init__(scope, construct_id)
        if vpc is not None and deployment.vpc is not None:
            raise ConfigurationError(
                f"two VPCs are named for the workers: vpc={deployment.vpc.id!r} in the deployment, "
                "and one where the stack is made: leave one out"
            )
        self._gateways: list[ec2.GatewayVpcEndpoint] = []
        self.vpc = vpc or self._existing(deployment.vpc) or self._own(deployment)
        self.subnets = self._subnets(deployment.vpc)
        """The subnets of the tasks."""
        self.assign_public_ip = _is_public(self.vpc, deployment.vpc)
        """True if a task needs a public address to reach AWS."""
        self.security_group = ec2.SecurityGroup(
            self,
            "Workers",
            vpc=self.vpc,
            description="Workers: nothing comes in",
            allow_all_outbound=not self._hardened(deployment, vpc).egress,
        )
        if self._hardened(deployment, vpc).egress:
            self.security_group.add_egress_rule(
                ec2.Peer.any_ipv4(), ec2.Port.HTTPS, "Workers call AWS"
            )
        self.security_groups = [self.security_group, *self._given_groups(deployment.vpc)]
        """The security groups of the tasks."""
        if vpc is None:
            services = deployment.interface_endpoints(
                long_delays=long_delays, seals=seals, signing=signing
            )
            made = self._add_endpoints(services, deployment.endpoint_zones)
            if self._hardened(deployment, vpc).endpoint_policies:
                confine([*self._gateways, *made], owners)

    @staticmethod
    def _hardened(deployment: Deployment, vpc: ec2.IVpc | None) -> Hardening:
        """Return the options; nothing is changed in a VPC that exists."""
        own = vpc is None and deployment.vpc is None
        return deployment.hardening if own else Hardening()

    def _existing(self, named: ExistingVpc | None) -> ec2.IVpc | None:
        if named is None:
            return None
        # CDK takes no VPC without zones, and nothing asks for them: the subnets are named too.
        zones = ["unknown"]
        return ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id=named.id, availability_zones=zones)

    def _subnets(self, named: ExistingVpc | None) -> ec2.SubnetSelection:
        if named is None:
            return ec2.SubnetSelection(subnet_type=_kind(self.vpc))
        found = [ec2.Subnet.from_subnet_id(self, each, each) for each in named.subnets]
        return ec2.SubnetSelection(subnets=found)

    def _given_groups(self, named: ExistingVpc | None) -> list[ec2.ISecurityGroup]:
        return [
            # Their rules are their owner's.
            ec2.SecurityGroup.from_security_group_id(self, each, each, mutable=False)
            for each in (named.security_groups if named is not None else ())
        ]

    def _own(self, deployment: Deployment) -> ec2.Vpc:
        public = deployment.network == "public"
        kind = ec2.SubnetType.PUBLIC if public else ec2.SubnetType.PRIVATE_ISOLATED
        subnets = ec2.SubnetConfiguration(
            name="Workers",
            subnet_type=kind,
            # Each task requests an address itself if it needs one.
            map_public_ip_on_launch=False if public else None,
        )
        made = ec2.Vpc(
            self,
            "Vpc",
            max_azs=ZONES,
            nat_gateways=0,
            subnet_configuration=[subnets],
            # CDK needs a function for it, and nothing is in the default group.
            restrict_default_security_group=deployment.hardening.default_security_group,
        )
        self._gateways = [
            made.add_gateway_endpoint(name, service=_GATEWAYS[name]) for name in GATEWAY_ENDPOINTS
        ]
        self._log_flows(made, deployment)
        return made

    def _log_flows(self, made: ec2.Vpc, deployment: Deployment) -> None:
        if not deployment.hardening.flow_logs:
            acknowledge(
                made,
                "VPC7",
                "Nothing gets in, and CloudTrail tells what the workers ask of AWS; flow logs are "
                "an option of the deployment",
            )
            return
        log_group = add_log_group(self, deployment.log_retention_days)
        made.add_flow_log(
            "Flows", destination=ec2.FlowLogDestination.to_cloud_watch_logs(log_group)
        )

    def _add_endpoints(self, services: Sequence[str], zones: int) -> list[ec2.InterfaceVpcEndpoint]:
        if not services:
            return []
        group = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=self.vpc,
            description="Endpoints of AWS services: for workers alone",
            allow_all_outbound=False,
        )
        group.add_ingress_rule(self.security_group, ec2.Port.HTTPS, "Workers call AWS")
        return [
            ec2.InterfaceVpcEndpoint(
                self,
                service,
                vpc=self.vpc,
                service=ec2.InterfaceVpcEndpointAwsService(service),
                subnets=ec2.SubnetSelection(subnets=self.vpc.isolated_subnets[:zones]),
                security_groups=[group],
                open=False,
            )
            for service in services
        ]


def _is_public(vpc: ec2.IVpc, named: ExistingVpc | None) -> bool:
    return named.public if named is not None else _kind(vpc) is ec2.SubnetType.PUBLIC


def _kind(vpc: ec2.IVpc) -> ec2.SubnetType:
    """Return the kind of a VPC's subnets that is most likely to reach AWS, as far as CDK knows."""
    if vpc.private_subnets:
        return ec2.SubnetType.PRIVATE_WITH_EGRESS
    if vpc.public_subnets:
        return ec2.SubnetType.PUBLIC
    if vpc.isolated_subnets:
        return ec2.SubnetType.PRIVATE_ISOLATED
    raise ConfigurationError("the VPC for the workers has no subnets: name one that has")
