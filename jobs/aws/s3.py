"""The ports of `jobs.core.ports.object_store` on S3.

Both find the bucket's name when it is first needed: it contains the account, which AWS returns to
anyone with credentials (sts:GetCallerIdentity takes no permission). Nothing is opened before that,
so an app without large payloads pays nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Protocol, Unpack

from botocore.exceptions import ClientError

from headgate.jobs.aws.connections.clients import (
    AnyClients,
    AsyncClients,
    Clients,
    OnDemand,
    caller_identity,
)
from headgate.jobs.aws.connections.connection import Access, Connection
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.core.immediate import driven, immediate
from headgate.jobs.core.naming import Bucket
from headgate.jobs.core.ports.object_store import MAX_LISTED, ObjectPage, StoredObject
from headgate.jobs.errors import PayloadLost

_CONNECT_TIMEOUT_S = 2.0
_READ_TIMEOUT_S = 10.0

_KEY_TAKEN = "PreconditionFailed"
"""S3's code if there is an object that a condition rules out."""


class _ReadBody(Protocol):
    """Reads the body of an answer to its end, or to just beyond ``most`` bytes, and closes it."""

    async def __call__(self, body: Any, most: int) -> bytes: ...


class _Calls(OnDemand[tuple[Any, str]]):
    """The calls of a store, over a client and the name of its bucket."""

    def __init__(self, bucket: Bucket, clients: AnyClients, read: _ReadBody) -> None:
        super().__init__(clients, self._open_bucket)
        self._bucket = bucket
        self._read = read

    async def put(self, key: str, content: bytes) -> None:
        """Store an object (PutObject)."""
        client, bucket = await self.opened()
        with naming("s3:PutObject", bucket):
            await client.put_object(**_object(bucket, key, content))

    async def create(self, key: str, content: bytes) -> bool:
        """Store an object unless its key is taken (PutObject with ``If-None-Match: *``).

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html

        Returns:
            False if there is an object under the key, as after a lost answer to the same request;
            it is unchanged.
        """
        client, bucket = await self.opened()
        with naming("s3:PutObject", bucket):
            try:
                await client.put_object(**_object(bucket, key, content), IfNoneMatch="*")
            except ClientError as refusal:
                if refusal.response.get("Error", {}).get("Code") != _KEY_TAKEN:
                    raise
                return False
        return True

    async def get(self, key: str, *, max_bytes: int) -> bytes | None:
        """Return an object's content, or None if there is no such object (GetObject).

        Raises:
            PayloadLost: it is larger. Its body stays unread, by the length that S3 announces; one
                without a length is read until it is too long.
        """
        client, bucket = await self.opened()
        with naming("s3:GetObject", bucket):
            try:
                answer = await client.get_object(Bucket=bucket, Key=key)
            except client.exceptions.NoSuchKey:
                return None
            announced = answer.get("ContentLength", 0)
            content = await self._read(answer["Body"], 0 if announced > max_bytes else max_bytes)
        if max(announced, len(content)) > max_bytes:
            raise PayloadLost(f"the object {key!r} is another one: it has over {max_bytes:,} bytes")
        return content

    async def delete(self, key: str) -> None:
        """Delete an object, whether it exists or not (DeleteObject)."""
        client, bucket = await self.opened()
        with naming("s3:DeleteObject", bucket):
            await client.delete_object(Bucket=bucket, Key=key)

    async def page(self, prefix: str, *, after: str = "") -> ObjectPage:
        """Return the first objects behind a key that have a prefix (ListObjectsV2)."""
        client, bucket = await self.opened()
        listing = {"Prefix": prefix, "StartAfter": after, "MaxKeys": MAX_LISTED}
        with naming("s3:ListBucket", bucket):
            answer = await client.list_objects_v2(Bucket=bucket, **listing)
        objects = [
            StoredObject(key=each["Key"], stored_at=each["LastModified"])
            for each in answer.get("Contents", ())
        ]
        is_cut = answer.get("IsTruncated", False) and bool(objects)
        return ObjectPage(objects=objects, after=objects[-1].key if is_cut else "")

    async def _open_bucket(self, stack: AsyncExitStack) -> tuple[Any, str]:
        s3 = await stack.enter_async_context(self._clients.open("s3"))
        name = self._bucket.name
        if name is None:
            identity = await caller_identity(self._clients, self._bucket.prefix)
            name = self._bucket.name_in(identity["Account"], s3.meta.region_name)
        return s3, name


class AsyncS3Store(_Calls):
    """An app's bucket for an event loop: `jobs.core.ports.object_store.AsyncObjectStore`.

    ::

        async with AsyncS3Store(app.topology.bucket) as store:
            await store.put("payloads/1", b"...")

    It calls GetObject and PutObject, for operators ListObjectsV2 as well, and to erase data
    DeleteObject. ListBucket has to be allowed in any case: without it S3 answers that access is
    denied when an object doesn't exist.
    https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html

    Args:
        bucket: The bucket, by its prefix or its whole name.
        access: As in `Connection`; the session is one of aiobotocore.
    """

    def __init__(self, bucket: Bucket, **access: Unpack[Access]) -> None:
        super().__init__(bucket, AsyncClients(_connection(access)), _read_async)


class S3Store:
    """An app's bucket for synchronous code: `jobs.core.ports.object_store.ObjectStore`.

    Safe to share between threads. It opens with its first call, and again with one after `close`.

    Args:
        bucket: As for `AsyncS3Store`.
        access: As in `Connection`; the session is one of boto3.
    """

    def __init__(self, bucket: Bucket, **access: Unpack[Access]) -> None:
        calls = _Calls(bucket, Clients(_connection(access)), _read)
        self.put, self.create = driven(calls.put), driven(calls.create)
        self.get, self.page = driven(calls.get), driven(calls.page)
        self.delete = driven(calls.delete)
        self.close = driven(calls.stop)


def _object(bucket: str, key: str, content: bytes) -> dict[str, Any]:
    """Return PutObject's parameters."""
    # Not as Content-Encoding: intermediate clients would decompress it.
    return {"Bucket": bucket, "Key": key, "Body": content, "ContentType": "application/gzip"}


def _connection(access: Access) -> Connection:
    return Connection(
        connect_timeout_s=_CONNECT_TIMEOUT_S,
        read_timeout_s=_READ_TIMEOUT_S,
        bounded=False,
        pool=10,
        **access,
    )


async def _read_async(body: Any, most: int) -> bytes:
    async with body:
        return await _start_of(body.read, most)


async def _read(body: Any, most: int) -> bytes:
    with body:
        return await _start_of(immediate(body.read), most)


async def _start_of(read: Callable[[int], Awaitable[bytes]], most: int) -> bytes:
    """Return all that can be read, or a part of it with more than ``most`` bytes; 0 reads none."""
    parts, left = list[bytes](), most + 1 if most else 0
    while left > 0 and (part := await read(left)):  # aiobotocore's may return less than it has
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
