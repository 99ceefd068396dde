"""S3 in memory, as far as `jobs.core.ports.object_store` needs it, with faults on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Literal, NamedTuple

from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.ports.object_store import MAX_LISTED, ObjectPage, ObjectStore, StoredObject
from headgate.jobs.errors import BucketMissing, PayloadLost

StoreAction = Literal["put", "get", "page", "delete"]
"""The requests of an `AsyncObjectStore`; "put" is that of `put` and `create`."""


class _Fault(NamedTuple):
    action: StoreAction
    error: Exception
    applied: bool


class MemoryStore:
    """A bucket in memory: an `AsyncObjectStore`, and by ``sync`` a synchronous one.

    ``objects`` is its content, which a test may change; while ``missing`` is true there is no such
    bucket; ``calls`` lists the calls, with their keys. ``clock`` tells when objects are stored; of
    those that a test adds itself a listing says that they were stored just now.

    >>> store = MemoryStore()
    >>> store.fail("get", ServiceUnavailable("S3 is down"), times=2)
    """

    def __init__(self, *, name: str = "bucket", clock: Clock | None = None) -> None:
        self.name = name
        self.clock = clock or SystemClock()
        self.missing = False
        self.objects: dict[str, bytes] = {}
        self.stored_at: dict[str, datetime] = {}
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

    async def delete(self, key: str) -> None:
        """Delete an object, whether it exists or not."""
        await asyncio.sleep(0)
        self.sync.delete(key)

    async def page(self, prefix: str, *, after: str = "") -> ObjectPage:
        """Return the first objects behind the key ``after`` whose keys start with ``prefix``."""
        await asyncio.sleep(0)
        return self.sync.page(prefix, after=after)

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
            self._keep(key, content)

    def create(self, key: str, content: bytes) -> bool:
        with self._store.asked("put", key):
            taken = key in self._store.objects
            if not taken:
                self._keep(key, content)
        return not taken

    def get(self, key: str, *, max_bytes: int) -> bytes | None:
        with self._store.asked("get", key):
            content = self._store.objects.get(key)
        if content is not None and len(content) > max_bytes:
            raise PayloadLost(f"the object {key!r} is another one: it has over {max_bytes:,} bytes")
        return content

    def delete(self, key: str) -> None:
        with self._store.asked("delete", key):
            self._store.objects.pop(key, None)

    def page(self, prefix: str, *, after: str = "") -> ObjectPage:
        with self._store.asked("page", prefix):
            found = [key for key in self._store.objects if key.startswith(prefix) and key > after]
            now, keys = self._store.clock.now(), sorted(found)[:MAX_LISTED]
            at = {key: self._store.stored_at.get(key, now) for key in keys}
        return ObjectPage(
            objects=[StoredObject(key=key, stored_at=at[key]) for key in keys],
            after=keys[-1] if len(found) > len(keys) else "",
        )

    def _keep(self, key: str, content: bytes) -> None:
        self._store.objects[key] = content
        self._store.stored_at[key] = self._store.clock.now()
