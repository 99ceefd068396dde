"""Clients of AWS's SDKs behind one interface, so that an adapter's calls are written once.

They are awaited. `AsyncClients` opens aiobotocore's, for an event loop; `Clients` opens boto3's,
which never suspend, so that `jobs.core.immediate` runs the same calls for synchronous code.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from headgate.jobs.aws.connections.connection import (
    Connection,
    ImmediateClient,
    async_aws_client,
    async_session,
    aws_client,
)
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.core.immediate import ImmediateLock
from headgate.jobs.errors import ConfigurationError

if TYPE_CHECKING:
    from aiobotocore.session import AioSession

T = TypeVar("T")


class AnyClients(Protocol):
    """Opens clients of one connection."""

    @property
    def reopens(self) -> bool:
        """True if calls may be made before `OnDemand.start`, and after a `stop`."""
        ...

    def lock(self) -> AbstractAsyncContextManager[object]:
        """Return a new lock between the tasks, or threads, that make the calls."""
        ...

    def open(self, service: str) -> AbstractAsyncContextManager[Any]:
        """Return a client of a service, by its name in the SDK, that is closed with the block."""
        ...


class AsyncClients:
    """Clients of aiobotocore, which share their credentials."""

    reopens = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session: AioSession | None = None

    def lock(self) -> asyncio.Lock:
        """Return a lock between tasks."""
        return asyncio.Lock()

    def open(self, service: str) -> AbstractAsyncContextManager[Any]:
        """Open a client of aiobotocore."""
        if self._session is None:
            self._session = async_session(self._connection.session)
        return async_aws_client(service, self._connection, self._session)


class Clients:
    """Clients of boto3, from any thread; they are awaited, but never suspend."""

    reopens = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock(self) -> ImmediateLock:
        """Return a lock between threads."""
        return ImmediateLock()

    @asynccontextmanager
    async def open(self, service: str) -> AsyncIterator[Any]:
        """Open a client of boto3."""
        client = ImmediateClient(aws_client(service, self._connection))
        try:
            yield client
        finally:
            client.close()


class OnDemand(Generic[T]):
    """The client that an adapter's calls need, opened by the first of them.

    Args:
        clients: open the clients.
        opening: makes what the calls need; what it enters into the stack is closed by `stop`.
    """

    def __init__(
        self, clients: AnyClients, opening: Callable[[AsyncExitStack], Awaitable[T]]
    ) -> None:
        self._clients = clients
        self._opening = opening
        self._usable = clients.reopens
        self._made: T | None = None
        self._lock = clients.lock()
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Let calls be made; the first opens the connections. Idempotent."""
        self._usable = True

    async def stop(self) -> None:
        """Close the connections. Idempotent, and safe before `start`."""
        async with self._lock:
            self._usable, self._made = self._clients.reopens, None
            await self._closing.aclose()

    async def opened(self) -> T:
        """Return what the calls need.

        Raises:
            ConfigurationError: it is not open.
        """
        if (made := self._made) is None:
            async with self._lock:
                if (made := self._made) is None:  # no other call has opened it meanwhile
                    made = self._made = await self._open()
        return made

    async def _open(self) -> T:
        if not self._usable:
            raise ConfigurationError(
                f"{type(self).__name__} is not open: make this call within the `async with` of its "
                "client"
            )
        async with AsyncExitStack() as stack:  # closed again if anything fails
            made = await self._opening(stack)
            self._closing = stack.pop_all()
        return made


def client_of(clients: AnyClients, service: str) -> OnDemand[Any]:
    """Return a client that is opened on demand."""
    return OnDemand(clients, lambda stack: stack.enter_async_context(clients.open(service)))


async def caller_identity(clients: AnyClients, target: str) -> dict[str, str]:
    """Return ``Account`` and ``Arn`` of the credentials; ``target`` is what they are needed for.

    STS's GetCallerIdentity takes no permission.
    """
    async with clients.open("sts") as sts:
        with naming("sts:GetCallerIdentity", target):
            identity: dict[str, str] = await sts.get_caller_identity()
    return identity
