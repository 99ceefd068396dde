"""One bucket, for what is too large for messages and records.

`jobs.aws.s3` implements it on S3, `jobs.testing.memory.store` in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from headgate.jobs.values.light_dataclass import light_dataclass

MAX_LISTED = 1_000
"""Objects of a page at most.
https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html"""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object in a bucket, without its content."""

    key: str
    stored_at: datetime
    """The time at which it was stored last; aware."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPage:
    """A part of a bucket's objects."""

    objects: Sequence[StoredObject]
    """Up to `MAX_LISTED`, in the order of their keys."""
    after: str = ""
    """The key behind which the next page begins; empty if there are no more."""


class AsyncObjectStore(Protocol):
    """One S3 bucket, for an event loop; holds what is too large for messages and records.

    Any method may raise a `TransportError`.
    """

    async def put(self, key: str, content: bytes) -> None:
        """Store an object, replacing any under that key; reads see it once this returns."""

    async def create(self, key: str, content: bytes) -> bool:
        """Store an object; return False if the key is taken, and leave that object unchanged."""

    async def get(self, key: str, *, max_bytes: int) -> bytes | None:
        """Return an object's content, or None; raise `PayloadLost` if over ``max_bytes``."""

    async def page(self, prefix: str, *, after: str = "") -> ObjectPage:
        """Return the first objects behind the key ``after`` whose keys start with ``prefix``."""

    async def delete(self, key: str) -> None:
        """Delete an object, whether it exists or not."""


class ObjectStore(Protocol):
    """`AsyncObjectStore` for synchronous code, from any thread."""

    def put(self, key: str, content: bytes) -> None: ...

    def create(self, key: str, content: bytes) -> bool: ...

    def get(self, key: str, *, max_bytes: int) -> bytes | None: ...

    def page(self, prefix: str, *, after: str = "") -> ObjectPage: ...

    def delete(self, key: str) -> None: ...
