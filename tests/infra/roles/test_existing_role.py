"""A role that several systems share keeps what each of them needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam

from headgate import App
from headgate.infra import Deployment, HeadgateStack, WorkerGroup
from headgate.jobs.errors import ConfigurationError
from tests.infra.conftest import NO_BUNDLING, Params
from tests.infra.templates import listed, resources

ROLE = "arn:aws:iam::111122223333:role/teams/tasks"
ACCOUNT = "111122223333"
INLINE = "AWS::IAM::Policy"
MANAGED = "AWS::IAM::ManagedPolicy"
DEPLOYMENT = Deployment(
    workers=(
        WorkerGroup(name="rest", queues=("jobs",), task_role=ROLE),
        WorkerGroup(name="mail", queues=("mail",), task_role=ROLE),
    ),
    network="public",
)
STACKS = {
    "shop-prod": ("prod", "eu-central-1", DEPLOYMENT),
    "shop-prod-standby": ("prod", "eu-west-1", DEPLOYMENT.as_standby()),
    "shop-test": ("test", "eu-central-1", DEPLOYMENT),
}
"""Stage, region and deployment of each stack, by its name."""


def shop(stage: str) -> App:
    app = App("shop", stage=stage)
    app.define("place-order", Params)
    app.queue("mail").define("send-mail", Params)
    return app


@pytest.fixture(scope="module")
def templates() -> Mapping[str, Mapping[str, Any]]:
    """The templates of all stacks, to each of which its owner adds a permission of the tasks."""
    assembly = cdk.App(context=NO_BUNDLING)
    for name, (stage, region, deployment) in STACKS.items():
        stack = HeadgateStack(
            assembly,
            name,
            app=shop(stage),
            deployment=deployment,
            image=ecs.ContainerImage.from_registry("registry.example.com/shop:7"),
            app_path="shop.app:app",
            env=cdk.Environment(account=ACCOUNT, region=region),
        )
        stack.jobs.services["mail"].task_definition.add_to_task_role_policy(
            iam.PolicyStatement(actions=["ses:SendEmail"], resources=["*"])
        )
    made = assembly.synth()
    return {name: made.get_stack_by_name(name).template for name in STACKS}


def of_tasks(template: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    found = resources(template, kind).values()
    return [each for each in found if each.get("Roles") == ["tasks"]]


def allowed(policies: list[Mapping[str, Any]]) -> Iterator[str]:
    for policy in policies:
        for statement in policy["PolicyDocument"]["Statement"]:
            yield from listed(statement["Action"])


def test_no_stack_replaces_what_another_gave_the_role(
    templates: Mapping[str, Mapping[str, Any]],
) -> None:
    names = [
        policy["PolicyName"] for each in templates.values() for policy in of_tasks(each, INLINE)
    ]
    assert len(names) == len(STACKS)  # its owner's addition, once a stack
    assert len(set(names)) == len(names)
    for template in templates.values():
        for policy in of_tasks(template, MANAGED):
            assert "ManagedPolicyName" not in policy, "CloudFormation's own names are unique"


def test_groups_that_share_a_role_share_one_policy(
    templates: Mapping[str, Mapping[str, Any]],
) -> None:
    for template in templates.values():
        [policy] = of_tasks(template, MANAGED)
        actions = set(allowed([policy]))
        assert {"sqs:ReceiveMessage", "sqs:SendMessage", "ecs:UpdateTaskProtection"} <= actions
        assert set(allowed(of_tasks(template, INLINE))) == {"ses:SendEmail"}


def test_no_service_starts_before_its_role_has_its_policy(
    templates: Mapping[str, Mapping[str, Any]],
) -> None:
    for template in templates.values():
        [policy] = [
            logical_id
            for logical_id, each in resources(template, MANAGED).items()
            if each.get("Roles") == ["tasks"]
        ]
        services = [
            each for each in template["Resources"].values() if each["Type"] == "AWS::ECS::Service"
        ]
        assert len(services) == len(DEPLOYMENT.workers)
        for service in services:
            assert policy in service["DependsOn"]


def test_a_role_of_another_account_is_refused() -> None:
    group = WorkerGroup(task_role="arn:aws:iam::999999999999:role/tasks")
    with pytest.raises(ConfigurationError, match="a role of 999999999999 can't be granted access"):
        HeadgateStack(
            cdk.App(context=NO_BUNDLING),
            "Shop",
            app=shop("prod"),
            deployment=Deployment(workers=(group,), network="public"),
            image=ecs.ContainerImage.from_registry("registry.example.com/shop:7"),
            app_path="shop.app:app",
            env=cdk.Environment(account=ACCOUNT, region="eu-central-1"),
        )
