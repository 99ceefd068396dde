"""S3 in memory, as far as `jobs.core.ports.object_store` needs it, with faults on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from headgate.jobs.core.ports.object_store import ObjectStore
from headgate.jobs.errors import BucketMissing, PayloadLost

StoreAction = Literal["put", "get", "keys", "delete"]
"""The requests of an `AsyncObjectStore`; "put" is that of `put` and `create`."""

_MOST_KEYS = 1_000
"""https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html"""


class _Fault(NamedTuple):
    action: StoreAction
    error: Exception
    applied: bool


class MemoryStore:
    """A bucket in memory: an `AsyncObjectStore`, and by ``sync`` a synchronous one.

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
        self._faults: list[_Fault] = []

    def fail(
        self, action: StoreAction, error: Exception, *, times: int = 1, applied: bool = False
    ) -> None:
        """Raise ``error`` from the next ``times`` calls of that kind.

        They are not carried out, unless ``applied``: then only their answers are lost.
        """
        self._faults += [_Fault(action, error, applied) for _ in range(times)]

    async def put(self, key: str, content: bytes) -> None:
        """Store an object."""
        await asyncio.sleep(0)  # a call over a network always suspends
        self.sync.put(key, content)

    async def create(self, key: str, content: bytes) -> bool:
        """Store an object; return False if the key is taken, and leave that object unchanged."""
        await asyncio.sleep(0)
        return self.sync.create(key, content)

    async def get(self, key: str, *, max_bytes: int) -> bytes | None:
        """Return an object's content, or None if there is no such object.

        Raises:
            PayloadLost: it is larger.
        """
        await asyncio.sleep(0)
        return self.sync.get(key, max_bytes=max_bytes)

    async def keys(self, prefix: str, *, after: str = "") -> list[str]:
        """Return the first 1,000 keys behind ``after`` that start with ``prefix``, in order."""
        await asyncio.sleep(0)
        return self.sync.keys(prefix, after=after)

    async def delete(self, key: str) -> None:
        """Delete an object, whether it exists or not."""
        await asyncio.sleep(0)
        self.sync.delete(key)

    @property
    def sync(self) -> ObjectStore:
        """The same bucket for synchronous code."""
        return _ObjectStore(self)

    @contextmanager
    def asked(self, action: StoreAction, key: str) -> Iterator[None]:
        """Note a call, and raise the fault that was planned for it, before or after it."""
        self.calls.append((action, key))
        if self.missing:
            raise BucketMissing(self.name)
        planned = next((each for each in self._faults if each.action == action), None)
        if planned is not None:
            self._faults.remove(planned)
            if not planned.applied:
                raise planned.error
        yield
        if planned is not None:
            raise planned.error


class _ObjectStore:
    """`MemoryStore` as a `jobs.core.ports.object_store.ObjectStore`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def put(self, key: str, content: bytes) -> None:
        with self._store.asked("put", key):
            self._store.objects[key] = content

    def create(self, key: str, content: bytes) -> bool:
        with self._store.asked("put", key):
            taken = key in self._store.objects
            self._store.objects.setdefault(key, content)
        return not taken

    def get(self, key: str, *, max_bytes: int) -> bytes | None:
        with self._store.asked("get", key):
            content = self._store.objects.get(key)
        if content is not None and len(content) > max_bytes:
            raise PayloadLost(f"the object {key!r} is another one: it has over {max_bytes:,} bytes")
        return content

    def keys(self, prefix: str, *, after: str = "") -> list[str]:
        with self._store.asked("keys", prefix):
            found = [key for key in self._store.objects if key.startswith(prefix) and key > after]
        return sorted(found)[:_MOST_KEYS]

    def delete(self, key: str) -> None:
        with self._store.asked("delete", key):
            self._store.objects.pop(key, None)
