"""One bucket, for what is too large for messages and records.

`jobs.aws.s3` implements it on S3, `jobs.testing.memory.store` in memory.
"""

from __future__ import annotations

from typing import Protocol


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

    async def keys(self, prefix: str, *, after: str = "") -> list[str]:
        """Return the first 1,000 keys behind ``after`` that start with ``prefix``, in order."""

    async def delete(self, key: str) -> None:
        """Delete an object, whether it exists or not."""


class ObjectStore(Protocol):
    """`AsyncObjectStore` for synchronous code, from any thread."""

    def put(self, key: str, content: bytes) -> None: ...

    def create(self, key: str, content: bytes) -> bool: ...

    def get(self, key: str, *, max_bytes: int) -> bytes | None: ...

    def keys(self, prefix: str, *, after: str = "") -> list[str]: ...

    def delete(self, key: str) -> None: ...
