"""Queues created one by one on a real server, with the arguments of the in-memory fake."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

import boto3

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType


class QueueOptions(TypedDict, total=False):
    """What a queue is created with, in whole seconds."""

    visibility_s: int
    delay_s: int
    retention_s: int
    dlq: str | None
    """An existing queue, for messages past ``max_receive_count``."""
    max_receive_count: int | None
    fifo: bool


DEFAULT_OPTIONS: QueueOptions = {
    "visibility_s": 30,
    "delay_s": 0,
    "retention_s": 345_600,
    "dlq": None,
    "max_receive_count": None,
    "fifo": False,
}
"""SQS's own."""


class Queues:
    """Creates, describes and deletes queues of one server, which workers can't."""

    def __init__(self, endpoint_url: str, region: str) -> None:
        self._sqs: SQSClient = boto3.session.Session().client(
            "sqs",
            endpoint_url=endpoint_url,
            region_name=region,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",  # noqa: S106 - no account takes it
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._sqs.close()

    def create_queue(self, name: str, **options: Unpack[QueueOptions]) -> None:
        """Create a queue; ``dlq`` names an existing one for messages past ``max_receive_count``."""
        given = DEFAULT_OPTIONS | options
        attributes: dict[QueueAttributeNameType, str] = {
            "VisibilityTimeout": str(given["visibility_s"]),
            "DelaySeconds": str(given["delay_s"]),
            "MessageRetentionPeriod": str(given["retention_s"]),
        }
        if given["fifo"]:
            attributes["FifoQueue"] = "true"
        if (dlq := given["dlq"]) is not None:
            attributes["RedrivePolicy"] = json.dumps(
                {
                    "deadLetterTargetArn": self.attributes(dlq)["QueueArn"],
                    "maxReceiveCount": given["max_receive_count"],
                }
            )
        self._sqs.create_queue(QueueName=name, Attributes=attributes)

    def delete_queue(self, name: str) -> None:
        """Delete a queue and all of its messages."""
        self._sqs.delete_queue(QueueUrl=self._url(name))

    def attributes(self, name: str) -> Mapping[QueueAttributeNameType, str]:
        """Return a queue's attributes, as the server reports them."""
        answer = self._sqs.get_queue_attributes(QueueUrl=self._url(name), AttributeNames=["All"])
        return answer["Attributes"]

    def _url(self, name: str) -> str:
        return self._sqs.get_queue_url(QueueName=name)["QueueUrl"]
