"""A customer-managed KMS key for the services that store jobs: permissions, by service.

Every use goes through the service that stores the encrypted data, so that no grantee can decrypt
anything directly.
https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html#conditions-kms-via-service
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from aws_cdk import Annotations, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

Service = Literal["dynamodb", "s3", "secretsmanager", "sqs"]

# Sending to a queue and putting an object need both; receiving and getting need the first.
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
_DATA_KEYS = ("kms:Decrypt", "kms:GenerateDataKey")

_ACTIONS: dict[Service, Sequence[str]] = {
    "dynamodb": (
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:Encrypt",
        "kms:GenerateDataKey",
        "kms:GenerateDataKeyWithoutPlaintext",
        "kms:ReEncryptFrom",
        "kms:ReEncryptTo",
    ),
    "s3": _DATA_KEYS,
    "secretsmanager": ("kms:Decrypt",),
    "sqs": _DATA_KEYS,
}
"""https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html"""

_EVENTS = "events.amazonaws.com"


def named_key(scope: Construct, arn: str | None) -> kms.IKey | None:
    """Return the key that a deployment names by its ARN; None if it names none."""
    return kms.Key.from_key_arn(scope, "EncryptionKey", arn) if arn is not None else None


def key_use(key: kms.IKey | None, service: Service) -> list[iam.PolicyStatement]:
    """Return the statements that let a role use a service's resources encrypted with this key.

    The resources are in the key's region, which may be another than the stack's.
    """
    if key is None:
        return []
    through = f"{service}.{key.env.region}.amazonaws.com"
    return [
        iam.PolicyStatement(
            actions=list(_ACTIONS[service]),
            resources=[key.key_arn],
            conditions={"StringEquals": {"kms:ViaService": through}},
        )
    ]


def queue_keys(queues: Iterable[sqs.IQueue]) -> list[kms.IKey]:
    """Return the keys that encrypt these queues, each once; those that exist may have their own."""
    found = (queue.encryption_master_key for queue in queues)
    return list({key.key_arn: key for key in found if key is not None}.values())


def queue_key_use(*queues: sqs.IQueue) -> list[iam.PolicyStatement]:
    """Return the statements that let a role use the keys of these queues."""
    return [use for key in queue_keys(queues) for use in key_use(key, "sqs")]


def grant_key_use(
    grant: iam.Grant, grantee: iam.IGrantable, key: kms.IKey | None, service: Service
) -> iam.Grant:
    """Extend a grant on a service's resource by the use of the key that encrypts it."""
    for needed in key_use(key, service):
        use = iam.Grant.add_to_principal(
            grantee=grantee,
            actions=needed.actions,
            resource_arns=needed.resources,
            conditions=needed.conditions,
        )
        grant = grant.combine(use)
    return grant


def let_events_use(key: kms.IKey, scope: IConstruct) -> None:
    """Let EventBridge put undeliverable events into a queue that is encrypted with this key.

    It assumes no role for that, so the key's own policy has to name it. The policy of an imported
    key can't be changed here: a warning says what it lacks.
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html
    """
    needed = iam.PolicyStatement(
        actions=list(_DATA_KEYS),
        resources=["*"],  # in a key's policy that is the key itself
        principals=[iam.ServicePrincipal(_EVENTS)],
        conditions={"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}},
    )
    if not key.add_to_resource_policy(needed).statement_added:
        Annotations.of(scope).add_warning_v2(
            "headgate:key-policy",
            f"the key's policy has to allow {' and '.join(_DATA_KEYS)} to {_EVENTS}, or events "
            "that can't be delivered are lost",
        )
