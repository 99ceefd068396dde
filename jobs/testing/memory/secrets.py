"""Secrets Manager in memory, as far as `jobs.core.backend.AsyncSecretStore` needs it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from headgate.jobs.core.backend import SecretStore
from headgate.jobs.errors import TransportError


class MemorySecrets:
    """A `jobs.core.backend.AsyncSecretStore`, and by ``sync`` a synchronous one.

    A secret that is asked for, and was never put, has a random value. ``reads`` counts the calls.

    >>> secrets = MemorySecrets()
    >>> secrets.put("shop-signing", b"a new key, of thirty-two bytes at least")  # a rotation
    >>> secrets.fault = ServiceUnavailable("Secrets Manager is down")
    """

    def __init__(self) -> None:
        self.fault: TransportError | None = None
        """The error that every call raises; None: none does."""
        self.reads = 0
        self._versions: dict[str, list[bytes]] = {}

    def put(self, name: str, value: bytes) -> None:
        """Make a value the current one, and the current one the previous."""
        self._versions[name] = [value, *self._versions.get(name, [])][:2]

    async def versions(self, name: str) -> Sequence[bytes]:
        """Return a secret's current value, and the previous one if there is one."""
        await asyncio.sleep(0)  # a call over a network always suspends
        return self.sync.versions(name)

    @property
    def sync(self) -> SecretStore:
        """The same secrets for synchronous code."""
        return _SecretStore(self)

    def read(self, name: str) -> Sequence[bytes]:
        """Count a call, and return what it returns; raises `fault`."""
        self.reads += 1
        if self.fault is not None:
            raise self.fault
        if name not in self._versions:
            self.put(name, secrets.token_bytes(32))
        return [*self._versions[name]]


class _SecretStore:
    """`MemorySecrets` as a `jobs.core.backend.SecretStore`."""

    def __init__(self, secrets: MemorySecrets) -> None:
        self._secrets = secrets

    def versions(self, name: str) -> Sequence[bytes]:
        return self._secrets.read(name)
