"""Resources as AWS describes them, asked by calls that its own models accept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from headgate.jobs.aws.descriptions import table_properties
from headgate.jobs.aws.stages.lookup import BucketFound, ClusterFound, StageLookup
from headgate.jobs.errors import AccessDenied, BucketMissing, QueueMissing, TableMissing

REGION = "eu-central-1"
KEY = f"arn:aws:kms:{REGION}:111122223333:key/1"
RULE = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 9}}


@cache
def client(service: str) -> Any:
    """Return a client that is made once: its model takes a tenth of a second to read."""
    known: Any = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    session: Any = boto3.session.Session(region_name=REGION, **known)
    return session.client(service)


class Session:
    """A session of boto3's whose clients are answered by stubs."""

    region_name = REGION

    def client(self, service: str, **_options: object) -> Any:
        return client(service)


class Stubs:
    """Answers in the order in which they are asked for."""

    def __init__(self) -> None:
        self.made: dict[str, Stubber] = {}

    def answer(self, service: str, method: str, response: Any, **asked: object) -> None:
        self._of(service).add_response(method, response, asked)

    def refuse(self, service: str, method: str, code: str) -> None:
        self._of(service).add_client_error(method, code)

    def _of(self, service: str) -> Stubber:
        if service not in self.made:
            self.made[service] = Stubber(client(service))
            self.made[service].activate()
        return self.made[service]


@contextmanager
def stubbed() -> Iterator[tuple[StageLookup, Stubs]]:
    session: Any = Session()
    stubs, lookup = Stubs(), StageLookup(session=session)
    yield lookup, stubs
    for each in stubs.made.values():
        each.assert_no_pending_responses()
        each.deactivate()


def table(**described: Any) -> dict[str, Any]:
    known = ("AttributeDefinitions", "KeySchema", "TableName")
    properties = table_properties("jobs")
    return {"Table": {**{name: properties[name] for name in known}, **described}}


def expiry(status: str) -> dict[str, Any]:
    told = {"TimeToLiveStatus": status}
    if status != "DISABLED":
        told["AttributeName"] = "expires_at"
    return {"TimeToLiveDescription": told}


@pytest.mark.parametrize(
    ("status", "attribute"),
    [("ENABLED", "expires_at"), ("ENABLING", "expires_at"), ("DISABLED", None)],
)
def test_a_table_is_told_with_its_expiry_and_the_key_of_a_customer(
    status: str, attribute: str | None
) -> None:
    with stubbed() as (lookup, aws):
        described = table(TableStatus="ACTIVE", SSEDescription={"KMSMasterKeyArn": KEY})
        aws.answer("dynamodb", "describe_table", described, TableName="jobs")
        aws.answer("dynamodb", "describe_time_to_live", expiry(status), TableName="jobs")
        told = {"KeyId": "1", "Arn": KEY, "KeyManager": "CUSTOMER"}
        aws.answer("kms", "describe_key", {"KeyMetadata": told}, KeyId=KEY)
        found = lookup.table("jobs")
    assert (found.expiry, found.own_key) == (attribute, KEY)
    assert found.described == described["Table"]


def test_a_key_that_aws_manages_is_nobody_s_own() -> None:
    with stubbed() as (lookup, aws):
        described = table(SSEDescription={"KMSMasterKeyArn": KEY})
        aws.answer("dynamodb", "describe_table", described, TableName="jobs")
        aws.answer("dynamodb", "describe_time_to_live", expiry("ENABLED"), TableName="jobs")
        told = {"KeyId": "1", "Arn": KEY, "KeyManager": "AWS"}
        aws.answer("kms", "describe_key", {"KeyMetadata": told}, KeyId=KEY)
        assert lookup.table("jobs").own_key is None


def bucket_of(aws: Stubs, *, location: str | None = REGION, status: str = "Enabled") -> None:
    """Let a bucket be described up to its lifecycle."""
    place = {} if location is None else {"LocationConstraint": location}
    aws.answer("s3", "get_bucket_location", place, Bucket="shared")
    aws.answer("s3", "get_bucket_versioning", {"Status": status}, Bucket="shared")


def encrypted(**by: str) -> dict[str, Any]:
    rules = [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", **by}}]
    return {"ServerSideEncryptionConfiguration": {"Rules": rules}}


def test_a_bucket_is_told_with_the_rules_that_are_enabled() -> None:
    with stubbed() as (lookup, aws):
        bucket_of(aws)
        rules = {"Rules": [RULE, {**RULE, "Status": "Disabled"}]}
        aws.answer("s3", "get_bucket_lifecycle_configuration", rules, Bucket="shared")
        aws.answer("s3", "get_bucket_encryption", encrypted(KMSMasterKeyID="1"), Bucket="shared")
        told = {"KeyId": "1", "Arn": KEY, "KeyManager": "CUSTOMER"}
        aws.answer("kms", "describe_key", {"KeyMetadata": told}, KeyId="1")
        found = lookup.bucket("shared")
    assert found == BucketFound(region=REGION, versioned=True, rules=[RULE], own_key=KEY)


@pytest.mark.parametrize(("location", "region"), [(None, "us-east-1"), ("EU", "eu-west-1")])
def test_a_bucket_without_rules_or_a_key_has_none(location: str | None, region: str) -> None:
    with stubbed() as (lookup, aws):
        bucket_of(aws, location=location, status="Suspended")
        aws.refuse("s3", "get_bucket_lifecycle_configuration", "NoSuchLifecycleConfiguration")
        missing = "ServerSideEncryptionConfigurationNotFoundError"
        aws.refuse("s3", "get_bucket_encryption", missing)
        found = lookup.bucket("shared")
    assert found == BucketFound(region=region, versioned=False, rules=[], own_key=None)


def test_what_is_missing_is_told_by_its_kind() -> None:
    with stubbed() as (lookup, aws):
        aws.refuse("sqs", "get_queue_url", "AWS.SimpleQueueService.NonExistentQueue")
        with pytest.raises(QueueMissing):
            lookup.queue("orders")
        aws.refuse("dynamodb", "describe_table", "ResourceNotFoundException")
        with pytest.raises(TableMissing):
            lookup.table("jobs")
        aws.refuse("s3", "get_bucket_location", "NoSuchBucket")
        with pytest.raises(BucketMissing):
            lookup.bucket("shared")
        aws.refuse("iam", "get_role", "NoSuchEntity")
        assert lookup.role("tasks") is None
        failed = {"clusters": [], "failures": [{"reason": "MISSING"}]}
        aws.answer("ecs", "describe_clusters", failed, clusters=["shared"])
        assert lookup.cluster("shared") is None


def test_a_refusal_names_the_permission_that_is_missing() -> None:
    with stubbed() as (lookup, aws):
        bucket_of(aws)
        aws.refuse("s3", "get_bucket_lifecycle_configuration", "AccessDenied")
        with pytest.raises(AccessDenied, match="s3:GetLifecycleConfiguration on 'shared'"):
            lookup.bucket("shared")


def test_a_queue_s_attributes_are_read_by_its_arn_too() -> None:
    url = "https://sqs.eu-central-1.amazonaws.com/999999999999/letters"
    with stubbed() as (lookup, aws):
        named = {"QueueName": "letters", "QueueOwnerAWSAccountId": "999999999999"}
        aws.answer("sqs", "get_queue_url", {"QueueUrl": url}, **named)
        attributes = {"Attributes": {"VisibilityTimeout": "30"}}
        asked = {"QueueUrl": url, "AttributeNames": ["All"]}
        aws.answer("sqs", "get_queue_attributes", attributes, **asked)
        found = lookup.queue("arn:aws:sqs:eu-central-1:999999999999:letters")
    assert found == {"VisibilityTimeout": "30"}
    assert lookup.region() == REGION


def test_a_cluster_and_a_role_are_told_as_they_are() -> None:
    with stubbed() as (lookup, aws):
        described = {"status": "ACTIVE", "capacityProviders": ["FARGATE"]}
        aws.answer("ecs", "describe_clusters", {"clusters": [described]}, clusters=["shared"])
        found = lookup.cluster("shared")
        trust = "%7B%22Statement%22%3A%20%5B%5D%7D"
        role = {"Path": "/", "RoleName": "tasks", "RoleId": "A" * 20, "Arn": "a" * 20}
        made = {**role, "CreateDate": 0, "AssumeRolePolicyDocument": trust}
        aws.answer("iam", "get_role", {"Role": made}, RoleName="tasks")
        assert lookup.role("tasks") is not None
    assert found == ClusterFound(active=True, providers=frozenset({"FARGATE"}))
    lookup.close()
