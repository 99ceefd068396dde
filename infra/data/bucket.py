"""The bucket of a topology: payloads too large for messages, and copies of dead letters."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from headgate.infra.data.existing_resources import own_key, refer_to_bucket
from headgate.infra.data.nag_suppressions import acknowledge
from headgate.jobs.aws.descriptions import lifecycle_rules
from headgate.jobs.core.topology import Topology


class Objects(Construct):
    """One private, encrypted bucket, accessible over TLS only; objects expire by their prefix.

    Where it is deleted with the stack, a function of CDK's empties it before: CloudFormation
    deletes no bucket that has objects. One that something else created is only referred to.

    Args:
        topology: the topology.
        removal_policy: applies when it is removed from its stack, or the stack is deleted.
        existing: the bucket, if something else created it and a construct is at hand.
        key: the key that encrypts it; None: S3's own.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        topology: Topology,
        removal_policy: RemovalPolicy,
        existing: s3.IBucket | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.bucket: s3.IBucket = (
            self._made(topology, removal_policy, key)
            if topology.existing.bucket is None
            else existing or self._referred(topology)
        )
        """The bucket."""

    def _referred(self, topology: Topology) -> s3.IBucket:
        stack, key = Stack.of(self), own_key(self, "BucketKey", topology.existing.bucket_key)
        return refer_to_bucket(self, topology, stack.account, stack.region, key)

    def _made(
        self, topology: Topology, removal_policy: RemovalPolicy, key: kms.IKey | None
    ) -> s3.Bucket:
        stack = Stack.of(self)
        made = s3.Bucket(
            self,
            "Bucket",
            bucket_name=topology.bucket.name_in(stack.account, stack.region),
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            bucket_key_enabled=True if key else None,  # one request to KMS for many objects
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id=rule["ID"],
                    prefix=rule["Filter"]["Prefix"],
                    expiration=Duration.days(rule["Expiration"]["Days"]),
                )
                for rule in lifecycle_rules(topology)
            ],
            removal_policy=removal_policy,
            auto_delete_objects=removal_policy is RemovalPolicy.DESTROY,
        )
        acknowledge(
            made,
            "S1",
            "The app's own roles alone reach it, and what is in it expires; CloudTrail's data "
            "events tell who read what, without a bucket of logs that needs one too",
        )
        return made
