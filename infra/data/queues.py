"""The queues of a topology: each with its own dead-letter queue, and one quarantine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data.nag_suppressions import acknowledge
from headgate.jobs.aws.descriptions import redrive_allow_policy
from headgate.jobs.core.topology import QUARANTINE_RETENTION, QueueSpec, Topology


class Queues(Construct):
    """Every queue of an app, with the same attributes as `jobs.aws.provision` gives them.

    They are encrypted by SQS or with a customer-managed key, and accessible over TLS only. Physical
    names are the topology's, since submitters and workers look queues up by name.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        topology: Topology,
        removal_policy: RemovalPolicy,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._key = key
        self._removal_policy = removal_policy
        self._all: dict[str, sqs.Queue] = {}
        self._dead_letters = {spec.name: self._dead_letter(spec) for spec in topology.queues}
        self._queues = {spec.name: self._queue(spec) for spec in topology.queues}
        self.quarantine = self.add(
            "quarantine", queue_name=topology.quarantine_name, retention=QUARANTINE_RETENTION
        )
        acknowledge(
            self.quarantine, "SQS3", "Workers park jobs in it: it is a dead-letter queue itself"
        )

    @property
    def by_name(self) -> Mapping[str, sqs.Queue]:
        """The queues that jobs are submitted to, by physical name."""
        return self._queues

    def parking(self, specs: Iterable[QueueSpec]) -> list[sqs.Queue]:
        """Return the dead-letter queues of these queues, and the quarantine."""
        return [*(self._dead_letters[spec.name] for spec in specs), self.quarantine]

    @property
    def set_aside(self) -> list[sqs.Queue]:
        """The queues that no jobs are run from: dead letters, and other messages set aside."""
        return [queue for name, queue in self._all.items() if name not in self._queues]

    def named(self, names: Iterable[str]) -> list[sqs.Queue]:
        """Return the queues of these physical names, of whatever kind."""
        return [self._all[name] for name in names]

    def add(
        self, construct_id: str, *, queue_name: str, retention: timedelta, **properties: Any
    ) -> sqs.Queue:
        """Add a queue with the properties common to all."""
        self._all[queue_name] = queue = sqs.Queue(
            self,
            construct_id,
            queue_name=queue_name,
            retention_period=_duration(retention),
            encryption=(sqs.QueueEncryption.KMS if self._key else sqs.QueueEncryption.SQS_MANAGED),
            encryption_master_key=self._key,
            enforce_ssl=True,
            removal_policy=self._removal_policy,
            **properties,
        )
        return queue

    def _queue(self, spec: QueueSpec) -> sqs.Queue:
        return self.add(
            f"{spec.group}-{spec.priority}",
            queue_name=spec.name,
            retention=spec.retention,
            visibility_timeout=_duration(spec.lane.visibility),
            receive_message_wait_time=_duration(spec.receive_wait),
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self._dead_letters[spec.name], max_receive_count=spec.max_receive_count
            ),
            **_fifo(spec),
        )

    def _dead_letter(self, spec: QueueSpec) -> sqs.Queue:
        queue = self.add(
            f"{spec.group}-{spec.priority}-dlq",
            queue_name=spec.dlq_name,
            retention=spec.dlq_retention,
            **_fifo(spec),
        )
        # The ARN is written out: the queue refers back, so a reference to it would be circular.
        source = Stack.of(self).format_arn(service="sqs", resource=spec.name)
        _resource(queue).redrive_allow_policy = redrive_allow_policy(source)
        return queue


def _fifo(spec: QueueSpec) -> dict[str, Any]:
    if not spec.fifo:
        return {}
    return {
        "fifo": True,
        "deduplication_scope": sqs.DeduplicationScope.MESSAGE_GROUP,
        "fifo_throughput_limit": sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
    }


def _resource(queue: sqs.Queue) -> sqs.CfnQueue:
    found = queue.node.default_child
    assert isinstance(found, sqs.CfnQueue)  # noqa: S101 - CDK's own structure; narrows the type
    return found


def _duration(span: timedelta) -> Duration:
    return Duration.seconds(int(span.total_seconds()))
