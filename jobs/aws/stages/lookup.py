"""The present state of what a stage uses on AWS, asked and never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from botocore.exceptions import ClientError

from headgate.jobs.aws.connections.clients import Clients, OnDemand, caller_identity, client_of
from headgate.jobs.aws.connections.connection import Access, Connection
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.aws.sqs.wire import url_request
from headgate.jobs.core.immediate import drive
from headgate.jobs.values.light_dataclass import light_dataclass

_LOCATIONS = {"": "us-east-1", "EU": "eu-west-1"}
"""Regions that S3 names otherwise.
https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetBucketLocation.html"""

_NO_ROLE = "NoSuchEntity"
_NO_RULES = "NoSuchLifecycleConfiguration"
_NO_ENCRYPTION = "ServerSideEncryptionConfigurationNotFoundError"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class TableFound:
    """A table as DynamoDB describes it."""

    described: Mapping[str, Any]
    """DescribeTable's."""
    expiry: str | None
    """The attribute of its time to live; None: it has none, or it is being switched off."""
    own_key: str | None
    """The ARN of the customer-managed key that encrypts it; None: AWS's key does."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class BucketFound:
    """A bucket as S3 describes it."""

    region: str
    versioned: bool
    rules: Sequence[Mapping[str, Any]]
    """The rules of its lifecycle that are enabled."""
    own_key: str | None
    """The ARN of the customer-managed key that encrypts new objects; None: AWS's does."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFound:
    """A cluster as ECS describes it."""

    active: bool
    providers: frozenset[str]


class StageLookup:
    """Looks resources up, on boto3. Each service's client opens with its first call.

    All methods raise `TransportError` if AWS could not be asked, or refused.

    Args:
        access: As in `Connection`; the session is one of boto3.
    """

    def __init__(self, **access: Unpack[Access]) -> None:
        self._clients = Clients(Connection(pool=1, **access))
        self._open: dict[str, OnDemand[Any]] = {}

    def close(self) -> None:
        """Close the connections."""
        for client in self._open.values():
            drive(client.stop())
        self._open.clear()

    def account(self) -> str:
        """Return the account of the credentials."""
        return drive(caller_identity(self._clients, "the stage"))["Account"]

    def region(self) -> str:
        """Return the region that is asked."""
        return str(self._client("sqs").meta.region_name)

    def queue(self, queue: str) -> Mapping[str, str]:
        """Return the attributes of a queue, by its name or ARN.

        Raises:
            QueueMissing: there is no such queue.
        """
        named = self._ask("sqs:GetQueueUrl", "get_queue_url", queue, url_request(queue))
        asked = {"QueueUrl": named["QueueUrl"], "AttributeNames": ["All"]}
        answer = self._ask("sqs:GetQueueAttributes", "get_queue_attributes", queue, asked)
        found: Mapping[str, str] = answer.get("Attributes", {})
        return found

    def table(self, table: str) -> TableFound:
        """Return a table, by its name.

        Raises:
            TableMissing: there is no such table.
        """
        asked = {"TableName": table}
        answer = self._ask("dynamodb:DescribeTable", "describe_table", table, asked)
        timed = self._ask("dynamodb:DescribeTimeToLive", "describe_time_to_live", table, asked)
        expiry = timed["TimeToLiveDescription"]
        is_on = expiry["TimeToLiveStatus"] in ("ENABLED", "ENABLING")
        described = answer["Table"]
        return TableFound(
            described=described,
            expiry=expiry["AttributeName"] if is_on else None,
            own_key=self._own(described.get("SSEDescription", {}).get("KMSMasterKeyArn")),
        )

    def bucket(self, bucket: str) -> BucketFound:
        """Return a bucket, by its name.

        Raises:
            BucketMissing: there is no such bucket.
        """
        asked = {"Bucket": bucket}
        located = self._ask("s3:GetBucketLocation", "get_bucket_location", bucket, asked)
        place = located.get("LocationConstraint") or ""
        versioning = self._ask("s3:GetBucketVersioning", "get_bucket_versioning", bucket, asked)
        return BucketFound(
            region=_LOCATIONS.get(place, place),
            versioned=versioning.get("Status") == "Enabled",
            rules=self._lifecycle(bucket),
            own_key=self._own(self._bucket_key(bucket)),
        )

    def role(self, role: str) -> Mapping[str, Any] | None:
        """Return who may assume a role, as its trust policy; None if there is no such role.

        Args:
            role: its name, without its path.
        """
        answer = self._ask("iam:GetRole", "get_role", role, {"RoleName": role}, none=_NO_ROLE)
        if answer is None:
            return None
        trust: Mapping[str, Any] = answer["Role"]["AssumeRolePolicyDocument"]
        return trust

    def cluster(self, cluster: str) -> ClusterFound | None:
        """Return a cluster, by its name; None if there is none."""
        asked = {"clusters": [cluster]}
        answer = self._ask("ecs:DescribeClusters", "describe_clusters", cluster, asked)
        for found in answer["clusters"]:
            providers = frozenset(found.get("capacityProviders", ()))
            return ClusterFound(active=found["status"] == "ACTIVE", providers=providers)
        return None

    def _lifecycle(self, bucket: str) -> list[Mapping[str, Any]]:
        action, method = "s3:GetLifecycleConfiguration", "get_bucket_lifecycle_configuration"
        answer = self._ask(action, method, bucket, {"Bucket": bucket}, none=_NO_RULES) or {}
        return [rule for rule in answer.get("Rules", ()) if rule["Status"] == "Enabled"]

    def _bucket_key(self, bucket: str) -> str | None:
        action, method = "s3:GetEncryptionConfiguration", "get_bucket_encryption"
        answer = self._ask(action, method, bucket, {"Bucket": bucket}, none=_NO_ENCRYPTION) or {}
        for rule in answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", ()):
            key: str | None = rule["ApplyServerSideEncryptionByDefault"].get("KMSMasterKeyID")
            return key
        return None

    def _own(self, key: str | None) -> str | None:
        """Return the ARN of a customer's key, which roles need permission to use; else None."""
        if key is None:
            return None
        found = self._ask("kms:DescribeKey", "describe_key", key, {"KeyId": key})["KeyMetadata"]
        return str(found["Arn"]) if found["KeyManager"] == "CUSTOMER" else None

    def _ask(
        self, action: str, method: str, target: str, asked: Mapping[str, Any], *, none: str = ""
    ) -> Any:
        """Return the answer to a call, by its permission and the SDK's name for it.

        None if it is refused with the code ``none``.
        """
        client = self._client(action.partition(":")[0])
        with naming(action, target):
            try:
                return drive(getattr(client, method)(**asked))
            except ClientError as error:
                if none and error.response["Error"]["Code"] == none:
                    return None
                raise

    def _client(self, service: str) -> Any:
        if service not in self._open:
            self._open[service] = client_of(self._clients, service)
        return drive(self._open[service].opened())
