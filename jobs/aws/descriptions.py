"""Properties of an app's queues, table and bucket on AWS, as the arguments of AWS's calls.

Both the CDK constructs and the provisioning of a local stack use them, and a test compares the two
(tests/infra/data/test_local_equals_template.py). Nothing here uses an SDK.
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
"""Attributes that the index has besides keys."""

EXPIRY = "expires_at"
"""The table's attribute for DynamoDB's time to live: epoch seconds."""

POINT_IN_TIME_RECOVERY = True
"""True if the table can be restored to any second of the last 35 days."""

ENCRYPTION = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
"""The bucket's encryption, with S3's own keys."""

PRIVATE = {
    "BlockPublicAcls": True,
    "IgnorePublicAcls": True,
    "BlockPublicPolicy": True,
    "RestrictPublicBuckets": True,
}
"""The bucket's public access block: nothing can make it, or an object in it, public."""

APP_TAG = "headgate:app"
"""Tag on all of an app's resources; the value is the app's name."""

STAGE_TAG = "headgate:stage"
"""Tag on the resources of an app with stages; the value is the stage's name."""


def tags_of(topology: Topology) -> dict[str, str]:
    """Return the tags of all of an app's resources."""
    stage = {STAGE_TAG: topology.stage} if topology.stage else {}
    return {APP_TAG: topology.app} | stage


def table_properties(name: str) -> dict[str, Any]:
    """Return CreateTable's arguments for the table of that name.

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
    """Return the rules of PutBucketLifecycleConfiguration by which the bucket's objects expire.

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
    """Return CreateQueue's attributes for a queue whose dead letters go to ``dlq_arn``.

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
    """Return CreateQueue's attributes for a queue's dead-letter queue: FIFO if the queue is."""
    return {
        "MessageRetentionPeriod": _seconds(spec.dlq_retention),
        "SqsManagedSseEnabled": "true",
        **_fifo_attributes(spec),
    }


def redrive_allow_policy(source_arn: str) -> dict[str, Any]:
    """Return a dead-letter queue's RedriveAllowPolicy: it takes from that one queue only.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html
    """
    return {"redrivePermission": "byQueue", "sourceQueueArns": [source_arn]}


def quarantine_attributes() -> Attributes:
    """Return CreateQueue's attributes for the quarantine and for failed firings and sweeps."""
    return {
        "MessageRetentionPeriod": _seconds(QUARANTINE_RETENTION),
        "SqsManagedSseEnabled": "true",
    }


def _fifo_attributes(spec: QueueSpec) -> Attributes:
    """Return the attributes of high-throughput FIFO: order and deduplication hold within a group.

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
