"""Provisioning of an app's queues, table and bucket, on a local stack or in a test.

Production uses CDK, and workers create none of them.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headgate.jobs.aws.connections.connection import Connection, async_aws_client
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.aws.descriptions import (
    ENCRYPTION,
    EXPIRY,
    POINT_IN_TIME_RECOVERY,
    PRIVATE,
    lifecycle_rules,
    table_properties,
    tags_of,
)
from headgate.jobs.aws.queue_descriptions import (
    Attributes,
    QueueDescription,
    create_attributes,
    failed_firings,
    failed_sweeps,
    pairs,
    quarantine,
    redrive_allow_policy,
)
from headgate.jobs.core.existing.arns import bare_name
from headgate.jobs.core.topology import Topology

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient
    from types_aiobotocore_sqs import SQSClient

_POLL_S, _POLLS = 1, 60  # the wait for a table; a local one is there at once


async def provision(
    topology: Topology, *, endpoint_url: str | None = None, region: str | None = None
) -> None:
    """Create all of a topology's resources.

    These are its queues, their dead-letter queues, the quarantine, the queues of failed firings and
    sweeps, the table, the bucket and the group of schedules. All are as CDK makes them, with the
    exceptions in docs/emulators.md. Queues that exist with other attributes are given these.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: AWS could not be asked, or refused.
    """
    connection = Connection(endpoint_url=endpoint_url, region=region)
    async with async_aws_client("sqs", connection) as sqs:
        for queue, dead_letters in pairs(topology):
            await _create_pair(sqs, topology, queue, dead_letters)
        for describe in (quarantine, failed_firings, failed_sweeps):
            other = describe(topology)
            await _create(sqs, topology, other.name, create_attributes(other))
    await create_table(topology.table_name, endpoint_url=endpoint_url, region=region)
    async with async_aws_client("dynamodb", connection) as dynamodb:
        await _protect_table(dynamodb, topology)
    await create_bucket(topology, endpoint_url=endpoint_url, region=region)
    async with async_aws_client("scheduler", connection) as scheduler:
        await _create_group(scheduler, topology)


async def create_table(
    name: str, *, endpoint_url: str | None = None, region: str | None = None
) -> None:
    """Create a table for `jobs.aws.dynamo.table`, and wait until it can be used. Idempotent.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: AWS could not be asked, or refused, or the table was not there in a minute.
    """
    connection = Connection(endpoint_url=endpoint_url, region=region)
    async with async_aws_client("dynamodb", connection) as dynamodb:
        with naming("dynamodb:CreateTable", name):
            await _create_table(dynamodb, name)


async def create_bucket(
    topology: Topology, *, endpoint_url: str | None = None, region: str | None = None
) -> None:
    """Create the bucket of `jobs.aws.s3` for a topology; its objects expire. Idempotent.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: AWS could not be asked, or refused.
    """
    connection = Connection(endpoint_url=endpoint_url, region=region)
    bucket = topology.bucket
    async with async_aws_client("sts", connection) as sts, async_aws_client("s3", connection) as s3:
        with naming("s3:CreateBucket", bucket.prefix):
            account = (await sts.get_caller_identity())["Account"]
            name = bucket.name_in(account, s3.meta.region_name)
            await _create_bucket(s3, name, topology)


async def _create_pair(
    sqs: SQSClient, topology: Topology, queue: QueueDescription, dead_letters: QueueDescription
) -> None:
    """Create a queue, and the dead-letter queue that takes from it alone."""
    dlq_url, dlq_arn = await _create(
        sqs, topology, dead_letters.name, create_attributes(dead_letters)
    )
    _, arn = await _create(sqs, topology, queue.name, create_attributes(queue, dlq_arn))
    policy = json.dumps(redrive_allow_policy(arn))
    with naming("sqs:SetQueueAttributes", dead_letters.name):
        await sqs.set_queue_attributes(QueueUrl=dlq_url, Attributes={"RedriveAllowPolicy": policy})


async def _create(
    sqs: SQSClient, topology: Topology, name: str, attributes: Attributes
) -> tuple[str, str]:
    """Create a queue, or change one that exists; return its URL and its ARN."""
    with naming("sqs:CreateQueue", name):
        url = await _queue_url(sqs, bare_name(name), attributes)
        await sqs.tag_queue(QueueUrl=url, Tags=tags_of(topology))
        answer = await sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return url, answer["Attributes"]["QueueArn"]


async def _queue_url(sqs: SQSClient, name: str, attributes: Attributes) -> str:
    """Return the URL of a queue with those attributes, which it is given as by CloudFormation."""
    # The stubs want literal keys; ours are a plain mapping, compared with the CDK template's.
    given: Any = attributes
    try:
        return (await sqs.create_queue(QueueName=name, Attributes=given))["QueueUrl"]
    except sqs.exceptions.QueueNameExists:  # with others
        url = (await sqs.get_queue_url(QueueName=name))["QueueUrl"]
        changed = {key: value for key, value in given.items() if key != "FifoQueue"}
        await sqs.set_queue_attributes(QueueUrl=url, Attributes=changed)
        return url


async def _protect_table(dynamodb: DynamoDBClient, topology: Topology) -> None:
    """Enable the table's features that DynamoDB Local doesn't know: recovery and tags."""
    name = topology.table_name
    with naming("dynamodb:UpdateContinuousBackups", name):
        await dynamodb.update_continuous_backups(
            TableName=name,
            PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": POINT_IN_TIME_RECOVERY},
        )
        found = await dynamodb.describe_table(TableName=name)
        await dynamodb.tag_resource(
            ResourceArn=found["Table"]["TableArn"], Tags=_listed(tags_of(topology))
        )


async def _create_group(scheduler: Any, topology: Topology) -> None:
    name = topology.schedule_group
    exists = suppress(scheduler.exceptions.ConflictException)
    with naming("scheduler:CreateScheduleGroup", name), exists:
        await scheduler.create_schedule_group(Name=name, Tags=_listed(tags_of(topology)))


def _listed(tags: dict[str, str]) -> list[Any]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


async def _create_table(dynamodb: DynamoDBClient, name: str) -> None:
    with suppress(dynamodb.exceptions.ResourceInUseException):  # it exists
        await dynamodb.create_table(**table_properties(name))
    waiter = dynamodb.get_waiter("table_exists")
    await waiter.wait(TableName=name, WaiterConfig={"Delay": _POLL_S, "MaxAttempts": _POLLS})
    found = await dynamodb.describe_time_to_live(TableName=name)
    status = found["TimeToLiveDescription"].get("TimeToLiveStatus")
    if status not in ("ENABLED", "ENABLING"):
        await dynamodb.update_time_to_live(
            TableName=name,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": EXPIRY},
        )


async def _create_bucket(s3: Any, name: str, topology: Topology) -> None:
    region = s3.meta.region_name
    # The first of all regions is the one that must not be named.
    # https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html
    where = {"CreateBucketConfiguration": {"LocationConstraint": region}}
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):  # it exists
        await s3.create_bucket(Bucket=name, **(where if region != "us-east-1" else {}))
    await s3.put_bucket_lifecycle_configuration(
        Bucket=name, LifecycleConfiguration={"Rules": lifecycle_rules(topology)}
    )
    await s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration=ENCRYPTION)
    await s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=PRIVATE)
    await s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": _listed(tags_of(topology))})
