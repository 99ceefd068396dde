"""An ordinary app, deployed into what exists: a database's password, a VPC, a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.deployable import deployable
from tests.support.deployed import Cloud, Stack, bootstrap, cloud_at, publish, template_in
from tests.support.environment import with_test_credentials
from tests.support.servers import running_server
from tests.support.synthesis import synthesize_for_this_machine

CLUSTER, PASSWORD = "shared", "not-in-any-template"


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cloud]:
    """A MiniStack of its own: the stack has the shop's fixed names."""
    with running_server("ministack") as endpoint_url:
        with_test_credentials(monkeypatch, tmp_path)
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint_url)
        with cloud_at(endpoint_url) as made:
            bootstrap(made)
            yield made


def network(cloud: Cloud) -> Mapping[str, Any]:
    """Create a VPC with two subnets and a security group; return it as ``cdk.json`` names it."""
    ec2 = cloud.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.7.{number}.0/24")["Subnet"]["SubnetId"]
        for number in range(2)
    ]
    group = ec2.create_security_group(VpcId=vpc, GroupName="database", Description="its clients")
    return {"id": vpc, "subnets": subnets, "security_groups": [group["GroupId"]]}


def test_tasks_are_deployed_into_the_vpc_that_exists_with_the_database_s_password(
    cloud: Cloud, tmp_path: Path
) -> None:
    vpc = network(cloud)
    cloud.client("ecs").create_cluster(clusterName=CLUSTER)
    password = cloud.client("secretsmanager").create_secret(
        Name="shop-db", SecretString=json.dumps({"password": PASSWORD})
    )["ARN"]
    directory = tmp_path / "cdk.out"
    name = synthesize_for_this_machine(
        directory,
        {
            "keep_data": True,  # MiniStack runs no function that empties a bucket
            "workers": [{"min_tasks": 1, "max_tasks": 2}],
            "cluster": CLUSTER,
            "vpc": vpc,
            "environment": {"DATABASE_HOST": "db.example.com"},
            "secrets": {"DATABASE_PASSWORD": f"{password}:password"},
        },
    )
    publish(cloud, directory, name)
    stack = Stack(cloud, name)
    template = template_in(directory, name)
    stack.create(deployable(template))

    ecs = cloud.client("ecs")
    [arn] = ecs.list_services(cluster=CLUSTER)["serviceArns"]
    [service] = ecs.describe_services(cluster=CLUSTER, services=[arn])["services"]
    placed = service["networkConfiguration"]["awsvpcConfiguration"]
    assert set(placed["subnets"]) == set(vpc["subnets"])
    assert set(vpc["security_groups"]) < set(placed["securityGroups"]), "and one of its own"
    task = ecs.describe_task_definition(taskDefinition=service["taskDefinition"])
    [container] = task["taskDefinition"]["containerDefinitions"]
    assert {"name": "DATABASE_HOST", "value": "db.example.com"} in container["environment"]
    # MiniStack answers with CloudFormation's spelling of a secret's fields, which boto3 drops: what
    # they say is looked at in tests/infra/fargate/test_surroundings.py.
    assert len(container["secrets"]) == 1
    assert PASSWORD not in json.dumps(template)
