"""SQS and DynamoDB that carry out every request at once, to measure what their clients cost.

Messages are kept in order until they are received, by a client that is still connected; nothing is
hidden, and no condition of a write fails. `PromptAws` starts ``python -m
tests.support.prompt_aws``, which prints its address and serves until its input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from tests.support.own_server import OwnServer


class PromptAws(OwnServer):
    """Such a server in a process of its own; a context manager."""

    def __init__(self) -> None:
        super().__init__(__spec__.name)


@contextmanager
def prompt_aws_in_thread() -> Iterator[str]:
    """Serve from a thread of this process until the block ends; yield the address."""
    loop, told, stopping = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    urls: list[str] = []

    def tell(url: str) -> None:
        urls.append(url)
        told.set()

    thread = threading.Thread(target=lambda: loop.run_until_complete(_serve(tell, stopping)))
    thread.start()
    told.wait()
    try:
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
        loop.close()


class _Services:
    """The answers to requests, by action."""

    def __init__(self) -> None:
        self._queues: defaultdict[str, deque[dict[str, Any]]] = defaultdict(deque)
        self._numbers = count()
        self._sent = asyncio.Event()

    async def answer(
        self, action: str, body: bytes, client: asyncio.StreamReader
    ) -> dict[str, Any]:
        """Carry out a client's request; return the members of its answer."""
        request = json.loads(body)
        match action:
            case "GetQueueUrl":
                return {"QueueUrl": f"http://sqs/{request['QueueName']}"}
            case "SendMessageBatch":
                self._keep(request)
                return _all_of(request)
            case "DeleteMessageBatch" | "ChangeMessageVisibilityBatch":
                return _all_of(request)
            case "ReceiveMessage":
                return await self._received(request, client)
            case "BatchWriteItem":
                return {"UnprocessedItems": {}}
            case "Query" | "Scan":
                return {"Items": [], "Count": 0}
        return {}

    def _keep(self, request: dict[str, Any]) -> None:
        self._sent.set()
        for entry in request["Entries"]:
            self._queues[request["QueueUrl"]].append(
                {
                    "MessageId": f"{next(self._numbers):036}",
                    "Body": entry["MessageBody"],
                    "MessageAttributes": entry.get("MessageAttributes", {}),
                    "Attributes": {
                        "ApproximateReceiveCount": "1",
                        "SentTimestamp": "1767225600000",
                        "ApproximateFirstReceiveTimestamp": "1767225600000",
                    },
                }
            )

    async def _received(
        self, request: dict[str, Any], client: asyncio.StreamReader
    ) -> dict[str, Any]:
        queue = self._queues[request["QueueUrl"]]
        with suppress(TimeoutError):
            async with asyncio.timeout(request.get("WaitTimeSeconds", 0)):
                while not queue:
                    self._sent.clear()
                    await self._sent.wait()
        most = 0 if _has_gone(client) else request["MaxNumberOfMessages"]
        taken = [queue.popleft() for _ in range(min(len(queue), most))]
        return {"Messages": [{**each, "ReceiptHandle": each["MessageId"]} for each in taken]}


def _has_gone(client: asyncio.StreamReader) -> bool:
    return client.at_eof() or client.exception() is not None


def _all_of(request: dict[str, Any]) -> dict[str, Any]:
    return {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]], "Failed": []}


async def _serve(tell: Callable[[str], None], stopping: asyncio.Event) -> None:
    services, writers = _Services(), set[asyncio.StreamWriter]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            while True:
                await _exchange(services, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()
        writers.discard(writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**24)
    host, port = server.sockets[0].getsockname()[:2]
    tell(f"http://{host}:{port}")
    await stopping.wait()
    server.close()
    for writer in tuple(writers):
        writer.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _exchange(
    services: _Services, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Read a request, and write the answer to it."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = [line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:-2]]
    headers = {name.lower(): value for name, _, value in lines}
    body = await reader.readexactly(int(headers["content-length"]))
    action = headers["x-amz-target"].rpartition(".")[2]
    answer = json.dumps(await services.answer(action, body, reader)).encode()
    writer.write(
        b"HTTP/1.1 200 OK\r\nx-amzn-RequestId: 11111111-2222-3333-4444-555555555555\r\n"
        b"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: application/x-amz-json-1.0\r\n"
        b"Connection: keep-alive\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer)
    )
    await writer.drain()


async def _serve_until_input_ends() -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(stopping.set)

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    await _serve(lambda url: print(url, flush=True), stopping)  # noqa: T201 - what the parent reads


if __name__ == "__main__":
    asyncio.run(_serve_until_input_ends())
