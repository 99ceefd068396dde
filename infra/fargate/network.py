"""The workers' network: one of their own without NAT, or an existing one."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from headgate.infra.data.nag_suppressions import acknowledge
from headgate.jobs.deployment.deployment import GATEWAY_ENDPOINTS, ZONES, Deployment
from headgate.jobs.deployment.surroundings import ExistingVpc
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
    ) -> None:
        super().__init__(scope, construct_id)
        if vpc is not None and deployment.vpc is not None:
            raise ConfigurationError(
                f"two VPCs are named for the workers: vpc={deployment.vpc.id!r} in the deployment, "
                "and one where the stack is made: leave one out"
            )
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
            allow_all_outbound=True,
        )
        self.security_groups = [self.security_group, *self._given_groups(deployment.vpc)]
        """The security groups of the tasks."""
        if vpc is None:
            services = deployment.interface_endpoints(
                long_delays=long_delays, seals=seals, signing=signing
            )
            self._add_endpoints(services, deployment.endpoint_zones)

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
            # CDK would need a function for it; nothing is in the default group.
            restrict_default_security_group=False,
            gateway_endpoints={
                name: ec2.GatewayVpcEndpointOptions(service=_GATEWAYS[name])
                for name in GATEWAY_ENDPOINTS
            },
        )
        acknowledge(
            made,
            "VPC7",
            "Nothing gets in, and CloudTrail tells what the workers ask of AWS; who wants flow "
            "logs hands in a VPC that has them",
        )
        return made

    def _add_endpoints(self, services: Sequence[str], zones: int) -> None:
        if not services:
            return
        group = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=self.vpc,
            description="Endpoints of AWS services: for workers alone",
            allow_all_outbound=False,
        )
        group.add_ingress_rule(self.security_group, ec2.Port.HTTPS, "Workers call AWS")
        for service in services:
            ec2.InterfaceVpcEndpoint(
                self,
                service,
                vpc=self.vpc,
                service=ec2.InterfaceVpcEndpointAwsService(service),
                subnets=ec2.SubnetSelection(subnets=self.vpc.isolated_subnets[:zones]),
                security_groups=[group],
                open=False,
            )


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
