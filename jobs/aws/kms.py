"""KMS: `AsyncKmsKeys` is a `jobs.core.keys.key_ring.AsyncKeys`, and `KmsKeys` a synchronous one.

Both open with their first call, so an app without encryption pays nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from headgate.jobs.aws.connections.clients import AnyClients, AsyncClients, Clients, OnDemand
from headgate.jobs.aws.connections.connection import Access, Connection
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.core.immediate import driven
from headgate.jobs.core.keys.key_ring import DataKey
from headgate.jobs.errors import PayloadUnopenable

_CONNECT_TIMEOUT_S = 2.0
_READ_TIMEOUT_S = 5.0


class _Calls(OnDemand[Any]):
    """The calls of a key service, over a client."""

    def __init__(self, clients: AnyClients) -> None:
        super().__init__(clients, lambda stack: stack.enter_async_context(clients.open("kms")))

    async def generate(self, key: str, context: Mapping[str, str]) -> DataKey:
        """Return a new data key (GenerateDataKey)."""
        client = await self.opened()
        with naming("kms:GenerateDataKey", key):
            answer = await client.generate_data_key(
                KeyId=key, KeySpec="AES_256", EncryptionContext=dict(context)
            )
            return DataKey(plain=answer["Plaintext"], wrapped=answer["CiphertextBlob"])

    async def unwrap(self, key: str, wrapped: bytes, context: Mapping[str, str]) -> bytes:
        """Return a data key in plain (Decrypt).

        Raises:
            PayloadUnopenable: it is damaged, of another context, or another key has wrapped it.
        """
        client = await self.opened()
        with naming("kms:Decrypt", key):
            try:
                answer = await client.decrypt(
                    KeyId=key, CiphertextBlob=wrapped, EncryptionContext=dict(context)
                )
            except (
                client.exceptions.IncorrectKeyException,
                client.exceptions.InvalidCiphertextException,
            ) as error:
                raise PayloadUnopenable(
                    f"the key {key!r} has not wrapped this data key for this app, stage and type"
                ) from error
            plain: bytes = answer["Plaintext"]
            return plain


class AsyncKmsKeys(_Calls):
    """KMS for an event loop: `jobs.core.keys.key_ring.AsyncKeys`.

    Args:
        access: As in `Connection`; the session is one of aiobotocore.
    """

    def __init__(self, **access: Unpack[Access]) -> None:
        super().__init__(AsyncClients(_connection(access)))


class KmsKeys:
    """KMS for synchronous code: `jobs.core.keys.key_ring.Keys`, safe to share between threads.

    Args:
        access: As in `Connection`; the session is one of boto3.
    """

    def __init__(self, **access: Unpack[Access]) -> None:
        calls = _Calls(Clients(_connection(access)))
        self.generate, self.unwrap = driven(calls.generate), driven(calls.unwrap)
        self.close = driven(calls.stop)


def _connection(access: Access) -> Connection:
    return Connection(
        connect_timeout_s=_CONNECT_TIMEOUT_S,
        read_timeout_s=_READ_TIMEOUT_S,
        bounded=False,
        pool=10,
        **access,
    )
