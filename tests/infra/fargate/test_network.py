"""The workers' network reaches the services that workers call, and nothing reaches it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from headgate import App, Encryption, Existing, ExistingQueue, Signing
from headgate.infra.fargate.endpoint_policies import owners_of
from headgate.infra.fargate.network import Network
from headgate.jobs.deployment.deployment import DELAY_ENDPOINT, GATEWAY_ENDPOINTS, ZONES, Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.surroundings import Hardening
from headgate.jobs.errors import ConfigurationError
from tests.infra.templates import Properties, resources, template_of

OTHER = "999999999999"

KINDS = {
    "private": ec2.SubnetType.PRIVATE_WITH_EGRESS,
    "public": ec2.SubnetType.PUBLIC,
    "isolated": ec2.SubnetType.PRIVATE_ISOLATED,
}


def made(
    deployment: Deployment, *, long_delays: bool = True, seals: bool = False, **options: Any
) -> tuple[Network, Mapping[str, Any]]:
    stack = cdk.Stack()
    asked = {"long_delays": long_delays, "seals": seals, **options}
    network = Network(stack, "Network", deployment=deployment, vpc=None, **asked)
    return network, template_of(stack)


def endpoints(template: Mapping[str, Any], kind: str) -> dict[str, Properties]:
    """Return the endpoints of a kind, by the service's short name."""
    return {
        _service(properties["ServiceName"]): properties
        for properties in resources(template, "AWS::EC2::VPCEndpoint").values()
        if properties["VpcEndpointType"] == kind
    }


def _service(name: Any) -> str:
    *_, last = name["Fn::Join"][1]
    return str(last).removeprefix(".")


@pytest.fixture(scope="module")
def isolated() -> Mapping[str, Any]:
    return made(Deployment())[1]


def test_there_is_no_nat_and_no_way_to_the_internet(isolated: Mapping[str, Any]) -> None:
    kinds = {each["Type"] for each in isolated["Resources"].values()}
    assert not kinds & {
        "AWS::EC2::NatGateway",
        "AWS::EC2::InternetGateway",
        "AWS::EC2::EIP",
        "AWS::EC2::Route",
        "AWS::Lambda::Function",
    }


def test_there_are_subnets_in_two_zones(isolated: Mapping[str, Any]) -> None:
    zones = [
        str(subnet["AvailabilityZone"])
        for subnet in resources(isolated, "AWS::EC2::Subnet").values()
    ]
    assert len(zones) == len(set(zones)) == ZONES


@pytest.mark.parametrize("zones", [1, 2])
@pytest.mark.parametrize("long_delays", [True, False])
def test_every_service_that_workers_call_has_its_endpoint_in_so_many_zones(
    zones: int, long_delays: bool
) -> None:
    deployment = Deployment(endpoint_zones=zones)
    _, template = made(deployment, long_delays=long_delays)
    interfaces = endpoints(template, "Interface")
    assert set(interfaces) == set(
        deployment.interface_endpoints(long_delays=long_delays, seals=False)
    )
    assert (DELAY_ENDPOINT in interfaces) is long_delays
    assert {len(each["SubnetIds"]) for each in interfaces.values()} == {zones}
    assert all(each["PrivateDnsEnabled"] for each in interfaces.values())


def test_tables_and_buckets_are_reached_for_nothing_from_every_subnet(
    isolated: Mapping[str, Any],
) -> None:
    gateways = endpoints(isolated, "Gateway")
    assert set(gateways) == set(GATEWAY_ENDPOINTS)
    assert {len(each["RouteTableIds"]) for each in gateways.values()} == {ZONES}


def test_nothing_may_come_in_but_what_workers_ask_of_endpoints(
    isolated: Mapping[str, Any],
) -> None:
    groups = resources(isolated, "AWS::EC2::SecurityGroup")
    assert not any("SecurityGroupIngress" in group for group in groups.values())
    [rule] = resources(isolated, "AWS::EC2::SecurityGroupIngress").values()
    [workers] = [name for name in groups if "Workers" in name]
    [shared] = [name for name in groups if "Endpoints" in name]
    assert rule["SourceSecurityGroupId"] == {"Fn::GetAtt": [workers, "GroupId"]}
    assert rule["GroupId"] == {"Fn::GetAtt": [shared, "GroupId"]}
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 443, 443)
    for endpoint in endpoints(isolated, "Interface").values():
        assert endpoint["SecurityGroupIds"] == [{"Fn::GetAtt": [shared, "GroupId"]}]


# --- hardening -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hardened() -> Mapping[str, Any]:
    everything = Hardening(
        flow_logs=True, endpoint_policies=True, egress=True, default_security_group=True
    )
    return made(Deployment(hardening=everything), owners={"sqs": [OTHER]})[1]


def test_each_endpoint_admits_this_account_and_the_owners_of_what_it_is_used_for(
    hardened: Mapping[str, Any],
) -> None:
    found = resources(hardened, "AWS::EC2::VPCEndpoint").values()
    assert len(found) > len(GATEWAY_ENDPOINTS)
    for endpoint in found:
        own, *others = endpoint["PolicyDocument"]["Statement"]
        account = {"Ref": "AWS::AccountId"}
        is_shared = _service(endpoint["ServiceName"]) == "sqs"
        owners = [account, OTHER] if is_shared else account
        assert own["Condition"] == {
            "StringEquals": {"aws:PrincipalAccount": account},
            "StringEqualsIfExists": {"aws:ResourceAccount": owners},
        }
        layers = [json.dumps(each["Resource"]) for each in others]
        assert len(layers) == (_service(endpoint["ServiceName"]) == "s3")
        assert all("starport-layer-bucket/*" in each for each in layers)
        assert all(each["Action"] == "s3:GetObject" for each in others)


def test_accounts_are_read_from_the_arns_of_queues_secrets_and_keys() -> None:
    arn = f"arn:aws:{{}}:eu-central-1:{OTHER}:{{}}".format
    queue = ExistingQueue(queue=arn("sqs", "mail"))
    app = App(
        "shop",
        existing=Existing(queues={"mail": {"normal": queue}}),
        encryption=Encryption(keys=["alias/own", arn("kms", "key/1")]),
        signing=Signing(secret=arn("secretsmanager", "secret:key")),
    )
    app.queue("mail", priorities=["normal"]).define("send", dict)
    stored = {"PASSWORD": arn("secretsmanager", "secret:db-AbCdEf"), "NAME": "ssm:db"}
    deployment = Deployment(workers=(WorkerGroup(secrets=stored),))
    assert owners_of(app, deployment) == {
        "sqs": [OTHER],
        "secretsmanager": [OTHER],
        "kms": [OTHER],
    }


def test_workers_may_call_port_443_alone(hardened: Mapping[str, Any]) -> None:
    groups = resources(hardened, "AWS::EC2::SecurityGroup")
    [workers] = [each for name, each in groups.items() if "Workers" in name]
    [rule] = workers["SecurityGroupEgress"]
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 443, 443)


def test_flows_are_logged_and_the_default_group_is_closed(hardened: Mapping[str, Any]) -> None:
    [flows] = resources(hardened, "AWS::EC2::FlowLog").values()
    assert flows["TrafficType"] == "ALL"
    [group] = resources(hardened, "AWS::Logs::LogGroup")
    assert flows["LogGroupName"] == {"Ref": group}
    assert resources(hardened, "Custom::VpcRestrictDefaultSG")


def test_by_default_the_network_is_as_before(isolated: Mapping[str, Any]) -> None:
    assert not resources(isolated, "AWS::EC2::FlowLog")
    assert not resources(isolated, "Custom::VpcRestrictDefaultSG")
    for endpoint in resources(isolated, "AWS::EC2::VPCEndpoint").values():
        assert "PolicyDocument" not in endpoint


def test_a_public_network_has_no_paid_endpoint_and_no_inbound_traffic() -> None:
    network, template = made(Deployment(network="public"))
    assert network.assign_public_ip
    assert endpoints(template, "Interface") == {}
    assert set(endpoints(template, "Gateway")) == set(GATEWAY_ENDPOINTS)
    assert resources(template, "AWS::EC2::SecurityGroupIngress") == {}
    groups = resources(template, "AWS::EC2::SecurityGroup").values()
    assert not any("SecurityGroupIngress" in group for group in groups)
    for subnet in resources(template, "AWS::EC2::Subnet").values():
        assert not subnet.get("MapPublicIpOnLaunch"), "a task asks for its address itself"


# --- an existing network -------------------------------------------------------------------------


def given(*kinds: str) -> tuple[Network, Mapping[str, Any]]:
    stack = cdk.Stack()
    subnets = [ec2.SubnetConfiguration(name=kind, subnet_type=KINDS[kind]) for kind in kinds]
    vpc = ec2.Vpc(stack, "Theirs", subnet_configuration=subnets, max_azs=1)
    network = Network(
        stack, "Network", deployment=Deployment(), vpc=vpc, long_delays=True, seals=False
    )
    return network, template_of(stack)


@pytest.mark.parametrize(
    ("kinds", "taken"),
    [
        (("public", "private", "isolated"), "private"),
        (("public", "isolated"), "public"),
        (("isolated",), "isolated"),
    ],
    ids=["with NAT", "without NAT", "isolated"],
)
def test_in_a_given_network_workers_go_where_they_surely_reach_aws(
    kinds: tuple[str, ...], taken: str
) -> None:
    network, _ = given(*kinds)
    assert network.subnets.subnet_type is KINDS[taken]
    assert network.assign_public_ip is (taken == "public")


def test_a_given_network_stays_as_it_is() -> None:
    network, template = given("isolated")
    assert resources(template, "AWS::EC2::VPCEndpoint") == {}
    assert len(resources(template, "AWS::EC2::VPC")) == 1
    assert network.vpc.node.id == "Theirs"


def test_a_given_network_without_subnets_is_refused() -> None:
    stack = cdk.Stack()
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Theirs", vpc_id="vpc-1", availability_zones=["eu-central-1a"]
    )
    with pytest.raises(ConfigurationError, match="no subnets"):
        Network(stack, "Network", deployment=Deployment(), vpc=vpc, long_delays=True, seals=False)
