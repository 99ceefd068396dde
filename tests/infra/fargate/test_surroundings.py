"""An ordinary app runs from ``cdk.json``: a database password, a VPC and a cluster that exist."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from headgate.jobs.deployment.cdk_context import parse_deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from tests.infra.fargate.workers import Deployed, deployed, shop
from tests.infra.templates import listed, resources

DATABASE = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:shop-db-AbCdEf"
KEY = "arn:aws:kms:eu-central-1:111122223333:key/0a1b2c3d"
LOG_KEY = "arn:aws:kms:eu-central-1:111122223333:key/4e5f6a7b"
CDK_JSON: Mapping[str, Any] = {
    "environment": {"CURRENCY": "EUR", "SMTP_HOST": "localhost"},
    "secrets": {"DATABASE_PASSWORD": f"{DATABASE}:password", "STRIPE_KEY": "ssm:/shop/stripe-key"},
    "vpc": {"id": "vpc-1", "subnets": ["subnet-1", "subnet-2"], "security_groups": ["sg-1"]},
    "cluster": "shared",
    "architecture": "x86_64",
    "encryption_key": KEY,
    "log_retention_days": 90,
    "log_key": LOG_KEY,
    "workers": [
        {"name": "mail", "environment": {"SMTP_HOST": "mail.example.com"}, "queues": ["payments"]},
        {"name": "rest", "queues": ["jobs"], "secrets": {"TOKEN": DATABASE}},
    ],
}


@pytest.fixture(scope="module")
def system() -> Deployed:
    return deployed(shop(), parse_deployment(json.loads(json.dumps(CDK_JSON))))


def group(system: Deployed, name: str) -> WorkerGroup:
    [found] = [each for each in system.deployment.workers if each.name == name]
    return found


def variables(system: Deployed, name: str) -> dict[str, Any]:
    container = system.container(group(system, name))
    return {each["Name"]: each["Value"] for each in container["Environment"]}


def secrets(system: Deployed, name: str) -> dict[str, Any]:
    container = system.container(group(system, name))
    return {each["Name"]: each["ValueFrom"] for each in container["Secrets"]}


def test_a_group_has_the_deployments_variables_and_its_own_in_their_place(
    system: Deployed,
) -> None:
    assert variables(system, "rest")["SMTP_HOST"] == "localhost"
    assert variables(system, "mail")["SMTP_HOST"] == "mail.example.com"
    for name in ("mail", "rest"):
        assert variables(system, name)["CURRENCY"] == "EUR"
        assert variables(system, name)["HEADGATE_STAGE"] == "test"


def test_secrets_are_read_by_ecs_and_never_in_the_template(system: Deployed) -> None:
    found = secrets(system, "rest")
    assert found.keys() == {"DATABASE_PASSWORD", "STRIPE_KEY", "TOKEN"}
    assert found["DATABASE_PASSWORD"] == f"{DATABASE}:password::"
    assert found["TOKEN"] == DATABASE
    assert "parameter/shop/stripe-key" in json.dumps(found["STRIPE_KEY"])
    assert secrets(system, "mail").keys() == {"DATABASE_PASSWORD", "STRIPE_KEY"}


def test_the_role_that_starts_a_task_may_read_its_secrets_and_no_others(system: Deployed) -> None:
    for name, read in (("mail", {DATABASE}), ("rest", {DATABASE})):
        role = system.task(group(system, name))["ExecutionRoleArn"]["Fn::GetAtt"][0]
        granted = [
            resource
            for policy in resources(system.template, "AWS::IAM::Policy").values()
            if {"Ref": role} in policy["Roles"]
            for statement in policy["PolicyDocument"]["Statement"]
            if "secretsmanager:GetSecretValue" in listed(statement["Action"])
            for resource in listed(statement["Resource"])
        ]
        assert set(granted) == read


def test_tasks_run_in_the_vpc_and_the_cluster_that_are_named(system: Deployed) -> None:
    kinds = {each["Type"] for each in system.template["Resources"].values()}
    assert kinds.isdisjoint({"AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EC2::VPCEndpoint"})
    assert "AWS::ECS::Cluster" not in kinds
    service = system.service(group(system, "mail"))
    network = service["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert service["Cluster"] == "shared"
    assert network["Subnets"] == ["subnet-1", "subnet-2"]
    assert network["AssignPublicIp"] == "DISABLED"
    own, given = network["SecurityGroups"]
    assert (given, own["Fn::GetAtt"][1]) == ("sg-1", "GroupId")
    [made] = resources(system.template, "AWS::EC2::SecurityGroup").values()
    assert made["VpcId"] == "vpc-1"


def test_tasks_have_the_processors_that_are_named(system: Deployed) -> None:
    platform = system.task(group(system, "mail"))["RuntimePlatform"]
    assert platform["CpuArchitecture"] == "X86_64"


def test_queues_and_the_table_are_encrypted_with_the_key_that_is_named(system: Deployed) -> None:
    keys = {
        each["KmsMasterKeyId"] for each in resources(system.template, "AWS::SQS::Queue").values()
    }
    assert keys == {KEY}
    [table] = resources(system.template, "AWS::DynamoDB::GlobalTable").values()
    assert table["Replicas"][0]["SSESpecification"] == {"KMSMasterKeyId": KEY}


def test_all_logs_are_kept_for_the_days_that_are_named(system: Deployed) -> None:
    groups = resources(system.template, "AWS::Logs::LogGroup")
    assert len(groups) == len(("mail", "rest", "bridge", "sweep"))
    assert {each["RetentionInDays"] for each in groups.values()} == {90}


def test_all_logs_are_encrypted_with_the_key_that_is_named(system: Deployed) -> None:
    groups = resources(system.template, "AWS::Logs::LogGroup")
    assert {each["KmsKeyId"] for each in groups.values()} == {LOG_KEY}
