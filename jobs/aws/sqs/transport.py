"""The ports of `jobs.core.ports.transport` on SQS.

The calls of both are written once. Both take queues by name or ARN, find their addresses with
GetQueueUrl once, and never list or create queues, so a worker's role needs no more than the calls
below. Requests are built and responses are read in `jobs.aws.sqs.wire`; requests are counted, and
their failures translated, in `jobs.aws.sqs.request_log`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Self, Unpack

from headgate.jobs.aws.connections.clients import AnyClients, AsyncClients, Clients, OnDemand
from headgate.jobs.aws.connections.connection import Access, Connection
from headgate.jobs.aws.lean.caller import Caller
from headgate.jobs.aws.lean.opening import open_caller
from headgate.jobs.aws.lean.services import SQS
from headgate.jobs.aws.sqs import wire
from headgate.jobs.aws.sqs.request_log import Action, Ledger, Observer, RequestMade
from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.immediate import driven
from headgate.jobs.core.ports.transport import (
    EntryFailure,
    OutgoingMessage,
    QueueDepth,
    ReceivedMessage,
    VisibilityChange,
)
from headgate.jobs.values.light_dataclass import light_dataclass

_LONG_POLL_S = 20  # SQS's longest wait
_POLL_READ_TIMEOUT_S = _LONG_POLL_S + 10  # a long poll's answer must not look lost
_POLL_ATTEMPTS = 1  # the poller repeats receives itself, and has to notice an outage at once
_ATTEMPTS = 3

__all__ = ["Action", "AsyncSqsTransport", "Observer", "RequestMade", "SqsTransport"]


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Callers:
    polling: Caller
    commands: Caller


class _Calls(OnDemand[_Callers]):
    """The calls of a transport, through callers of SQS."""

    def __init__(
        self,
        clients: AnyClients,
        opening: Callable[[AsyncExitStack], Awaitable[_Callers]],
        ledger: Ledger,
    ) -> None:
        super().__init__(clients, opening)
        self._ledger = ledger
        self._resolving: dict[str, AbstractAsyncContextManager[object]] = {}

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        """Send up to ten messages, of up to 1 MiB together (SendMessageBatch)."""
        callers, url = await self._at(queue)
        with self._ledger.call("send", queue, len(messages)):
            request = wire.send_request(url, messages)
            response = await callers.commands.call("SendMessageBatch", request)
            return wire.read_failures(response, len(messages))

    async def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        """Receive up to ``limit`` messages (ReceiveMessage)."""
        callers, url = await self._at(queue)
        request = wire.receive_request(url, limit=limit, wait_s=wait_s, visibility_s=visibility_s)
        with self._ledger.call("receive", queue) as call:
            messages = wire.read_messages(await callers.polling.call("ReceiveMessage", request))
            call.entries = len(messages)
            return messages

    async def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]:
        """Delete messages (DeleteMessageBatch); for SQS, one deleted before is not a failure."""
        callers, url = await self._at(queue)
        with self._ledger.call("delete", queue, len(receipts)):
            request = wire.delete_request(url, receipts)
            response = await callers.commands.call("DeleteMessageBatch", request)
            return wire.read_failures(response, len(receipts))

    async def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]:
        """Hide messages for a time from now (ChangeMessageVisibilityBatch); 0 gives one back."""
        callers, url = await self._at(queue)
        with self._ledger.call("change_visibility", queue, len(changes)):
            request = wire.change_visibility_request(url, changes)
            response = await callers.commands.call("ChangeMessageVisibilityBatch", request)
            return wire.read_failures(response, len(changes))

    async def depth(self, queue: str) -> QueueDepth:
        """Return the approximate numbers of messages (GetQueueAttributes)."""
        callers, url = await self._at(queue)
        with self._ledger.call("depth", queue):
            request = wire.depth_request(url)
            return wire.read_depth(await callers.commands.call("GetQueueAttributes", request))

    async def _at(self, queue: str) -> tuple[_Callers, str]:
        """Return the callers and the queue's address."""
        callers = await self.opened()
        if url := self._ledger.urls.get(queue):
            return callers, url
        return callers, await self._resolve(queue, callers.commands)

    async def _resolve(self, queue: str, commands: Caller) -> str:
        """Return the queue's address; SQS is asked once, however many callers need it at once."""
        async with self._resolving.setdefault(queue, self._clients.lock()):
            if url := self._ledger.urls.get(queue):
                return url
            with self._ledger.call("resolve", queue):
                response = await commands.call("GetQueueUrl", wire.url_request(queue))
                return self._ledger.urls.setdefault(queue, wire.read_url(response))


class AsyncSqsTransport(_Calls):
    """SQS for an event loop: `jobs.core.ports.transport.AsyncTransport`.

    ::

        async with AsyncSqsTransport() as sqs:
            await sqs.send("shop-jobs-high", [OutgoingMessage(body="{}")])

    It has two pools of connections, and one set of credentials. One pool polls: it waits 30 s for
    an answer, longer than SQS's longest poll, and never repeats a receive, since the poller does,
    and a repetition inside it would hide an outage for a minute and a half. The other does the
    rest: it gives up after 10 s and tries three times. Deletes and visibility changes are safe to
    repeat; a repeated send can leave a message twice, which at-least-once delivery allows for.
    With pools of their own, long polls never take the connections that settlements need.

    Its calls use `jobs.aws.lean`, for less than half of aiobotocore's CPU. aiobotocore finds the
    credentials, endpoint and region; if they are configured in a way that only it supports (see
    `jobs.aws.lean.route`), it makes every call.

    A receive that is cancelled may already have taken messages: nobody has them, and they stay
    hidden for their visibility timeout. Let polls return, and give back the messages they bring.

    Args:
        max_pool_connections: Maximum number of polls under way, and separately of other requests.
            Any beyond it wait for a connection.
        on_request: Called with every request.
        clock: Tells the time.
        lean: False for aiobotocore making every call.
        access: As in `Connection`; the session is one of aiobotocore. With a ``config``
            aiobotocore makes every call.
    """

    def __init__(
        self,
        *,
        max_pool_connections: int = 50,
        on_request: Observer | None = None,
        clock: Clock | None = None,
        lean: bool = True,
        **access: Unpack[Access],
    ) -> None:
        known_clock = clock or SystemClock()
        connection = _connection(max_pool_connections, access)
        opening = partial(_open_async, connection, lean, known_clock)
        super().__init__(AsyncClients(connection), opening, Ledger(on_request, known_clock))

    async def start(self) -> None:
        """Open the connections; credentials are looked up by the first call. Idempotent.

        Raises:
            ConfigurationError: aiobotocore is not installed.
            TransportError: the region, the profile or the CA bundle is missing, or the endpoint is
                not a URL.
        """
        await super().start()
        await self.opened()


class SqsTransport:
    """SQS for synchronous code: `jobs.core.ports.transport.Transport`.

    Safe to share between threads. It opens with its first call, and again with one after `close`; a
    process may fork before and after that. Its calls use `jobs.aws.lean`, as `AsyncSqsTransport`'s
    do, for about a fifth of boto3's CPU, and boto3 where only that knows the way, or with a session
    or settings of the user's own; then fork before the first call. Each call has three tries, of
    10 s each, so a receive waits 5 s at most. They are made by `jobs.aws.connections.retries`
    either way: boto3's quota of retries would make every failed request of a long run raise. A
    repeated send can leave a message twice. The arguments are `AsyncSqsTransport`'s, with a session
    of boto3, and ``sleep``, which pauses between two tries.
    """

    def __init__(
        self,
        *,
        max_pool_connections: int = 50,
        on_request: Observer | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
        lean: bool = True,
        **access: Unpack[Access],
    ) -> None:
        known_clock = clock or SystemClock()
        connection = _connection(max_pool_connections, access)
        opening = partial(_open, connection, lean, known_clock, sleep)
        calls = _Calls(Clients(connection), opening, Ledger(on_request, known_clock))
        self.send, self.receive = driven(calls.send), driven(calls.receive)
        self.delete = driven(calls.delete)
        self.change_visibility = driven(calls.change_visibility)
        self.depth, self.close = driven(calls.depth), driven(calls.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


async def _open_async(
    connection: Connection, lean: bool, clock: Clock, stack: AsyncExitStack
) -> _Callers:
    from headgate.jobs.aws.lean.async_opening import open_async_callers

    poll = replace(connection, read_timeout_s=_POLL_READ_TIMEOUT_S, attempts=_POLL_ATTEMPTS)
    commands, polling = await open_async_callers(
        SQS, connection, poll, closing=stack, lean=lean, clock=clock
    )
    return _Callers(polling=polling, commands=commands)


async def _open(
    connection: Connection,
    lean: bool,
    clock: Clock,
    sleep: Callable[[float], None],
    stack: AsyncExitStack,
) -> _Callers:
    caller = open_caller(SQS, connection, stack, lean=lean, clock=clock, sleep=sleep)
    return _Callers(polling=caller, commands=caller)


def _connection(pool: int, access: Access) -> Connection:
    return Connection(pool=pool, attempts=_ATTEMPTS, **access)
