"""Resources of an app that something else created, as CDK's own references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aws_cdk import ArnFormat, Stack, Token
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.jobs.aws.queue_descriptions import QueueDescription
from headgate.jobs.core.existing.arns import is_arn
from headgate.jobs.core.existing.resources import ExistingQueue
from headgate.jobs.core.topology import Topology
from headgate.jobs.errors import ConfigurationError, did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingResources:
    """Constructs of the resources that `App(existing=...)` names, as a CDK app has them at hand.

    What is left out is referred to by its name. Pass a construct for one that the same CDK app
    creates, so that it is created first and its key is known.
    """

    queues: Mapping[str, sqs.IQueue] = field(default_factory=dict)
    """Queues and dead-letter queues, by the names that the app gives them."""
    table: dynamodb.ITableV2 | None = None
    bucket: s3.IBucket | None = None
    cluster: ecs.ICluster | None = None
    """The cluster for the workers; None: the one that the deployment names, or one of their own."""

    def check(self, topology: Topology, region: str) -> None:
        """Check that the app takes each as one that exists, in the region of its stack.

        Args:
            topology: the topology.
            region: the stack's region; nothing is said of it if it is a token.

        Raises:
            ConfigurationError: it doesn't, or an ARN is another region's.
        """
        if not Token.is_unresolved(region):
            topology.existing.check_region(region)
        known = [name for spec in topology.queues for name in _existing_names(spec.existing)]
        for name in self.queues.keys() - set(known):
            raise ConfigurationError(
                f"existing=: the app {topology.app!r} names no existing queue {name!r}: "
                f"{did_you_mean(name, known)} App(existing=...) names them"
            )
        for kind in ("table", "bucket"):
            if getattr(self, kind) is not None and getattr(topology.existing, kind) is None:
                raise ConfigurationError(
                    f"existing=: the app {topology.app!r} names no existing {kind}: "
                    f"App(existing=Existing({kind}=...)) does, so that its processes find it"
                )


def refer_to_queue(
    scope: Construct, queue: QueueDescription, account: str, region: str
) -> sqs.IQueue:
    """Refer to a queue in that account and region, or by its ARN."""
    arn = queue.name
    if not is_arn(arn):
        arn = Stack.of(scope).format_arn(
            service="sqs", resource=queue.name, account=account, region=region
        )
    return sqs.Queue.from_queue_attributes(
        scope, queue.label, queue_arn=arn, fifo=queue.fifo, key_arn=queue.key
    )


def refer_to_table(
    scope: Construct, topology: Topology, account: str, region: str, key: kms.IKey | None
) -> dynamodb.ITableV2:
    """Refer to the table of a topology in that account and region."""
    arn = Stack.of(scope).format_arn(
        service="dynamodb",
        resource="table",
        resource_name=topology.table_name,
        account=account,
        region=region,
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )
    return dynamodb.TableV2.from_table_attributes(scope, "Table", table_arn=arn, encryption_key=key)


def refer_to_bucket(
    scope: Construct, topology: Topology, account: str, region: str, key: kms.IKey | None
) -> s3.IBucket:
    """Refer to the bucket of a topology, likewise."""
    return s3.Bucket.from_bucket_attributes(
        scope,
        "Bucket",
        bucket_name=topology.bucket.name_in(account, region),
        account=account,
        region=region,
        encryption_key=key,
    )


def own_key(scope: Construct, construct_id: str, arn: str | None) -> kms.IKey | None:
    """Refer to the key of an existing resource; None if it has none."""
    return None if arn is None else kms.Key.from_key_arn(scope, construct_id, arn)


def _existing_names(queue: ExistingQueue | None) -> list[str]:
    return [] if queue is None else [name for name in (queue.queue, queue.dead_letters) if name]
