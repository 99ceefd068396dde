"""S3: `AsyncS3Store` is a `jobs.core.ports.AsyncObjectStore`, and `S3Store` a synchronous one.

Both find the bucket's name when it is first needed: it contains the account, which AWS returns to
anyone with credentials (sts:GetCallerIdentity takes no permission). Nothing is opened before that,
so an app without large payloads pays nothing.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headgate.jobs.aws.connections.connection import (
    Connection,
    async_aws_client,
    async_session,
    aws_client,
)
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.core.topology import Bucket
from headgate.jobs.errors import ConfigurationError

if TYPE_CHECKING:
    from aiobotocore.session import AioSession
    from boto3.session import Session
    from botocore.config import Config

_CONNECT_TIMEOUT_S = 2.0
_READ_TIMEOUT_S = 10.0


class AsyncS3Store:
    """An app's bucket for an event loop: `jobs.core.ports.AsyncObjectStore`.

    ::

        async with AsyncS3Store(app.topology.bucket) as store:
            await store.put("payloads/1", b"...")

    It calls GetObject and PutObject. ListBucket has to be allowed as well, though it is never
    called: without it S3 answers that access is denied when an object doesn't exist.
    https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html

    Args:
        bucket: The bucket, by its prefix or its whole name.
        endpoint_url: None for the one in ``AWS_ENDPOINT_URL_S3``, ``AWS_ENDPOINT_URL`` or the
            profile, else AWS's own.
        region: None for ``AWS_REGION``, ``AWS_DEFAULT_REGION`` or the profile's.
        max_pool_connections: Maximum number of requests under way; others wait for a connection.
        session: The user's own aiobotocore session; None makes one.
        config: The user's own botocore settings, which win over these.
    """

    def __init__(
        self,
        bucket: Bucket,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        max_pool_connections: int = 10,
        session: AioSession | None = None,
        config: Config | None = None,
    ) -> None:
        self._bucket = bucket
        self._connection = replace(
            _connection(endpoint_url, region, max_pool_connections), session=session, config=config
        )
        self._opening = asyncio.Lock()
        self._opened: tuple[Any, str] | None = None
        self._closing = AsyncExitStack()
        self._usable = False

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def start(self) -> None:
        """Let calls be made; the first opens the connections. Idempotent."""
        self._usable = True

    async def stop(self) -> None:
        """Close the connections. Idempotent."""
        async with self._opening:
            self._usable, self._opened = False, None
            await self._closing.aclose()

    async def put(self, key: str, content: bytes) -> None:
        """Store an object (PutObject)."""
        client, bucket = await self._client()
        with naming("s3:PutObject", bucket):
            await client.put_object(**_put_request(bucket, key, content))

    async def get(self, key: str) -> bytes | None:
        """Return an object's content, or None if there is no such object (GetObject)."""
        client, bucket = await self._client()
        with naming("s3:GetObject", bucket):
            try:
                answer = await client.get_object(Bucket=bucket, Key=key)
            except client.exceptions.NoSuchKey:
                return None
            async with answer["Body"] as body:
                content: bytes = await body.read()
        return content

    async def _client(self) -> tuple[Any, str]:
        async with self._opening:
            if self._opened is None:
                self._opened = await self._open()
            return self._opened

    async def _open(self) -> tuple[Any, str]:
        """Open the client; return it with the bucket's name."""
        if not self._usable:
            raise ConfigurationError("AsyncS3Store is not open: use it in `async with`")
        session = async_session(self._connection.session)
        async with AsyncExitStack() as stack:  # closed again if anything fails
            s3 = await stack.enter_async_context(async_aws_client("s3", self._connection, session))
            name = self._bucket.name
            if name is None:
                async with async_aws_client("sts", self._connection, session) as sts:
                    with naming("sts:GetCallerIdentity", self._bucket.prefix):
                        account = (await sts.get_caller_identity())["Account"]
                name = self._bucket.name_in(account, s3.meta.region_name)
            self._closing = stack.pop_all()
        return s3, name


class S3Store:
    """An app's bucket for synchronous code: `jobs.core.ports.ObjectStore`.

    Safe to share between threads.

    Args:
        bucket: as for `AsyncS3Store`, and so are the others, with a session of boto3.
    """

    def __init__(
        self,
        bucket: Bucket,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        session: Session | None = None,
        config: Config | None = None,
    ) -> None:
        self._bucket = bucket
        self._connection = replace(
            _connection(endpoint_url, region, pool=10), session=session, config=config
        )
        self._opening = threading.Lock()
        self._opened: tuple[Any, str] | None = None

    def close(self) -> None:
        """Close the connections; the next call would open them anew. Idempotent."""
        with self._opening:
            if self._opened is not None:
                self._opened[0].close()
                self._opened = None

    def put(self, key: str, content: bytes) -> None:
        """Store an object (PutObject)."""
        client, bucket = self._client()
        with naming("s3:PutObject", bucket):
            client.put_object(**_put_request(bucket, key, content))

    def get(self, key: str) -> bytes | None:
        """Return an object's content, or None if there is no such object (GetObject)."""
        client, bucket = self._client()
        with naming("s3:GetObject", bucket):
            try:
                body = client.get_object(Bucket=bucket, Key=key)["Body"]
            except client.exceptions.NoSuchKey:
                return None
            with body:
                content: bytes = body.read()
        return content

    def _client(self) -> tuple[Any, str]:
        with self._opening:
            if self._opened is None:
                s3 = aws_client("s3", self._connection)
                self._opened = s3, self._bucket.name or self._found(s3.meta.region_name)
            return self._opened

    def _found(self, region: str) -> str:
        sts = aws_client("sts", self._connection)
        try:
            with naming("sts:GetCallerIdentity", self._bucket.prefix):
                account = sts.get_caller_identity()["Account"]
        finally:
            sts.close()
        return self._bucket.name_in(account, region)


def _connection(endpoint_url: str | None, region: str | None, pool: int) -> Connection:
    return Connection(
        endpoint_url=endpoint_url,
        region=region,
        connect_timeout_s=_CONNECT_TIMEOUT_S,
        read_timeout_s=_READ_TIMEOUT_S,
        bounded=False,
        pool=pool,
    )


def _put_request(bucket: str, key: str, content: bytes) -> dict[str, Any]:
    # Not as Content-Encoding: intermediate clients would decompress it.
    return {"Bucket": bucket, "Key": key, "Body": content, "ContentType": "application/gzip"}
