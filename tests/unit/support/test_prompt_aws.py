"""The server of benchmarks: what it takes from a queue reaches a client that is still there."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

from tests.support.prompt_aws import prompt_aws_in_thread

_RECEIVE = {"QueueUrl": "http://sqs/orders", "MaxNumberOfMessages": 10}
_SEND = {"QueueUrl": "http://sqs/orders", "Entries": [{"Id": "0", "MessageBody": "{}"}]}


class _Connection:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def ask(self, action: str, request: dict[str, Any]) -> None:
        """Send a request."""
        body = json.dumps(request).encode()
        head = f"POST / HTTP/1.1\r\nX-Amz-Target: AmazonSQS.{action}\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async def answer(self) -> Any:
        """Return the members of the next answer."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return json.loads(await self._reader.readexactly(length))

    async def close(self) -> None:
        """Close it, with what it asked unanswered."""
        self._writer.close()
        await self._writer.wait_closed()


async def _connect(url: str) -> _Connection:
    address = urlsplit(url)
    return _Connection(*await asyncio.open_connection(address.hostname, address.port))


async def test_a_receive_whose_client_has_gone_takes_no_messages() -> None:
    with prompt_aws_in_thread() as url:
        gone, here = await _connect(url), await _connect(url)
        gone.ask("ReceiveMessage", _RECEIVE | {"WaitTimeSeconds": 20})
        await gone.close()
        here.ask("SendMessageBatch", _SEND)
        await here.answer()
        here.ask("ReceiveMessage", _RECEIVE)
        assert len((await here.answer())["Messages"]) == 1
        await here.close()


async def test_a_waiting_receive_is_answered_with_what_is_sent() -> None:
    with prompt_aws_in_thread() as url:
        waiting, sending = await _connect(url), await _connect(url)
        waiting.ask("ReceiveMessage", _RECEIVE | {"WaitTimeSeconds": 20})
        sending.ask("SendMessageBatch", _SEND)
        assert [each["Body"] for each in (await waiting.answer())["Messages"]] == ["{}"]
        await waiting.close()
        await sending.close()
