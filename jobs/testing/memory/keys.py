"""KMS in memory, as far as `jobs.core.keys.key_ring.AsyncKeys` needs it, with faults on demand."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Literal

from headgate.jobs.core.keys.key_ring import DataKey, Keys
from headgate.jobs.errors import PayloadUnopenable

KeyAction = Literal["generate", "unwrap"]
"""The calls of a `jobs.core.keys.key_ring.AsyncKeys`."""


class MemoryKeys:
    """KMS in memory: a `jobs.core.keys.key_ring.AsyncKeys`, and by ``sync`` a synchronous one.

    It has every key that it is asked for. A wrapped key is a name, under which the key stays here.
    ``calls`` lists the calls, with their keys.

    >>> keys = MemoryKeys()
    >>> keys.fail("unwrap", ServiceUnavailable("KMS is down"), times=2)
    """

    def __init__(self) -> None:
        self.calls: list[tuple[KeyAction, str]] = []
        self._wrapped: dict[tuple[bytes, str], bytes] = {}
        self._faults: list[tuple[KeyAction, Exception]] = []

    def fail(self, action: KeyAction, error: Exception, *, times: int = 1) -> None:
        """Raise ``error`` from the next ``times`` calls of that kind, in place of doing them."""
        self._faults += [(action, error)] * times

    async def generate(self, key: str, context: Mapping[str, str]) -> DataKey:
        """Return a new data key."""
        await asyncio.sleep(0)  # a call over a network always suspends
        return self.sync.generate(key, context)

    async def unwrap(self, key: str, wrapped: bytes, context: Mapping[str, str]) -> bytes:
        """Return a data key in plain.

        Raises:
            PayloadUnopenable: it was not made here for that key and context.
        """
        await asyncio.sleep(0)
        return self.sync.unwrap(key, wrapped, context)

    @property
    def sync(self) -> Keys:
        """The same service for synchronous code."""
        return _Keys(self)

    def called(self, action: KeyAction, key: str) -> None:
        """Note a call, and raise the fault that was planned for it, if any."""
        self.calls.append((action, key))
        for planned in self._faults:
            if planned[0] == action:
                self._faults.remove(planned)
                raise planned[1]

    def wrap(self, key: str, context: Mapping[str, str]) -> DataKey:
        """Return a new data key, and keep it."""
        made = DataKey(plain=secrets.token_bytes(32), wrapped=secrets.token_bytes(48))
        self._wrapped[made.wrapped, _place(key, context)] = made.plain
        return made

    def find(self, key: str, wrapped: bytes, context: Mapping[str, str]) -> bytes | None:
        """Return a data key that was made here, or None."""
        return self._wrapped.get((wrapped, _place(key, context)))


class _Keys:
    """`MemoryKeys` as a `jobs.core.keys.key_ring.Keys`."""

    def __init__(self, keys: MemoryKeys) -> None:
        self._keys = keys

    def generate(self, key: str, context: Mapping[str, str]) -> DataKey:
        self._keys.called("generate", key)
        return self._keys.wrap(key, context)

    def unwrap(self, key: str, wrapped: bytes, context: Mapping[str, str]) -> bytes:
        self._keys.called("unwrap", key)
        if (plain := self._keys.find(key, wrapped, context)) is None:
            raise PayloadUnopenable(f"the key {key!r} has not wrapped this data key")
        return plain


def _place(key: str, context: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([key, dict(context)], sort_keys=True).encode()).hexdigest()
