"""The types whose resources need more than an argument for each property."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.export.resources import Resource
from headgate.ops.export.terraform.arguments import (
    Argument,
    NestedBlock,
    Rendered,
    arguments,
    document,
    plain,
    tags,
    without,
)
from headgate.ops.export.terraform.kinds import DEAD_LETTER_CONFIG, KINDS, RETRY_POLICY
from headgate.ops.export.terraform.references import TYPES, References, address, local_name

ZIP = "${var.functions_zip}"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One resource of Terraform's."""

    type: str
    name: str
    arguments: Rendered

    @property
    def address(self) -> str:
        """Its address in the configuration."""
        return f"{self.type}.{self.name}"


Composer = Callable[[Resource, References], Iterator[Part]]


def parts_of(resource: Resource, references: References) -> Iterator[Part]:
    """Yield the resources of Terraform's that one of CloudFormation's becomes.

    Raises:
        ConfigurationError: its type, or one of its properties, has no counterpart here.
    """
    try:
        if composer := _COMPOSERS.get(resource.kind):
            yield from composer(resource, references)
        else:
            address(resource)  # refuses types that nothing is known of
            yield _part(resource, arguments(KINDS[resource.kind], resource.properties, references))
    except ConfigurationError as error:
        raise ConfigurationError(f"{resource.logical_id} ({resource.kind}): {error}") from error


def _part(resource: Resource, found: Rendered, suffix: str = "", kind: str | None = None) -> Part:
    """Return a resource with arguments; its type is the counterpart's, or that of ``kind``."""
    return Part(
        type=kind or TYPES[resource.kind], name=f"{local_name(resource)}{suffix}", arguments=found
    )


# --- DynamoDB ------------------------------------------------------------------------------------

_ENCRYPTION: Mapping[str, Argument] = {"SSEEnabled": plain("enabled"), "SSEType": without("KMS")}

_REPLICA: Mapping[str, Argument] = {
    "Region": without({"Ref": "AWS::Region"}),
    "DeletionProtectionEnabled": plain("deletion_protection_enabled"),
    "GlobalSecondaryIndexes": lambda _value, _references: {},  # that it has the table's
    "PointInTimeRecoverySpecification": NestedBlock(
        name="point_in_time_recovery", arguments={"PointInTimeRecoveryEnabled": plain("enabled")}
    ),
    "Tags": tags,
}


def _keys(value: Any, references: References) -> Rendered:
    """Render a key schema: the partition key, and the sort key if there is one."""
    names = {"HASH": "hash_key", "RANGE": "range_key"}
    return {names[each["KeyType"]]: references.value(each["AttributeName"]) for each in value}


def _projection(value: Any, references: References) -> Rendered:
    table = {
        "ProjectionType": plain("projection_type"),
        "NonKeyAttributes": plain("non_key_attributes"),
    }
    return arguments(table, value, references)


_TABLE: Mapping[str, Argument] = {
    "TableName": plain("name"),
    "BillingMode": plain("billing_mode"),
    "KeySchema": _keys,
    "AttributeDefinitions": NestedBlock(
        name="attribute",
        arguments={"AttributeName": plain("name"), "AttributeType": plain("type")},
    ),
    "GlobalSecondaryIndexes": NestedBlock(
        name="global_secondary_index",
        arguments={"IndexName": plain("name"), "KeySchema": _keys, "Projection": _projection},
    ),
    "TimeToLiveSpecification": NestedBlock(
        name="ttl",
        arguments={"AttributeName": plain("attribute_name"), "Enabled": plain("enabled")},
    ),
    "SSESpecification": NestedBlock(name="server_side_encryption", arguments=_ENCRYPTION),
}


def _table(resource: Resource, references: References) -> Iterator[Part]:
    """Yield the table; what CloudFormation says of a global table's only replica is its own."""
    properties = dict(resource.properties)
    [replica] = properties.pop("Replicas")
    own = dict(replica)
    key = own.pop("SSESpecification", None)
    found = {
        **arguments(_TABLE, properties, references),
        **arguments(_REPLICA, own, references),
    }
    if key is not None:
        arn = arguments({"KMSMasterKeyId": plain("kms_key_arn")}, key, references)
        found["server_side_encryption"] = {**found["server_side_encryption"], **arn}
    yield _part(resource, found)


# --- S3 ------------------------------------------------------------------------------------------

_BUCKET: Mapping[str, Argument] = {"BucketName": plain("bucket"), "Tags": tags}

_PUBLIC: Mapping[str, Argument] = {
    "BlockPublicAcls": plain("block_public_acls"),
    "BlockPublicPolicy": plain("block_public_policy"),
    "IgnorePublicAcls": plain("ignore_public_acls"),
    "RestrictPublicBuckets": plain("restrict_public_buckets"),
}

_BY_DEFAULT: Mapping[str, Argument] = {
    "SSEAlgorithm": plain("sse_algorithm"),
    "KMSMasterKeyID": plain("kms_master_key_id"),
}

_SEALED: Mapping[str, Argument] = {
    "ServerSideEncryptionConfiguration": NestedBlock(
        name="rule",
        arguments={
            "BucketKeyEnabled": plain("bucket_key_enabled"),
            "ServerSideEncryptionByDefault": NestedBlock(
                name="apply_server_side_encryption_by_default", arguments=_BY_DEFAULT
            ),
        },
    )
}

_EXPIRING: Mapping[str, Argument] = {
    "Rules": NestedBlock(
        name="rule",
        arguments={
            "Id": plain("id"),
            "Status": plain("status"),
            "Prefix": lambda value, references: {"filter": {"prefix": references.value(value)}},
            "ExpirationInDays": lambda value, _references: {"expiration": {"days": value}},
        },
    )
}

_OF_BUCKET: Mapping[str, tuple[str, str, Mapping[str, Argument]]] = {
    "PublicAccessBlockConfiguration": (
        "aws_s3_bucket_public_access_block",
        "_private",
        _PUBLIC,
    ),
    "BucketEncryption": (
        "aws_s3_bucket_server_side_encryption_configuration",
        "_encrypted",
        _SEALED,
    ),
    "LifecycleConfiguration": (
        "aws_s3_bucket_lifecycle_configuration",
        "_expiring",
        _EXPIRING,
    ),
}
"""A bucket's properties that are resources of their own: type, end of the name, arguments."""


def _bucket(resource: Resource, references: References) -> Iterator[Part]:
    whole = resource.properties
    own = {name: value for name, value in whole.items() if name not in _OF_BUCKET}
    emptied = {} if resource.is_kept else {"force_destroy": True}
    yield _part(resource, {**arguments(_BUCKET, own, references), **emptied})
    bucket = references.value({"Ref": resource.logical_id})
    for name, (kind, suffix, table) in _OF_BUCKET.items():
        if name in whole:
            found = {"bucket": bucket, **arguments(table, whole[name], references)}
            yield _part(resource, found, suffix, kind)


# --- policies of resources -----------------------------------------------------------------------


def _for_each(listed: str, argument: str) -> Composer:
    """Return the composer of a policy that CloudFormation attaches to a list of resources."""

    def compose(resource: Resource, references: References) -> Iterator[Part]:
        properties = dict(resource.properties)
        owners = properties.pop(listed)
        for at, owner in enumerate(owners):
            rest = arguments({"PolicyDocument": document("policy")}, properties, references)
            found = {argument: references.value(owner), **rest}
            yield _part(resource, found, f"_{at + 1}" if at else "")

    return compose


def _bucket_policy(resource: Resource, references: References) -> Iterator[Part]:
    table = {"Bucket": plain("bucket"), "PolicyDocument": document("policy")}
    yield _part(resource, arguments(table, resource.properties, references))


# --- roles ---------------------------------------------------------------------------------------

_ROLE: Mapping[str, Argument] = {
    "RoleName": plain("name"),
    "Description": plain("description"),
    "AssumeRolePolicyDocument": document("assume_role_policy"),
    "Tags": tags,
}

_INLINE: Mapping[str, Argument] = {
    "PolicyName": plain("name"),
    "PolicyDocument": document("policy"),
}


def _role(resource: Resource, references: References) -> Iterator[Part]:
    properties = dict(resource.properties)
    inline = properties.pop("Policies", [])
    managed = properties.pop("ManagedPolicyArns", [])
    yield _part(resource, arguments(_ROLE, properties, references))
    for each in inline:
        role = references.value({"Ref": resource.logical_id})
        found = {"role": role, **arguments(_INLINE, each, references)}
        suffix = "_" + str(each["PolicyName"]).replace("-", "_")
        yield _part(resource, found, suffix, "aws_iam_role_policy")
    for at, policy in enumerate(managed, start=1):
        role = references.value({"Ref": resource.logical_id})
        found = {"role": role, "policy_arn": references.value(policy)}
        yield _part(resource, found, f"_{at}", "aws_iam_role_policy_attachment")


# --- events and functions ------------------------------------------------------------------------

_RULE: Mapping[str, Argument] = {
    "Name": plain("name"),
    "Description": plain("description"),
    "EventBusName": plain("event_bus_name"),
    "EventPattern": document("event_pattern"),
    "State": plain("state"),
    "Tags": tags,
}

_TARGET: Mapping[str, Argument] = {
    "Id": plain("target_id"),
    "Arn": plain("arn"),
    "InputTransformer": NestedBlock(
        name="input_transformer", arguments={"InputTemplate": plain("input_template")}
    ),
    "RetryPolicy": NestedBlock(name="retry_policy", arguments=RETRY_POLICY),
    "DeadLetterConfig": NestedBlock(name="dead_letter_config", arguments=DEAD_LETTER_CONFIG),
}


def _rule(resource: Resource, references: References) -> Iterator[Part]:
    properties = dict(resource.properties)
    targets = properties.pop("Targets")
    yield _part(resource, arguments(_RULE, properties, references))
    bus = {"event_bus_name": properties["EventBusName"]} if "EventBusName" in properties else {}
    for each in targets:
        rule = references.value({"Ref": resource.logical_id})
        found = {"rule": rule, **bus, **arguments(_TARGET, each, references)}
        yield _part(resource, found, f"_{each['Id']}", "aws_cloudwatch_event_target")


def _function(resource: Resource, references: References) -> Iterator[Part]:
    properties = {name: value for name, value in resource.properties.items() if name != "Code"}
    code = {"filename": ZIP, "source_code_hash": "${filebase64sha256(var.functions_zip)}"}
    yield _part(resource, {**arguments(KINDS[resource.kind], properties, references), **code})


_SECRET: Mapping[str, Argument] = {
    "Name": plain("name"),
    "Description": plain("description"),
    "KmsKeyId": plain("kms_key_id"),
    # Its value would stand in Terraform's state: who deploys puts it there, once.
    "GenerateSecretString": lambda _value, _references: {},
    "Tags": tags,
}


def _secret(resource: Resource, references: References) -> Iterator[Part]:
    yield _part(resource, arguments(_SECRET, resource.properties, references))


_COMPOSERS: Mapping[str, Composer] = {
    "AWS::DynamoDB::GlobalTable": _table,
    "AWS::Events::Rule": _rule,
    "AWS::IAM::Role": _role,
    "AWS::Lambda::Function": _function,
    "AWS::S3::Bucket": _bucket,
    "AWS::S3::BucketPolicy": _bucket_policy,
    "AWS::SNS::TopicPolicy": _for_each("Topics", "arn"),
    "AWS::SQS::QueuePolicy": _for_each("Queues", "queue_url"),
    "AWS::SecretsManager::Secret": _secret,
}
