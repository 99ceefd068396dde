"""An app's queues on a local stack or in a test. Production uses CDK; workers never call this."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from jobs.aws.connection import Connection, async_client
from jobs.aws.faults import FOREIGN, fault
from jobs.topology import QUARANTINE_RETENTION, QueueSpec, Topology

if TYPE_CHECKING:
    from types_aiobotocore_sqs import SQSClient

Attributes = dict[str, str]


async def provision(
    topology: Topology, *, endpoint_url: str | None = None, region: str | None = None
) -> None:
    """Create every queue of the topology, its dead-letter queues and the quarantine.

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
