"""The console as a service: reached through its load balancer alone, by whoever that signs in."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from typer.testing import CliRunner

from headgate.infra.checks.nag import add_nag
from headgate.infra.fargate.console_service import HEALTHY, PORT, command
from headgate.jobs.core.settings import Settings
from headgate.jobs.deployment.cdk_context import parse_deployment
from headgate.jobs.deployment.console.web_console import WebConsole
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.records.audit.entry import AUDIT
from headgate.ops.cli.main import cli
from headgate.ops.costing.estimate import estimate
from headgate.ops.costing.load import Load
from tests.infra.checks.test_nag import findings
from tests.infra.conftest import NO_BUNDLING
from tests.infra.fargate.consoles import (
    CDK_JSON,
    CERTIFICATE,
    CONSOLE,
    SECRET,
    SIGN_IN,
    VPC,
    Granting,
    with_console,
)
from tests.infra.fargate.workers import APP_PATH, Deployed, deployed, shop
from tests.infra.templates import Properties, listed, resources


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> cdk.App:
    made = cdk.App(context=NO_BUNDLING, outdir=str(tmp_path_factory.mktemp("console")))
    add_nag(made)
    return made


@pytest.fixture(scope="module")
def system(assembly: cdk.App) -> Deployed:
    return deployed(shop(), parse_deployment(CDK_JSON), assembly=assembly)


def only(system: Deployed, kind: str) -> Properties:
    """Return the only resource of a type that belongs to the console."""
    [found] = resources(system.template, kind, "JobsConsole").values()
    return found


def rules(system: Deployed, group: str, direction: str) -> list[Properties]:
    """Return what a security group of the console's says besides what other groups may do."""
    [found] = resources(system.template, "AWS::EC2::SecurityGroup", f"JobsConsole{group}").values()
    return list(found.get(f"SecurityGroup{direction}", []))


def statements(system: Deployed) -> list[Properties]:
    """Return what the console's role may do."""
    role = only(system, "AWS::ECS::TaskDefinition")["TaskRoleArn"]["Fn::GetAtt"][0]
    return [
        statement
        for policy in resources(system.template, "AWS::IAM::Policy").values()
        if {"Ref": role} in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def test_people_reach_an_internal_load_balancer_that_signs_them_in(system: Deployed) -> None:
    balancer = only(system, "AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert balancer["Scheme"] == "internal"
    assert balancer["Subnets"] == VPC["subnets"]
    listener = only(system, "AWS::ElasticLoadBalancingV2::Listener")
    assert (listener["Port"], listener["Protocol"]) == (443, "HTTPS")
    assert listener["Certificates"] == [{"CertificateArn": CERTIFICATE}]
    rule = only(system, "AWS::ElasticLoadBalancingV2::ListenerRule")
    first, then = sorted(rule["Actions"], key=lambda each: each["Order"])
    assert (first["Type"], then["Type"]) == ("authenticate-oidc", "forward")
    told = first["AuthenticateOidcConfig"]
    assert told["Issuer"] == SIGN_IN["issuer"]
    assert told["Scope"] == "openid email"
    assert int(told["SessionTimeout"]) == 12 * 3600
    assert told["ClientSecret"] == f"{{{{resolve:secretsmanager:{SECRET}:SecretString:::}}}}"
    assert "OnUnauthenticatedRequest" not in told  # by default they have to sign in


def test_by_another_name_nobody_is_signed_in_or_passed_on(system: Deployed) -> None:
    rule = only(system, "AWS::ElasticLoadBalancingV2::ListenerRule")
    [condition] = rule["Conditions"]
    assert condition["Field"] == "host-header"
    assert condition["HostHeaderConfig"] == {"Values": ["console.shop.example"]}
    [otherwise] = only(system, "AWS::ElasticLoadBalancingV2::Listener")["DefaultActions"]
    assert otherwise["Type"] == "fixed-response"
    assert otherwise["FixedResponseConfig"]["StatusCode"] == "421"


def test_nobody_else_reaches_the_load_balancer_or_the_task(system: Deployed) -> None:
    admitted = rules(system, "LoadBalancerGroup", "Ingress")
    assert [each["CidrIp"] for each in admitted] == CONSOLE["admits"]
    assert {each["FromPort"] for each in admitted} == {443}
    assert rules(system, "Tasks", "Ingress") == []
    between = resources(system.template, "AWS::EC2::SecurityGroupIngress", "JobsConsole")
    [allowed] = between.values()
    assert (allowed["FromPort"], allowed["ToPort"]) == (PORT, PORT)
    assert "LoadBalancerGroup" in str(allowed["SourceSecurityGroupId"])
    network = only(system, "AWS::ECS::Service")["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert network["AssignPublicIp"] == "DISABLED"
    own, given = network["SecurityGroups"]
    assert "JobsConsoleTasks" in str(own)
    assert [given] == VPC["security_groups"]


def test_the_task_serves_the_console_for_its_own_load_balancer(system: Deployed) -> None:
    [container] = only(system, "AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    assert container["EntryPoint"] == ["headgate"]
    assert container["ReadonlyRootFilesystem"]
    assert container["User"] == "10001"
    variables = {each["Name"]: each["Value"] for each in container["Environment"]}
    assert variables["CURRENCY"] == "EUR"
    assert variables["HEADGATE_APP"] == APP_PATH
    assert variables["HEADGATE_STAGE"] == "test"
    assert "LoadBalancer" in variables["HEADGATE_CONSOLE_LOAD_BALANCER"]["Ref"]
    texts = {name: str(value) for name, value in variables.items()}
    assert Settings.from_env(texts | {"HEADGATE_ACCOUNT": "111122223333"}).console_load_balancer
    assert [each["Name"] for each in container["Secrets"]] == ["DATABASE_PASSWORD"]


def test_a_task_that_does_not_answer_ends_a_deployment(system: Deployed) -> None:
    targets = only(system, "AWS::ElasticLoadBalancingV2::TargetGroup")
    assert targets["HealthCheckPath"] == HEALTHY
    attributes = {each["Key"]: each["Value"] for each in targets["TargetGroupAttributes"]}
    # Two tasks run during a deployment, and each shows the outcomes of its own actions.
    assert attributes["stickiness.enabled"] == "true"
    service = only(system, "AWS::ECS::Service")
    assert service["DesiredCount"] == 1
    deploying = service["DeploymentConfiguration"]
    assert deploying["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    assert deploying["MinimumHealthyPercent"] == 100
    [id_] = resources(system.template, "AWS::ECS::Service", "JobsConsole")
    # ECS registers tasks only in a target group that a listener's rule leads to.
    assert any("HttpsDomain" in each for each in system.template["Resources"][id_]["DependsOn"])


def test_alerts_lead_to_its_domain(system: Deployed) -> None:
    schedules = resources(system.template, "AWS::Scheduler::Schedule", "JobsSweep").values()
    [plan] = [json.loads(each["Target"]["Input"]) for each in schedules]
    assert plan["console"] == "https://console.shop.example"


def test_its_role_operates_the_app_enters_the_audit_and_runs_no_job(system: Deployed) -> None:
    actions = {action for each in statements(system) for action in listed(each["Action"])}
    assert {"sqs:SendMessage", "sqs:GetQueueAttributes", "dynamodb:Query"} <= actions
    assert "ecs:UpdateTaskProtection" not in actions
    assert not {each for each in actions if "*" in each}
    assert any(
        "dynamodb:PutItem" in listed(each["Action"]) and AUDIT in str(each.get("Condition"))
        for each in statements(system)
    )


@pytest.mark.parametrize(
    ("fields", "granted"),
    [
        ({}, ("operate", False)),
        ({"opens": True}, ("operate", True)),
        ({"read_only": True}, ("view", False)),
    ],
)
def test_its_role_has_no_more_than_the_deployment_says(
    fields: dict[str, Any], granted: tuple[str, bool]
) -> None:
    assert Granting(cdk.Stack(), with_console(**fields)).granted == [granted]


def test_a_deployment_without_one_has_none() -> None:
    made = Granting(cdk.Stack(), {**CDK_JSON, "console": None})
    assert made.console is None
    assert made.granted == []


def test_cdk_nag_finds_nothing(assembly: cdk.App, system: Deployed) -> None:
    assert system.stack.jobs.console is not None
    assert findings(assembly) == set()


@pytest.mark.parametrize("read_only", [False, True])
def test_its_command_is_one_that_headgate_knows(
    read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = parse_deployment(with_console(read_only=read_only)).console
    assert isinstance(console, WebConsole)
    monkeypatch.setattr("headgate.ops.cli.overview.console.app_of", _stop)
    ended = CliRunner().invoke(cli, command(console))
    assert isinstance(ended.exception, _Reached)
    assert ("--read-only" in command(console)) is read_only


class _Reached(Exception):
    """The command has parsed its arguments."""


def _stop(_context: object) -> None:
    raise _Reached


def test_its_path_of_health_is_a_file_that_exists() -> None:
    root = Path(__file__).parents[3] / "ops" / "console"
    assert (root / HEALTHY.removeprefix("/")).is_file()


@pytest.mark.parametrize("network", ["endpoints", "public"])
def test_a_network_made_for_the_workers_is_refused(network: str) -> None:
    with pytest.raises(ConfigurationError, match="private subnets behind NAT"):
        Granting(cdk.Stack(), {**CDK_JSON, "vpc": None, "network": network})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"vpc": {**VPC, "public": True}}, "private subnets behind NAT"),
        ({"vpc": {**VPC, "subnets": ["subnet-0a1b2c3d"]}}, "needs 2 subnets"),
        ({"workers": []}, "the deployment has none"),
        ({"environment": {"HEADGATE_CONSOLE_LOAD_BALANCER": "x"}}, "by the deployment itself"),
        (with_console(domain="https://a.example"), "console.example.com, got"),
        (with_console(certificate="mine"), "one in ACM"),
        (with_console(certificate=CERTIFICATE.replace("aws:", "aws-cn:")), "outside China"),
        (with_console(admits=[]), "admits must name the ranges"),
        (with_console(admits=["0.0.0.0/0"]), "is everybody"),
        (with_console(admits=["office"]), "ranges of IPv4 addresses"),
        (with_console(admits=["fd00::/8"]), "ranges of IPv4 addresses"),
        (with_console(read_only=True, opens=True), "opens has no effect"),
        (with_console(sign_in={**SIGN_IN, "client_secret": "hunter2"}), "client_secret must be"),
        (with_console(sign_in={**SIGN_IN, "issuer": "http://a"}), "issuer must be"),
        (with_console(sign_in={**SIGN_IN, "isuer": "x"}), "did you mean 'issuer'"),
        (with_console(admit=[]), "did you mean 'admits'"),
    ],
)
def test_a_mistake_in_cdk_json_is_named(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as found:
        parse_deployment({**CDK_JSON, **fields})
    assert "hunter2" not in str(found.value)


def test_the_page_about_the_console_shows_a_valid_deployment() -> None:
    page = Path(__file__).parents[3] / "docs" / "console.md"
    [shown] = re.findall(r"```json\n(.*?)```", page.read_text(), re.DOTALL)
    console = parse_deployment(json.loads(shown)).console
    assert console is not None
    assert f"{console.url}/oauth2/idpresponse" in page.read_text()


def test_its_cost_is_part_of_the_estimate() -> None:
    def monthly(**fields: Any) -> float:
        deployment = parse_deployment({"vpc": VPC, **fields})
        now = datetime(2026, 11, 1, tzinfo=UTC)
        return estimate(shop(), deployment, Load(jobs=0), now=now).bill.usd

    assert 20 < monthly(console=CONSOLE) - monthly() < 30
