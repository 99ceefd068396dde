"""The services that have lean callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JsonService:
    """A service that speaks AWS JSON 1.0."""

    name: str
    """Its name in signatures."""
    target: str
    """The prefix of ``x-amz-target``."""
    actions: tuple[str, ...]
    """The calls that are made of it."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of its requests, by lower-case names."""


DYNAMODB = JsonService(
    name="dynamodb",
    target="DynamoDB_20120810",
    actions=("BatchWriteItem", "GetItem", "PutItem", "Query", "Scan"),
)

SQS = JsonService(
    name="sqs",
    target="AmazonSQS",
    actions=(
        "GetQueueUrl",
        "GetQueueAttributes",
        "SendMessageBatch",
        "ReceiveMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibilityBatch",
    ),
    headers={"x-amzn-query-mode": "true"},  # errors by the codes that SQS has always had
)
