"""An app's queues, table and bucket, on a local stack or in a test.

Production uses CDK, and workers make none of them.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jobs.aws.connection import Connection, async_client
from jobs.aws.faults import FOREIGN, fault
from jobs.topology import (
    DEAD_LETTERS,
    DEAD_LETTERS_KEPT,
    PAYLOADS,
    QUARANTINE_RETENTION,
    QueueSpec,
    Topology,
)

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient
    from types_aiobotocore_sqs import SQSClient

Attributes = dict[str, str]

LINES = "lines"
"""The index that `jobs.ports.Line` is for, by ``list`` and ``place``."""

PROJECTED = ("summary", "expires_at")
"""What the index has besides keys."""

EXPIRY = "expires_at"
"""The table's attribute that DynamoDB's time to live goes by: epoch seconds."""

_POLL_S, _POLLS = 1, 60  # how a table is waited for; a local one is there at once


async def provision(
    topology: Topology, *, endpoint_url: str | None = None, region: str | None = None
) -> None:
    """Create every queue of the topology, its dead-letter queues, the quarantine, the table and
    the bucket.

    What exists with the same attributes is left as it is.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: AWS could not be asked, or refused: a queue of that name exists with other
            attributes, for one.
    """
    connection = Connection(endpoint_url=endpoint_url, region=region)
    async with async_client("sqs", connection) as sqs:
        for spec in topology.queues:
            dlq_arn = await _create(sqs, spec.dlq_name, dead_letter_attributes(spec))
            await _create(sqs, spec.name, queue_attributes(spec, dlq_arn))
        await _create(sqs, topology.quarantine_name, quarantine_attributes())
    await create_table(topology.table_name, endpoint_url=endpoint_url, region=region)
    await create_bucket(topology, endpoint_url=endpoint_url, region=region)


async def create_table(
    name: str, *, endpoint_url: str | None = None, region: str | None = None
) -> None:
    """Create a table for `jobs.aws.dynamo`, and wait until it can be used. Idempotent.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: AWS could not be asked, or refused, or the table was not there in a minute.
    """
    connection = Connection(endpoint_url=endpoint_url, region=region)
    async with async_client("dynamodb", connection) as dynamodb:
        try:
            await _create_table(dynamodb, name)
        except FOREIGN as error:
            raise fault(error, action="dynamodb:CreateTable", target=name) from error


async def create_bucket(
    topology: Topology, *, endpoint_url: str | None = None, region: str | None = None
) -> None:
    """Create the bucket of `jobs.aws.s3` for a topology; what is in it expires. Idempotent.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: AWS could not be asked, or refused.
    """
    connection = Connection(endpoint_url=endpoint_url, region=region)
    bucket = topology.bucket
    async with async_client("sts", connection) as sts, async_client("s3", connection) as s3:
        try:
            account = (await sts.get_caller_identity())["Account"]
            name = bucket.name_in(account, s3.meta.region_name)
            await _create_bucket(s3, name, topology)
        except FOREIGN as error:
            raise fault(error, action="s3:CreateBucket", target=bucket.prefix) from error


async def delete_table(
    name: str, *, endpoint_url: str | None = None, region: str | None = None
) -> None:
    """Delete a table with all of its items, and wait until it is gone. Idempotent.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: AWS could not be asked, or refused, or the table was there after a minute.
    """
    connection = Connection(endpoint_url=endpoint_url, region=region)
    async with async_client("dynamodb", connection) as dynamodb:
        try:
            await _delete_table(dynamodb, name)
        except FOREIGN as error:
            raise fault(error, action="dynamodb:DeleteTable", target=name) from error


def table_properties(name: str) -> dict[str, Any]:
    """CreateTable's arguments for the table of that name.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_CreateTable.html
    """
    return {
        "TableName": name,
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
            {"AttributeName": "list", "AttributeType": "S"},
            {"AttributeName": "place", "AttributeType": "S"},
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": LINES,
                "KeySchema": [
                    {"AttributeName": "list", "KeyType": "HASH"},
                    {"AttributeName": "place", "KeyType": "RANGE"},
                ],
                "Projection": {
                    "ProjectionType": "INCLUDE",
                    "NonKeyAttributes": list(PROJECTED),
                },
            }
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }


def lifecycle_rules(topology: Topology) -> list[dict[str, Any]]:
    """The rules of PutBucketLifecycleConfiguration by which what is in the bucket expires.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_LifecycleRule.html
    """
    kept = {PAYLOADS: topology.payload_retention, DEAD_LETTERS: DEAD_LETTERS_KEPT}
    return [
        {
            "ID": prefix.removesuffix("/"),
            "Status": "Enabled",
            "Filter": {"Prefix": prefix},
            "Expiration": {"Days": retention.days},
        }
        for prefix, retention in kept.items()
    ]


def queue_attributes(spec: QueueSpec, dlq_arn: str) -> Attributes:
    """CreateQueue's attributes for a queue whose dead letters go to ``dlq_arn``.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
    """
    return {
        "VisibilityTimeout": str(spec.visibility_s),
        "MessageRetentionPeriod": _seconds(spec.retention),
        "ReceiveMessageWaitTimeSeconds": _seconds(spec.receive_wait),
        "RedrivePolicy": json.dumps(
            {"deadLetterTargetArn": dlq_arn, "maxReceiveCount": spec.max_receive_count}
        ),
        "SqsManagedSseEnabled": "true",
        **_fifo_attributes(spec),
    }


def dead_letter_attributes(spec: QueueSpec) -> Attributes:
    """CreateQueue's attributes for a queue's dead-letter queue: FIFO where the queue is."""
    return {
        "MessageRetentionPeriod": _seconds(spec.dlq_retention),
        "SqsManagedSseEnabled": "true",
        **_fifo_attributes(spec),
    }


def quarantine_attributes() -> Attributes:
    """CreateQueue's attributes for an app's quarantine."""
    return {
        "MessageRetentionPeriod": _seconds(QUARANTINE_RETENTION),
        "SqsManagedSseEnabled": "true",
    }


def _fifo_attributes(spec: QueueSpec) -> Attributes:
    """High-throughput FIFO: order and deduplication hold within a group.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/high-throughput-fifo.html
    """
    if not spec.fifo:
        return {}
    return {
        "FifoQueue": "true",
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
    }


def _seconds(duration: timedelta) -> str:
    return str(int(duration.total_seconds()))


async def _create(sqs: SQSClient, name: str, attributes: Attributes) -> str:
    """Create a queue, and return its ARN."""
    try:
        # The stubs want literal keys; ours are a plain mapping, compared with the CDK template's.
        created = await sqs.create_queue(QueueName=name, Attributes=attributes)  # type: ignore[arg-type]
        answer = await sqs.get_queue_attributes(
            QueueUrl=created["QueueUrl"], AttributeNames=["QueueArn"]
        )
    except FOREIGN as error:
        raise fault(error, action="sqs:CreateQueue", target=name) from error
    return answer["Attributes"]["QueueArn"]


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


async def _delete_table(dynamodb: DynamoDBClient, name: str) -> None:
    with suppress(dynamodb.exceptions.ResourceNotFoundException):  # it is gone
        await dynamodb.delete_table(TableName=name)
    waiter = dynamodb.get_waiter("table_not_exists")
    await waiter.wait(TableName=name, WaiterConfig={"Delay": _POLL_S, "MaxAttempts": _POLLS})


async def _create_bucket(s3: Any, name: str, topology: Topology) -> None:
    region = s3.meta.region_name
    # The first region of all is the one that can't be named.
    # https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html
    where = {"CreateBucketConfiguration": {"LocationConstraint": region}}
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):  # it exists
        await s3.create_bucket(Bucket=name, **(where if region != "us-east-1" else {}))
    await s3.put_bucket_lifecycle_configuration(
        Bucket=name, LifecycleConfiguration={"Rules": lifecycle_rules(topology)}
    )
