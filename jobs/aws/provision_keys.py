"""Provisioning of an app's signing secret and keys, on a local stack or in a test.

Production uses CDK, which creates them with their permissions and removal policies.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from headgate.jobs.aws.connections.connection import Connection, async_aws_client
from headgate.jobs.aws.connections.faults import naming

_SECRET_BYTES = 48


async def provision_keys(
    *,
    secret: str | None,
    keys: Sequence[str],
    endpoint_url: str | None = None,
    region: str | None = None,
) -> None:
    """Create a secret with a random value, and KMS keys under their aliases.

    Those that exist stay as they are, and those that are named by ARN can't be created.

    Args:
        secret: the secret's name or ARN; None creates none.
        keys: aliases and ARNs of keys.
        endpoint_url: the local stack's; None is that of the environment.
        region: likewise.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: AWS could not be asked, or refused.
    """
    connection = Connection(endpoint_url=endpoint_url, region=region)
    if secret is not None and _is_name(secret):
        async with async_aws_client("secretsmanager", connection) as secretsmanager:
            await _create_secret(secretsmanager, secret)
    if aliases := [key for key in keys if _is_name(key)]:
        async with async_aws_client("kms", connection) as kms:
            for alias in aliases:
                await _create_key(kms, alias)


def _is_name(text: str) -> bool:
    return not text.startswith("arn:")


async def _create_secret(client: Any, name: str) -> None:
    exists = suppress(client.exceptions.ResourceExistsException)
    with naming("secretsmanager:CreateSecret", name), exists:
        await client.create_secret(Name=name, SecretString=secrets.token_urlsafe(_SECRET_BYTES))


async def _create_key(client: Any, alias: str) -> None:
    with naming("kms:CreateAlias", alias):
        try:
            await client.describe_key(KeyId=alias)
        except client.exceptions.NotFoundException:
            made = await client.create_key()
            key_id = made["KeyMetadata"]["KeyId"]
            await client.create_alias(AliasName=alias, TargetKeyId=key_id)
