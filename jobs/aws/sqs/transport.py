"""SQS: `AsyncSqsTransport` is a `jobs.core.ports.AsyncTransport`, `SqsTransport` a `Transport`.

Both take queues by name, find their addresses with GetQueueUrl once, and never list or create
queues, so a worker's role needs no more than the calls below. Requests are built and responses are
read in `jobs.aws.sqs.wire`; requests are counted, and their failures translated, in
`jobs.aws.sqs.request_log`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, Unpack

from headgate.jobs.aws.connections.connection import Access, Connection
from headgate.jobs.aws.lean.caller import Caller
from headgate.jobs.aws.lean.opening import open_caller
from headgate.jobs.aws.lean.services import SQS
from headgate.jobs.aws.sqs import wire
from headgate.jobs.aws.sqs.request_log import Action, Ledger, Observer, RequestMade
from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports import (
    EntryFailure,
    OutgoingMessage,
    QueueDepth,
    ReceivedMessage,
    VisibilityChange,
)
from headgate.jobs.errors import ConfigurationError

_LONG_POLL_S = 20  # SQS's longest wait
_POLL_READ_TIMEOUT_S = _LONG_POLL_S + 10  # a long poll's answer must not look lost
_POLL_ATTEMPTS = 1  # the poller repeats receives itself, and has to notice an outage at once

__all__ = ["Action", "AsyncSqsTransport", "Observer", "RequestMade", "SqsTransport"]


class AsyncSqsTransport:
    """SQS for an event loop: `jobs.core.ports.AsyncTransport`.

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
        self._commands = Connection(pool=max_pool_connections, **access)
        self._polling = replace(
            self._commands, read_timeout_s=_POLL_READ_TIMEOUT_S, attempts=_POLL_ATTEMPTS
        )
        self._lean = lean
        self._clock = clock or SystemClock()
        self._ledger = Ledger(on_request, self._clock)
        self._resolving: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._lifecycle = asyncio.Lock()
        self._callers: _Callers | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Open the clients; credentials are looked up by the first call. Idempotent.

        Raises:
            ConfigurationError: aiobotocore is not installed.
            TransportError: the region, the profile or the CA bundle is missing, or the endpoint is
                not a URL.
        """
        async with self._lifecycle:
            if self._callers is None:
                self._callers = await self._open()

    async def _open(self) -> _Callers:
        from headgate.jobs.aws.lean.async_opening import open_async_callers

        async with AsyncExitStack() as stack:
            commands, polling = await open_async_callers(
                SQS,
                self._commands,
                self._polling,
                closing=stack,
                lean=self._lean,
                clock=self._clock,
            )
            return _Callers(polling=polling, commands=commands, closing=stack.pop_all())

    async def stop(self) -> None:
        """Close the connections. Idempotent, and safe before `start`."""
        async with self._lifecycle:
            if self._callers is not None:
                callers, self._callers = self._callers, None
                await callers.closing.aclose()

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        """Send up to ten messages, of up to 1 MiB together (SendMessageBatch)."""
        commands, url = self._opened().commands, await self._url(queue)
        with self._ledger.call("send", queue, len(messages)):
            response = await commands.call("SendMessageBatch", wire.send_request(url, messages))
            return wire.read_failures(response, len(messages))

    async def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        """Receive up to ``limit`` messages (ReceiveMessage). Avoid cancelling it; see the class."""
        polling, url = self._opened().polling, await self._url(queue)
        request = wire.receive_request(url, limit=limit, wait_s=wait_s, visibility_s=visibility_s)
        with self._ledger.call("receive", queue) as call:
            messages = wire.read_messages(await polling.call("ReceiveMessage", request))
            call.entries = len(messages)
            return messages

    async def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]:
        """Delete messages (DeleteMessageBatch); for SQS, one deleted before is not a failure."""
        commands, url = self._opened().commands, await self._url(queue)
        with self._ledger.call("delete", queue, len(receipts)):
            response = await commands.call("DeleteMessageBatch", wire.delete_request(url, receipts))
            return wire.read_failures(response, len(receipts))

    async def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]:
        """Hide messages for a time from now (ChangeMessageVisibilityBatch); 0 gives one back."""
        commands, url = self._opened().commands, await self._url(queue)
        request = wire.change_visibility_request(url, changes)
        with self._ledger.call("change_visibility", queue, len(changes)):
            response = await commands.call("ChangeMessageVisibilityBatch", request)
            return wire.read_failures(response, len(changes))

    async def depth(self, queue: str) -> QueueDepth:
        """Return the approximate numbers of messages (GetQueueAttributes)."""
        commands, url = self._opened().commands, await self._url(queue)
        with self._ledger.call("depth", queue):
            response = await commands.call("GetQueueAttributes", wire.depth_request(url))
            return wire.read_depth(response)

    async def _url(self, queue: str) -> str:
        """Return the queue's address; SQS is asked once, however many callers need it at once."""
        if url := self._ledger.urls.get(queue):
            return url
        async with self._resolving[queue]:
            if url := self._ledger.urls.get(queue):
                return url
            commands = self._opened().commands
            with self._ledger.call("resolve", queue):
                response = await commands.call("GetQueueUrl", {"QueueName": queue})
                return self._ledger.urls.setdefault(queue, wire.read_url(response))

    def _opened(self) -> _Callers:
        if self._callers is None:
            raise ConfigurationError("AsyncSqsTransport is not open: use it in `async with`")
        return self._callers


class SqsTransport:
    """SQS for synchronous code: `jobs.core.ports.Transport`.

    Safe to share between threads. It opens with its first call; a process may fork before and after
    that. Its calls use `jobs.aws.lean`, as `AsyncSqsTransport`'s do, for about a fifth of boto3's
    CPU, and boto3 where only that knows the way, or with a session or settings of the user's own;
    then fork before the first call. Each call has three tries, of 10 s each, by
    `jobs.aws.connections.retries` either way: boto3's quota of retries would make every failed
    request of a long run raise. A repeated send can leave a message twice. The arguments are
    `AsyncSqsTransport`'s, with a session of boto3, and ``sleep``, which pauses between two tries.
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
        self._connection = Connection(pool=max_pool_connections, **access)
        self._sleep = sleep
        self._lean = lean
        self._clock = clock or SystemClock()
        self._ledger = Ledger(on_request, self._clock)
        self._opening = threading.Lock()
        self._resolving = threading.Lock()
        self._caller: Caller | None = None
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Idempotent; a later call opens them again."""
        with self._opening:
            self._caller = None
            self._closing.close()

    def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        """Send up to ten messages, of up to 1 MiB together (SendMessageBatch)."""
        caller, url = self._opened(), self._url(queue)
        with self._ledger.call("send", queue, len(messages)):
            response = drive(caller.call("SendMessageBatch", wire.send_request(url, messages)))
            return wire.read_failures(response, len(messages))

    def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        """Receive up to ``limit`` messages (ReceiveMessage), with a wait of up to 5 s."""
        caller, url = self._opened(), self._url(queue)
        request = wire.receive_request(url, limit=limit, wait_s=wait_s, visibility_s=visibility_s)
        with self._ledger.call("receive", queue) as call:
            messages = wire.read_messages(drive(caller.call("ReceiveMessage", request)))
            call.entries = len(messages)
            return messages

    def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]:
        """Hide messages for a time from now (ChangeMessageVisibilityBatch); 0 gives one back."""
        caller, url = self._opened(), self._url(queue)
        request = wire.change_visibility_request(url, changes)
        with self._ledger.call("change_visibility", queue, len(changes)):
            response = drive(caller.call("ChangeMessageVisibilityBatch", request))
            return wire.read_failures(response, len(changes))

    def depth(self, queue: str) -> QueueDepth:
        """Return the approximate numbers of messages (GetQueueAttributes)."""
        caller, url = self._opened(), self._url(queue)
        with self._ledger.call("depth", queue):
            response = drive(caller.call("GetQueueAttributes", wire.depth_request(url)))
            return wire.read_depth(response)

    def _url(self, queue: str) -> str:
        if url := self._ledger.urls.get(queue):
            return url
        caller = self._opened()
        with self._resolving:
            if url := self._ledger.urls.get(queue):
                return url
            with self._ledger.call("resolve", queue):
                response = drive(caller.call("GetQueueUrl", {"QueueName": queue}))
                return self._ledger.urls.setdefault(queue, wire.read_url(response))

    def _opened(self) -> Caller:
        if (caller := self._caller) is not None:
            return caller
        with self._opening:
            if self._caller is None:
                self._caller = self._open()
            return self._caller

    def _open(self) -> Caller:
        with ExitStack() as stack:  # closed again if anything fails
            caller = open_caller(
                SQS,
                self._connection,
                stack,
                lean=self._lean,
                clock=self._clock,
                sleep=self._sleep,
            )
            self._closing = stack.pop_all()
            return caller


@dataclass(frozen=True, slots=True, kw_only=True)
class _Callers:
    polling: Caller
    commands: Caller
    closing: AsyncExitStack
