"""Resources that something else created are used, watched and scaled by, and none is changed.

One synthesis has all of it, with alarms in a nested stack and cdk-nag on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_sqs as sqs

from headgate import App, Existing, ExistingQueue
from headgate.infra import Deployment, ExistingResources, ExistingVpc, HeadgateStack, WorkerGroup
from headgate.infra.checks.nag import add_nag
from headgate.jobs.errors import ConfigurationError
from tests.infra.complete import nag_findings, nag_report
from tests.infra.conftest import NO_BUNDLING, Params
from tests.infra.templates import Properties, listed, resources

KEY = "arn:aws:kms:eu-central-1:111122223333:key/1234"
THEIRS = "arn:aws:sqs:eu-central-1:999999999999:letters"
ROLE = "arn:aws:iam::111122223333:role/tasks"
EXISTING = Existing(
    queues={
        "orders": {"normal": ExistingQueue(queue="orders", dead_letters="orders-dead", key=KEY)},
        "mail": {"normal": ExistingQueue(queue=THEIRS)},
    },
    table="their-table",
    table_key=KEY,
    bucket="arn:aws:s3:::their-bucket",
)
DEPLOYMENT = Deployment(
    workers=(WorkerGroup(task_role=ROLE),),
    cluster="shared",
    vpc=ExistingVpc(id="vpc-0a1b2c3d", subnets=("subnet-0a1b2c3d",)),
    alerts_to=("oncall@example.com",),
    nested=("orders",),
)


def shop() -> App:
    app = App("shop", stage="prod", existing=EXISTING)
    app.queue("orders", priorities=["normal"]).define("place-order", Params)
    app.queue("mail", priorities=["normal"]).define("send-letter", Params)
    return app


@dataclass(frozen=True, slots=True)
class Written:
    """The templates of a stack, and what cdk-nag found in it."""

    parent: Mapping[str, Any]
    nested: Mapping[str, Any]
    found: set[tuple[str, str]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    out = tmp_path_factory.mktemp("existing")
    assembly = cdk.App(context=NO_BUNDLING, outdir=str(out))
    add_nag(assembly)
    HeadgateStack(
        assembly,
        "Shop",
        app=shop(),
        deployment=DEPLOYMENT,
        image=ecs.ContainerImage.from_registry("registry.example.com/shop:7"),
        app_path="shop.app:app",
        env=cdk.Environment(account="111122223333", region="eu-central-1"),
    )
    found = nag_findings(nag_report(assembly))
    [nested] = out.glob("*.nested.template.json")
    parent = json.loads((out / "Shop.template.json").read_text())
    return Written(parent, json.loads(nested.read_text()), found)


def alarms(template: Mapping[str, Any]) -> dict[str, Properties]:
    found = resources(template, "AWS::CloudWatch::Alarm").values()
    return {each["AlarmName"]: each for each in found if "AlarmName" in each}


def test_only_what_does_not_exist_is_created(written: Written) -> None:
    queues = resources(written.parent, "AWS::SQS::Queue").values()
    assert {each["QueueName"] for each in queues} == {
        "shop-prod-mail-normal-dlq",  # workers send there what they give up
        "shop-prod-quarantine",
        "shop-prod-schedules-dlq",
        "shop-prod-sweep-dlq",
    }
    for kind in ("AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket", "AWS::ECS::Cluster"):
        assert not resources(written.parent, kind), kind
    policies = resources(written.parent, "AWS::SQS::QueuePolicy").values()
    assert len(policies) == len(queues), "an existing queue keeps its policy"


def test_the_existing_role_of_the_tasks_is_given_what_workers_need(written: Written) -> None:
    [policy] = [
        each
        for each in resources(written.parent, "AWS::IAM::ManagedPolicy").values()
        if each.get("Roles") == ["tasks"]
    ]
    allowed = {
        (action, json.dumps(resource))
        for statement in policy["PolicyDocument"]["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }
    assert ("sqs:ReceiveMessage", json.dumps(THEIRS)) in allowed
    assert any(
        action == "sqs:ReceiveMessage" and ":sqs:eu-central-1:111122223333:orders" in where
        for action, where in allowed
    )
    assert any(action == "sqs:SendMessage" and ":orders-dead" in to for action, to in allowed)
    assert any(action == "dynamodb:PutItem" and "their-table" in to for action, to in allowed)
    assert ("kms:Decrypt", json.dumps(KEY)) in allowed


def test_workers_find_by_their_environment_what_exists(written: Written) -> None:
    [task] = resources(written.parent, "AWS::ECS::TaskDefinition").values()
    [worker] = task["ContainerDefinitions"]
    variables = {each["Name"]: each["Value"] for each in worker["Environment"]}
    assert variables["HEADGATE_EXISTING"] == EXISTING.to_text()
    assert variables["HEADGATE_BUCKET"] == "their-bucket"
    assert task["TaskRoleArn"] == ROLE
    [service] = resources(written.parent, "AWS::ECS::Service").values()
    assert service["Cluster"] == "shared"


def test_a_queue_of_another_account_is_watched_there_and_counted_here(written: Written) -> None:
    depth = alarms(written.parent)["shop-prod-mail-normal-depth"]
    [query] = depth["Metrics"]
    assert query["AccountId"] == "999999999999"
    [dimension] = query["MetricStat"]["Metric"]["Dimensions"]
    assert dimension == {"Name": "QueueName", "Value": "letters"}
    functions = resources(written.parent, "AWS::Lambda::Function").values()
    assert "shop-prod-demand" in {each["FunctionName"] for each in functions}


def test_every_alarm_asks_for_a_queues_metrics_in_the_queues_own_account(
    written: Written,
) -> None:
    queries = [
        (name, query, query["MetricStat"]["Metric"]["Dimensions"])
        for template in (written.parent, written.nested)
        for name, alarm in resources(template, "AWS::CloudWatch::Alarm").items()
        for query in alarm.get("Metrics", ())
        if query.get("MetricStat", {}).get("Metric", {}).get("Namespace") == "AWS/SQS"
    ]
    for name, query, [dimension] in queries:
        owner = "999999999999" if dimension["Value"] == "letters" else None
        assert query.get("AccountId") == owner, (name, dimension["Value"])
    assert any("ScalingOverdue" in name for name, query, _ in queries if "AccountId" in query)


def test_the_alarms_of_a_nested_group_are_in_its_stack_under_another_name(
    written: Written,
) -> None:
    kinds = {name.rpartition("-")[2] for name in alarms(written.nested)}
    assert kinds == {"depth", "oldest", "late", "failing", "dead"}
    assert all(name.startswith("shop-prod/orders-normal-") for name in alarms(written.nested))
    assert not any("orders-normal" in name for name in alarms(written.parent))
    rules = [
        each["AlarmRule"]
        for each in resources(written.parent, "AWS::CloudWatch::CompositeAlarm").values()
    ]
    assert any('ALARM("shop-prod/orders-normal-late")' in rule for rule in rules)
    [service] = resources(written.parent, "AWS::ECS::Service").values()
    watched = service["DeploymentConfiguration"]["Alarms"]["AlarmNames"]
    assert set(watched) == {"shop-prod/orders-normal-failing", "shop-prod-mail-normal-failing"}


def test_each_queue_is_put_out_with_its_url_and_its_arn(written: Written) -> None:
    put_out = written.parent["Outputs"]
    assert put_out["QueueMailNormalArn"]["Value"] == THEIRS
    assert put_out["Existing"]["Value"] == EXISTING.to_text()
    for name in ("QueueOrdersNormal", "DeadLettersOrdersNormal"):
        assert {f"{name}Url", f"{name}Arn"} <= put_out.keys()


def test_cdk_nag_finds_nothing(written: Written) -> None:
    assert written.found == set()


def test_a_construct_stands_for_a_resource_that_the_app_names_and_for_no_other() -> None:
    stack = cdk.Stack()
    queue = sqs.Queue.from_queue_arn(stack, "Queue", THEIRS)
    ExistingResources(queues={"orders": queue}).check(shop().topology, "eu-central-1")
    with pytest.raises(ConfigurationError, match="no existing queue 'order': did you mean"):
        ExistingResources(queues={"order": queue}).check(shop().topology, "eu-central-1")
    app = App("shop", existing=Existing())
    table = dynamodb.TableV2.from_table_name(stack, "Table", "their-table")
    ExistingResources(table=table).check(shop().topology, stack.region)
    with pytest.raises(ConfigurationError, match="'shop' names no existing table"):
        ExistingResources(table=table).check(app.topology, stack.region)


def test_what_an_arn_puts_into_another_region_than_the_stack_s_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is in another region than eu-west-1"):
        ExistingResources().check(shop().topology, "eu-west-1")
