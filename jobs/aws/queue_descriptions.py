"""The SQS queues of an app as values, which CDK and the provisioning of a local stack render.

Nothing here uses an SDK.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from headgate.jobs.core.existing.arns import is_arn
from headgate.jobs.core.topology import QUARANTINE_RETENTION, QueueSpec, Topology
from headgate.jobs.values.light_dataclass import light_dataclass

Attributes = dict[str, str]

FAILED_SWEEPS_RETENTION = timedelta(hours=1)
"""Time that SQS keeps the record of a failed sweep: nobody needs it once sweeps succeed, and the
alarm that counts these messages ends with the last."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """The dead-letter queue of a queue."""

    to: str
    """Its physical name."""
    max_receive_count: int


@light_dataclass(frozen=True, slots=True, kw_only=True)
class QueueDescription:
    """One SQS queue: its name, and every attribute that differs from SQS's defaults.

    All queues are also encrypted, by SQS or with a customer-managed key.
    """

    label: str
    """The name within the app, such as ``jobs-high-dlq``."""
    name: str
    """The physical name."""
    retention: timedelta
    visibility: timedelta | None = None
    """None: SQS's default, 30 s."""
    receive_wait: timedelta | None = None
    """None: SQS's default, short polling."""
    fifo: bool = False
    """True for high-throughput FIFO: order and deduplication hold within a message group.
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/high-throughput-fifo.html"""
    redrive: Redrive | None = None
    """None: SQS moves its messages nowhere."""
    takes_from: str | None = None
    """Physical name of the only queue that SQS may move messages from to this one; None: any."""
    existing: bool = False
    """True for one that something else created; its name may be an ARN."""
    key: str | None = None
    """The ARN of the customer-managed key that encrypts it, if it exists and any does."""


def pairs(topology: Topology) -> Iterator[tuple[QueueDescription, QueueDescription]]:
    """Yield each queue that jobs are submitted to, with its dead-letter queue."""
    for spec in topology.queues:
        yield _queue(spec), _dead_letters(spec)


def quarantine(topology: Topology) -> QueueDescription:
    """Return the queue of jobs that killed their workers."""
    return _kept("quarantine", topology.quarantine_name)


def failed_firings(topology: Topology) -> QueueDescription:
    """Return the queue of firings and events that could not become jobs."""
    return _kept("schedules-dlq", topology.failed_firings_name)


def failed_sweeps(topology: Topology) -> QueueDescription:
    """Return the queue of failed sweeps of the dead letters."""
    return _kept("sweep-dlq", topology.failed_sweeps_name, FAILED_SWEEPS_RETENTION)


def create_attributes(queue: QueueDescription, dead_letters_arn: str | None = None) -> Attributes:
    """Return CreateQueue's attributes, without the key of the encryption.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html

    Args:
        queue: the queue.
        dead_letters_arn: the ARN of its dead-letter queue, if it has one.
    """
    found: Attributes = {
        "MessageRetentionPeriod": _seconds(queue.retention),
        "SqsManagedSseEnabled": "true",
    }
    if queue.visibility is not None:
        found["VisibilityTimeout"] = _seconds(queue.visibility)
    if queue.receive_wait is not None:
        found["ReceiveMessageWaitTimeSeconds"] = _seconds(queue.receive_wait)
    if queue.redrive is not None:
        policy = {
            "deadLetterTargetArn": dead_letters_arn,
            "maxReceiveCount": queue.redrive.max_receive_count,
        }
        found["RedrivePolicy"] = json.dumps(policy)
    if queue.fifo:
        found |= {
            "FifoQueue": "true",
            "DeduplicationScope": "messageGroup",
            "FifoThroughputLimit": "perMessageGroupId",
        }
    return found


def redrive_allow_policy(source_arn: str) -> dict[str, Any]:
    """Return the RedriveAllowPolicy of a dead-letter queue that takes from that one queue only.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html
    """
    return {"redrivePermission": "byQueue", "sourceQueueArns": [source_arn]}


def _queue(spec: QueueSpec) -> QueueDescription:
    found = spec.existing
    return QueueDescription(
        label=f"{spec.group}-{spec.priority}",
        name=spec.name,
        retention=spec.retention,
        visibility=timedelta(seconds=spec.visibility_s),
        receive_wait=spec.receive_wait,
        fifo=spec.fifo,
        redrive=Redrive(to=spec.dlq_name, max_receive_count=spec.max_receive_count),
        existing=found is not None,
        key=found.key if found is not None else None,
    )


def _dead_letters(spec: QueueSpec) -> QueueDescription:
    found = spec.existing
    return QueueDescription(
        label=f"{spec.group}-{spec.priority}-dlq",
        name=spec.dlq_name,
        retention=spec.dlq_retention,
        fifo=spec.fifo,
        # SQS redrives within an account alone.
        takes_from=None if is_arn(spec.name) else spec.name,
        existing=found is not None and found.dead_letters is not None,
        key=found.dead_letters_key if found is not None else None,
    )


def _kept(label: str, name: str, retention: timedelta = QUARANTINE_RETENTION) -> QueueDescription:
    return QueueDescription(label=label, name=name, retention=retention)


def _seconds(duration: timedelta) -> str:
    return str(int(duration.total_seconds()))
