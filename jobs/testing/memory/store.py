"""S3 in memory, as far as `jobs.core.ports.AsyncObjectStore` needs it, with faults on demand."""

from __future__ import annotations

import asyncio
from typing import Literal

from headgate.jobs.core.ports import ObjectStore
from headgate.jobs.errors import BucketMissing, PayloadLost

StoreAction = Literal["put", "get"]
"""The calls of a `jobs.core.ports.AsyncObjectStore`."""


class MemoryStore:
    """A bucket in memory: a `jobs.core.ports.AsyncObjectStore`, and by ``sync`` a synchronous one.

    ``objects`` is its content, which a test may change; while ``missing`` is true there is no such
    bucket; ``calls`` lists the calls, with their keys.

    >>> store = MemoryStore()
    >>> store.fail("get", ServiceUnavailable("S3 is down"), times=2)
    """

    def __init__(self, *, name: str = "bucket") -> None:
        self.name = name
        self.missing = False
        self.objects: dict[str, bytes] = {}
        self.calls: list[tuple[StoreAction, str]] = []
        self._faults: list[tuple[StoreAction, Exception]] = []

    def fail(self, action: StoreAction, error: Exception, *, times: int = 1) -> None:
        """Raise ``error`` from the next ``times`` calls of that kind, in place of doing them."""
        self._faults += [(action, error)] * times

    async def put(self, key: str, content: bytes) -> None:
        """Store an object."""
        await asyncio.sleep(0)  # a call over a network always suspends
        self.sync.put(key, content)

    async def get(self, key: str, *, max_bytes: int) -> bytes | None:
        """Return an object's content, or None if there is no such object.

        Raises:
            PayloadLost: it is larger.
        """
        await asyncio.sleep(0)
        return self.sync.get(key, max_bytes=max_bytes)

    @property
    def sync(self) -> ObjectStore:
        """The same bucket for synchronous code."""
        return _ObjectStore(self)

    def called(self, action: StoreAction, key: str) -> None:
        """Note a call, and raise the fault that was planned for it, if any."""
        self.calls.append((action, key))
        if self.missing:
            raise BucketMissing(self.name)
        for planned in self._faults:
            if planned[0] == action:
                self._faults.remove(planned)
                raise planned[1]


class _ObjectStore:
    """`MemoryStore` as a `jobs.core.ports.ObjectStore`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def put(self, key: str, content: bytes) -> None:
        self._store.called("put", key)
        self._store.objects[key] = content

    def get(self, key: str, *, max_bytes: int) -> bytes | None:
        self._store.called("get", key)
        content = self._store.objects.get(key)
        if content is not None and len(content) > max_bytes:
            raise PayloadLost(f"the object {key!r} is another one: it has over {max_bytes:,} bytes")
        return content
