"""A local stack is provisioned exactly as the template says, attribute by attribute."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest

from headgate import App, Priority, cron
from headgate.jobs.aws.provision import provision
from tests.infra.conftest import ELSEWHERE, Params
from tests.infra.templates import Properties, resources, synthesized
from tests.support.environment import REGION, with_test_credentials

QUEUE, QUEUE_POLICY = "AWS::SQS::Queue", "AWS::SQS::QueuePolicy"
TABLE = "AWS::DynamoDB::GlobalTable"
BUCKET, BUCKET_POLICY = "AWS::S3::Bucket", "AWS::S3::BucketPolicy"
GROUP, SCHEDULE = "AWS::Scheduler::ScheduleGroup", "AWS::Scheduler::Schedule"

SERVICES = ("AWS::SQS::", "AWS::DynamoDB::", "AWS::S3::", "AWS::Scheduler::")
"""Prefixes of types whose resources hold jobs: a local stack has all of them but `EXCEPTIONS`."""

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    (QUEUE_POLICY, "*"): "they refuse what comes without TLS, which a local stack has not",
    (BUCKET_POLICY, "*"): "likewise",
    (TABLE, "DeletionProtectionEnabled"): "a local stack is there to be thrown away",
    (SCHEDULE, "*"): "nothing submits jobs by itself where somebody tries something out",
}
"""Deviations of a local stack, by resource type and property, with reasons: docs/emulators.md."""

LEFT_OUT: Mapping[str, str] = {
    "JobsSweepGroup": "it holds the sweep's own schedule alone, and has no name that code knows",
}
"""Resources that a local stack lacks although it has their type, by prefix of the logical id."""

QUEUE_DEFAULTS = {
    "DelaySeconds": 0,
    "ReceiveMessageWaitTimeSeconds": 0,
    "VisibilityTimeout": 30,
    "ContentBasedDeduplication": False,
}
"""Attributes of a queue that neither of the two sets.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html"""

NOT_SET = {
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
    "MaximumMessageSize",  # 1 MiB on SQS, and 256 KiB on older servers
    "QueueArn",
    "Policy",
}
"""Attributes of a queue that are measured, or that the server sets."""

Read = Callable[[str], Mapping[str, Any]]
"""Reads a resource's properties by its name, named as in the template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """An app's template, and the local stack that is provisioned for it."""

    template: Mapping[str, Any]
    account: str
    reads: Mapping[str, Read]
    """Readers by resource type."""

    def deployed(self, kind: str) -> dict[str, Properties]:
        """Return the properties of each resource of a type by physical name, fully resolved."""
        found = (
            self.resolve(properties)
            for logical_id, properties in resources(self.template, kind).items()
            if not logical_id.startswith(tuple(LEFT_OUT))
        )
        return {self._name_of(each): each for each in found}

    def resolve(self, value: Any) -> Any:
        """Resolve a value of the template as CloudFormation would."""
        match value:
            case {"Ref": "AWS::AccountId"}:
                return self.account
            case {"Ref": "AWS::Region"}:
                return REGION
            case {"Ref": "AWS::Partition"}:
                return "aws"
            case {"Fn::Join": [between, parts]}:
                return between.join(map(self.resolve, parts))
            case {"Fn::GetAtt": [logical_id, "Arn"]}:
                name = self.template["Resources"][logical_id]["Properties"]["QueueName"]
                return f"arn:aws:sqs:{REGION}:{self.account}:{name}"
            case dict():
                return {name: self.resolve(each) for name, each in value.items()}
            case list():
                return [self.resolve(each) for each in value]
        return value

    @staticmethod
    def _name_of(properties: Properties) -> str:
        [name] = (
            value
            for key, value in properties.items()
            if key in ("QueueName", "TableName", "BucketName", "Name")
        )
        return str(name)


@pytest.fixture(scope="module")
def both(ministack: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    server, app = ministack, _app()
    connect: Any = boto3.client  # the stubs require a literal for each service
    with pytest.MonkeyPatch.context() as patch, ExitStack() as owned:
        with_test_credentials(patch, tmp_path_factory.mktemp("aws"))
        asyncio.run(provision(app.topology, endpoint_url=server, region=REGION))

        def client(service: str) -> Any:
            made = connect(service, endpoint_url=server, region_name=REGION)
            owned.callback(made.close)
            return made

        account = client("sts").get_caller_identity()["Account"]
        yield Both(
            template=synthesized(app, replace(ELSEWHERE, protected=True)),
            account=account,
            reads={
                QUEUE: _queues(client("sqs")),
                TABLE: _tables(client("dynamodb")),
                BUCKET: _buckets(client("s3")),
                GROUP: _groups(client("scheduler")),
            },
        )


def _app() -> App:
    """Return an app with queues of both kinds, in a stage where data must be kept."""
    app = App(f"t{uuid4().hex[:12]}", stage="prod")
    app.define("daily-report", Params, schedule=cron("0 8 * * ? *"))
    ledger = app.queue("ledger", priorities=[Priority.HIGH, Priority.LOW], fifo=True)
    ledger.define("book", Params, priority=Priority.LOW, group_by=lambda params: str(params.days))
    return app


# --- reading a local stack -----------------------------------------------------------------------


def _queues(sqs: Any) -> Read:
    def read(name: str) -> dict[str, Any]:
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        found = {key: _value(text) for key, text in attributes.items() if key not in NOT_SET}
        return found | {"QueueName": name, "Tags": _tags(sqs.list_queue_tags(QueueUrl=url)["Tags"])}

    return read


def _tables(dynamodb: Any) -> Read:
    def read(name: str) -> dict[str, Any]:
        table = dynamodb.describe_table(TableName=name)["Table"]
        expiry = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        backups = dynamodb.describe_continuous_backups(TableName=name)[
            "ContinuousBackupsDescription"
        ]
        recovery = backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
        tags = dynamodb.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]
        return {
            "TableName": table["TableName"],
            "KeySchema": table["KeySchema"],
            "AttributeDefinitions": _sorted(table["AttributeDefinitions"], "AttributeName"),
            "BillingMode": table["BillingModeSummary"]["BillingMode"],
            "GlobalSecondaryIndexes": [
                {key: index[key] for key in ("IndexName", "KeySchema", "Projection")}
                for index in table["GlobalSecondaryIndexes"]
            ],
            "TimeToLiveSpecification": {
                "AttributeName": expiry["AttributeName"],
                "Enabled": expiry["TimeToLiveStatus"] == "ENABLED",
            },
            "DeletionProtectionEnabled": table.get("DeletionProtectionEnabled", False),
            "PointInTimeRecoverySpecification": {
                "PointInTimeRecoveryEnabled": recovery == "ENABLED"
            },
            "Tags": tags,
        }

    return read


def _buckets(s3: Any) -> Read:
    def read(name: str) -> dict[str, Any]:
        encryption = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]
        rules = s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"]
        return {
            "BucketName": name,
            "BucketEncryption": [
                rule["ApplyServerSideEncryptionByDefault"] for rule in encryption["Rules"]
            ],
            "LifecycleConfiguration": [
                (rule["ID"], rule["Filter"]["Prefix"], rule["Expiration"]["Days"], rule["Status"])
                for rule in rules
            ],
            "PublicAccessBlockConfiguration": s3.get_public_access_block(Bucket=name)[
                "PublicAccessBlockConfiguration"
            ],
            "Tags": s3.get_bucket_tagging(Bucket=name)["TagSet"],
        }

    return read


def _groups(scheduler: Any) -> Read:
    def read(name: str) -> dict[str, Any]:
        group = scheduler.get_schedule_group(Name=name)
        tags = scheduler.list_tags_for_resource(ResourceArn=group["Arn"])["Tags"]
        return {"Name": group["Name"], "Tags": tags}

    return read


def _value(text: str) -> Any:
    """Parse a queue's attribute into its form in the template: a number, a boolean, an object."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _sorted(values: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    return sorted(values, key=lambda value: str(value[key]))


# --- reading the template the same way -----------------------------------------------------------


def _as_read(kind: str, properties: Properties) -> dict[str, Any]:
    """Return a template's properties in the form of the readers above; none is left out."""
    found = dict(properties)
    if kind == TABLE:
        [replica] = found.pop("Replicas")
        # The replica's region, and that it has the index too, only matter for a global table.
        found |= {
            key: replica[key] for key in replica.keys() - {"Region", "GlobalSecondaryIndexes"}
        }
        found["AttributeDefinitions"] = _sorted(found["AttributeDefinitions"], "AttributeName")
    if kind == BUCKET:
        encryption = found["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        found["BucketEncryption"] = [rule["ServerSideEncryptionByDefault"] for rule in encryption]
        found["LifecycleConfiguration"] = [
            (rule["Id"], rule["Prefix"], rule["ExpirationInDays"], rule["Status"])
            for rule in found["LifecycleConfiguration"]["Rules"]
        ]
    return found


def _without_defaults(kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    if kind != QUEUE:
        return dict(properties)
    return {
        name: value
        for name, value in properties.items()
        if name not in QUEUE_DEFAULTS or value != QUEUE_DEFAULTS[name]
    }


def _differences(both: Both, kind: str) -> dict[str, tuple[Any, Any]]:
    """Return the differing values of template and local stack, by resource and property."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, properties in both.deployed(kind).items():
        deployed = _without_defaults(kind, _as_read(kind, properties))
        local = _without_defaults(kind, both.reads[kind](name))
        for key in sorted(deployed.keys() | local.keys()):
            if deployed.get(key) != local.get(key):
                found[f"{name}: {key}"] = (deployed.get(key), local.get(key))
    return found


@pytest.mark.parametrize("kind", [QUEUE, TABLE, BUCKET, GROUP])
def test_every_attribute_is_the_templates_but_for_the_exceptions(both: Both, kind: str) -> None:
    differing = _differences(both, kind)
    excused = {what for what in differing if (kind, what.partition(": ")[2]) in EXCEPTIONS}
    assert {what: differing[what] for what in differing.keys() - excused} == {}


def test_every_exception_is_still_one(both: Both) -> None:
    for kind, what in EXCEPTIONS:
        if what == "*":
            assert kind not in both.reads
            assert resources(both.template, kind)
        else:
            assert any(each.endswith(f": {what}") for each in _differences(both, kind))

    for logical_id in LEFT_OUT:
        assert any(each.startswith(logical_id) for each in both.template["Resources"])


def test_a_local_stack_has_every_kind_of_resource_that_holds_jobs(both: Both) -> None:
    kinds = {
        resource["Type"]
        for resource in both.template["Resources"].values()
        if resource["Type"].startswith(SERVICES)
    }
    excused = {kind for kind, what in EXCEPTIONS if what == "*"}
    assert kinds == both.reads.keys() | excused


def test_the_exceptions_stand_in_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "emulators.md").read_text()
    for kind, what in EXCEPTIONS:
        assert (what if what != "*" else kind.rpartition("::")[2]) in page
