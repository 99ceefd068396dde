"""Properties of an app's table and bucket on AWS, as the arguments of AWS's calls, and its tags.

Both the CDK constructs and the provisioning of a local stack use them, and a test compares the two
(tests/infra/data/test_local_equals_template.py). Nothing here uses an SDK.
"""

from __future__ import annotations

from typing import Any

from headgate.jobs.core.naming import DEAD_LETTERS, DEAD_LETTERS_KEPT, PAYLOADS, RESULTS
from headgate.jobs.core.topology import Topology

LINES = "lines"
"""The index that `jobs.core.ports.table.ListLine` is for, by ``list`` and ``place``."""

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
    kept = {
        PAYLOADS: topology.payload_retention,
        DEAD_LETTERS: DEAD_LETTERS_KEPT,
        RESULTS: topology.payload_retention,
    }
    return [
        {
            "ID": prefix.removesuffix("/"),
            "Status": "Enabled",
            "Filter": {"Prefix": prefix},
            "Expiration": {"Days": retention.days},
        }
        for prefix, retention in kept.items()
    ]
