"""What an app's queues, table and bucket are like on AWS: attributes as AWS's calls take them.

Both the CDK constructs and what provisions a local stack read them, and a test holds the two
against each other (tests/infra/test_local_equals_template.py). No SDK in here.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from headgate.jobs.core.topology import (
    DEAD_LETTERS,
    DEAD_LETTERS_KEPT,
    PAYLOADS,
    QUARANTINE_RETENTION,
    QueueSpec,
    Topology,
)

Attributes = dict[str, str]

LINES = "lines"
"""The index that `jobs.core.ports.Line` is for, by ``list`` and ``place``."""

PROJECTED = ("summary", "expires_at")
"""What the index has besides keys."""

EXPIRY = "expires_at"
"""The table's attribute that DynamoDB's time to live goes by: epoch seconds."""

POINT_IN_TIME_RECOVERY = True
"""Whether the table can be restored to any second of the last 35 days."""

ENCRYPTION = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
"""The bucket's, by keys of S3's own."""

PRIVATE = {
    "BlockPublicAcls": True,
    "IgnorePublicAcls": True,
    "BlockPublicPolicy": True,
    "RestrictPublicBuckets": True,
}
"""The bucket's: nothing can make it, or an object in it, public."""

APP_TAG = "headgate:app"
"""What all of an app is tagged with; the value is the app's name."""

STAGE_TAG = "headgate:stage"
"""And if it has stages, with its stage's."""


def tags_of(topology: Topology) -> dict[str, str]:
    """The tags of all that an app has."""
    stage = {STAGE_TAG: topology.stage} if topology.stage else {}
    return {APP_TAG: topology.app} | stage


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


def redrive_allow_policy(source_arn: str) -> dict[str, Any]:
    """A dead-letter queue's RedriveAllowPolicy: it takes from that one queue only.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html
    """
    return {"redrivePermission": "byQueue", "sourceQueueArns": [source_arn]}


def quarantine_attributes() -> Attributes:
    """CreateQueue's attributes for the quarantine and the queues of failed firings and sweeps."""
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
