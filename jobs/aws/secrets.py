"""Secrets Manager: `AsyncSecretsManager` is a `jobs.core.backend.AsyncSecretStore`, and
`SecretsManager` a synchronous one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from headgate.jobs.aws.connections.clients import (
    AnyClients,
    AsyncClients,
    Clients,
    OnDemand,
)
from headgate.jobs.aws.connections.connection import Access, Connection
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.core.immediate import driven

_CURRENT, _PREVIOUS = "AWSCURRENT", "AWSPREVIOUS"
"""The labels of a secret's versions. Each new version gets the first, and the one before it the
second. https://docs.aws.amazon.com/secretsmanager/latest/userguide/whats-in-a-secret.html"""


class _Calls(OnDemand[Any]):
    """The calls of a store, over a client."""

    def __init__(self, clients: AnyClients) -> None:
        super().__init__(
            clients, lambda stack: stack.enter_async_context(clients.open("secretsmanager"))
        )

    async def versions(self, name: str) -> Sequence[bytes]:
        """Return a secret's current value and, if there is one, the previous (GetSecretValue).

        Raises:
            SecretMissing: there is no such secret, or it has no value.
        """
        client = await self.opened()
        with naming("secretsmanager:GetSecretValue", name):
            current = await client.get_secret_value(SecretId=name, VersionStage=_CURRENT)
            try:
                previous = await client.get_secret_value(SecretId=name, VersionStage=_PREVIOUS)
            except client.exceptions.ResourceNotFoundException:
                return [_value(current)]
        return [_value(current), _value(previous)]


class AsyncSecretsManager(_Calls):
    """Secrets Manager for an event loop: `jobs.core.backend.AsyncSecretStore`.

    Args:
        access: as in `Connection`; the session is one of aiobotocore.
    """

    def __init__(self, **access: Unpack[Access]) -> None:
        super().__init__(AsyncClients(_connection(access)))


class SecretsManager:
    """Secrets Manager for synchronous code: `jobs.core.backend.SecretStore`.

    Safe to share between threads. It opens with its first call, and again with one after `close`.

    Args:
        access: as in `Connection`; the session is one of boto3.
    """

    def __init__(self, **access: Unpack[Access]) -> None:
        calls = _Calls(Clients(_connection(access)))
        self.versions, self.close = driven(calls.versions), driven(calls.stop)


def _connection(access: Access) -> Connection:
    return Connection(connect_timeout_s=2.0, read_timeout_s=5.0, pool=1, **access)


def _value(answer: dict[str, Any]) -> bytes:
    """Return a secret's value, which is text or bytes."""
    text: str | None = answer.get("SecretString")
    if text is not None:
        return text.encode()
    value: bytes = answer["SecretBinary"]
    return value
