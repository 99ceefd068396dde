"""The bucket of a topology: payloads too large for messages, and copies of dead letters."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from headgate.infra.data.nag_suppressions import acknowledge
from headgate.jobs.aws.descriptions import lifecycle_rules
from headgate.jobs.core.topology import Topology


class Objects(Construct):
    """One private, encrypted bucket, accessible over TLS only; objects expire by their prefix.

    Where it is deleted with the stack, a function of CDK's empties it before: CloudFormation
    deletes no bucket that has objects.
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
        stack = Stack.of(self)
        self.bucket = s3.Bucket(
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
            self.bucket,
            "S1",
            "The app's own roles alone reach it, and what is in it expires; CloudTrail's data "
            "events tell who read what, without a bucket of logs that needs one too",
        )
