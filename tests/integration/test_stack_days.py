"""The days of a stack that keeps its data: a first creation that fails, a deletion, a return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import aws_cdk as cdk
import pytest

from headgate import App, Encryption, Priority, Signing, cron
from headgate.infra.stack import HeadgateStack
from headgate.jobs.aws.cloudformation import CloudFormationStacks
from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.deployment import Deployment
from tests.infra.conftest import NO_BUNDLING, Params
from tests.infra.templates import template_of
from tests.support.deployed import Cloud, DeploymentFailed, Stack, bootstrap, cloud_at
from tests.support.environment import REGION, with_test_credentials

IDENTIFIED_BY = {
    "AWS::DynamoDB::GlobalTable": "TableName",
    "AWS::KMS::Alias": "AliasName",
    "AWS::KMS::Key": "KeyId",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SQS::Queue": "QueueUrl",
    "AWS::Scheduler::ScheduleGroup": "Name",
    "AWS::SecretsManager::Secret": "Id",
}
"""The types of what holds jobs or opens them, each with what CloudFormation imports it by."""

IMPORTED = ("AWS::S3::Bucket", "AWS::SQS::Queue")
"""Those of them that MiniStack imports."""


@pytest.fixture
def cloud(ministack: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cloud]:
    with_test_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack)
    with cloud_at(ministack) as made:
        bootstrap(made)
        yield made


@pytest.fixture(scope="module")
def app() -> App:
    name = f"days-{uuid4().hex[:8]}"
    app = App(name, stage="prod", encryption=Encryption(), signing=Signing())
    reports = app.queue("reports", priorities=[Priority.NORMAL])
    reports.define("report", Params, schedule=cron("0 8 * * ? *"))
    return app


@pytest.fixture(scope="module")
def template(app: App) -> Mapping[str, Any]:
    """The part of the app's template that holds jobs, with names that are known beforehand."""
    stack = HeadgateStack(
        cdk.App(context=NO_BUNDLING),
        "Stack",
        app=app,
        deployment=Deployment(workers=()),
        env=cdk.Environment(account="000000000000", region=REGION),
    )
    held = {
        name: each
        for name, each in template_of(stack)["Resources"].items()
        if each["Type"] in IDENTIFIED_BY and not name.startswith(("JobsSweep", "JobsAlerts"))
    }
    return {"Resources": held}


def broken(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template with a resource that can't be created, after all others."""
    bad = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"EvaluationPeriods": 1}}
    after = {"DependsOn": list(template["Resources"])}
    return {"Resources": {**template["Resources"], "Bad": bad | after}}


def there(cloud: Cloud, topology: Topology) -> set[str]:
    """Return the names of what exists of an app."""
    ask = cloud.client
    urls = ask("sqs").list_queues(QueueNamePrefix=topology.app).get("QueueUrls", [])
    buckets = [each["Name"] for each in ask("s3").list_buckets()["Buckets"]]
    tables = ask("dynamodb").list_tables()["TableNames"]
    groups = ask("scheduler").list_schedule_groups()["ScheduleGroups"]
    aliases = [each["AliasName"] for each in ask("kms").list_aliases()["Aliases"]]
    secrets = [each["Name"] for each in ask("secretsmanager").list_secrets()["SecretList"]]
    names = [*buckets, *tables, *(group["Name"] for group in groups), *secrets]
    names += [alias.removeprefix("alias/") for alias in aliases]
    queues = {url.rpartition("/")[2] for url in urls}
    return queues | {name for name in names if name.startswith(topology.app)}


def deployed_template(stack: str) -> Mapping[str, Any] | None:
    """Return the template that `headgate diff` reads."""
    stacks = CloudFormationStacks()
    try:
        return stacks.template(stack)
    finally:
        stacks.close()


def importable(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a template that MiniStack can import."""
    held = template["Resources"].items()
    return {"Resources": {name: each for name, each in held if each["Type"] in IMPORTED}}


def names(template: Mapping[str, Any]) -> dict[str, str]:
    """Return the physical names of a template's resources, by logical id; a key has none."""
    naming = IDENTIFIED_BY | {"AWS::SQS::Queue": "QueueName", "AWS::SecretsManager::Secret": "Name"}
    return {
        name: each["Properties"][naming[each["Type"]]].removeprefix("alias/")
        for name, each in template["Resources"].items()
        if each["Type"] != "AWS::KMS::Key"
    }


@pytest.mark.usefixtures("cloud")
def test_the_place_of_a_stack_is_asked_of_aws() -> None:
    stacks = CloudFormationStacks()
    try:
        found = stacks.pseudo_parameters()
    finally:
        stacks.close()
    here = {"AWS::AccountId": "000000000000", "AWS::Partition": "aws", "AWS::Region": REGION}
    assert found == here


def test_a_stack_survives_a_failed_creation_and_its_jobs_survive_its_deletion(
    cloud: Cloud, app: App, template: Mapping[str, Any]
) -> None:
    stack, everything = Stack(cloud, app.name), set(names(template).values())
    assert deployed_template(app.name) is None
    with pytest.raises(DeploymentFailed, match="ROLLBACK_COMPLETE: Bad"):
        stack.create(broken(template))
    assert there(cloud, app.topology) == set(), "nothing is in the way of the next attempt"

    stack.delete()  # as `cdk deploy` does first
    stack.create(template)
    sqs, [spec] = cloud.client("sqs"), app.topology.queues
    url = queue_url(cloud, spec.name)
    sqs.send_message(QueueUrl=url, MessageBody="a job")
    assert deployed_template(app.name) == template
    stack.delete()
    assert there(cloud, app.topology) == everything

    again, existing = Stack(cloud, app.name), importable(template)
    again.adopt(existing, identifiers(cloud, existing))
    [message] = sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"]
    assert message["Body"] == "a job"
    assert again.resources().keys() == existing["Resources"].keys()


def queue_url(cloud: Cloud, name: str) -> str:
    return str(cloud.client("sqs").get_queue_url(QueueName=name)["QueueUrl"])


def identifiers(cloud: Cloud, template: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    found = {}
    for name, physical in names(template).items():
        key = IDENTIFIED_BY[template["Resources"][name]["Type"]]
        found[name] = {key: queue_url(cloud, physical) if key == "QueueUrl" else physical}
    return found
