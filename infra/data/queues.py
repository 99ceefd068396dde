"""The queues of a topology: each with its own dead-letter queue, and one quarantine.

Those that something else created are only referred to. The stack's own queues, of failed firings
and of the sweep, are added by `infra.job_system`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data.existing_resources import ExistingResources, refer_to_queue
from headgate.infra.data.nag_suppressions import acknowledge
from headgate.jobs.aws.queue_descriptions import (
    QueueDescription,
    pairs,
    quarantine,
    redrive_allow_policy,
)
from headgate.jobs.core.topology import Topology


class Queues(Construct):
    """Every queue of an app, as `jobs.aws.queue_descriptions` describes it.

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
        existing: ExistingResources | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._key = key
        self._removal_policy = removal_policy
        self._existing = existing or ExistingResources()
        self._all: dict[str, sqs.IQueue] = {}
        described = list(pairs(topology))
        self._dead_letters = {queue.name: self._have_dead(queue, dead) for queue, dead in described}
        self._queues = {queue.name: self._have(queue) for queue, _ in described}
        self.quarantine = self.add(quarantine(topology))
        acknowledge(
            self.quarantine, "SQS3", "Workers park jobs in it: it is a dead-letter queue itself"
        )

    @property
    def by_name(self) -> Mapping[str, sqs.IQueue]:
        """The queues that jobs are submitted to, by physical name."""
        return self._queues

    @property
    def dead_letters(self) -> Mapping[str, sqs.IQueue]:
        """Their dead-letter queues, by the physical name of the queue that they belong to."""
        return self._dead_letters

    def named(self, name: str) -> sqs.IQueue:
        """Return the queue of that physical name, of whatever kind."""
        return self._all[name]

    def add(self, queue: QueueDescription) -> sqs.Queue:
        """Add a queue, after the dead-letter queue that it redrives to."""
        self._all[queue.name] = added = sqs.Queue(
            self,
            queue.label,
            queue_name=queue.name,
            retention_period=_duration(queue.retention),
            visibility_timeout=_duration(queue.visibility),
            receive_message_wait_time=_duration(queue.receive_wait),
            encryption=(sqs.QueueEncryption.KMS if self._key else sqs.QueueEncryption.SQS_MANAGED),
            encryption_master_key=self._key,
            enforce_ssl=True,
            removal_policy=self._removal_policy,
            dead_letter_queue=self._redrive(queue),
            **_fifo(queue),
        )
        if queue.takes_from is not None:
            # The ARN is written out: that queue refers to this one, so a reference back to it
            # would be circular.
            source = Stack.of(self).format_arn(service="sqs", resource=queue.takes_from)
            _resource(added).redrive_allow_policy = redrive_allow_policy(source)
        return added

    def _have_dead(self, queue: QueueDescription, dead: QueueDescription) -> sqs.IQueue:
        found = self._have(dead)
        if queue.existing and not dead.existing:
            acknowledge(found, "SQS3", "Workers park in it the jobs of a queue that exists")
        return found

    def _have(self, queue: QueueDescription) -> sqs.IQueue:
        """Return the queue that exists, or add it."""
        if not queue.existing:
            return self.add(queue)
        stack = Stack.of(self)
        found = self._existing.queues.get(queue.name) or refer_to_queue(
            self, queue, stack.account, stack.region
        )
        self._all[queue.name] = found
        return found

    def _redrive(self, queue: QueueDescription) -> sqs.DeadLetterQueue | None:
        if queue.redrive is None:
            return None
        return sqs.DeadLetterQueue(
            queue=self._all[queue.redrive.to], max_receive_count=queue.redrive.max_receive_count
        )


def _fifo(queue: QueueDescription) -> dict[str, Any]:
    """Return what `create_attributes` says of a FIFO queue, in CDK's words."""
    if not queue.fifo:
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


def _duration(span: timedelta | None) -> Duration | None:
    return Duration.seconds(int(span.total_seconds())) if span is not None else None
