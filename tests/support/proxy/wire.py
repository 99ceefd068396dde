"""Just enough of HTTP/1.1 and of AWS's protocols: the end of a message, and its action.

In the JSON protocol the action is in the header ``X-Amz-Target``; in the older one it is a
parameter of the URL or the body.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-making-api-requests-json.html
"""

from __future__ import annotations

import json
import re
from typing import Any

UNKNOWN = "Unknown"

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
"""Tells a client that asked first, as S3's do, to send the request's body.
https://www.rfc-editor.org/rfc/rfc9110#name-expect"""

_HEAD_END = b"\r\n\r\n"
_EXPECTS = re.compile(rb"\r\nexpect: *100-continue", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_TARGET = re.compile(rb"\r\nx-amz-target: *\w+\.(\w+)", re.IGNORECASE)
_QUERY_ACTION = re.compile(rb"(?:^|[?&])Action=(\w+)")


class MessageReader:
    """Splits a connection's bytes into complete requests or responses.

    Most come in one piece, which is then passed on without a copy.
    """

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> None:
        """Add bytes received from the connection."""
        self._buffer = self._buffer + data if self._buffer else data

    def take(self) -> bytes | None:
        """Return the next message, head and body, once it is complete.

        Raises:
            ValueError: its length is not declared; neither SQS's clients nor the local servers do
                that.
        """
        buffer = self._buffer
        if (end := buffer.find(_HEAD_END)) < 0:
            return None
        length = _LENGTH.search(buffer, 0, end + 2)
        if length is None and _CHUNKED.search(buffer, 0, end + 2):
            raise ValueError("the proxy reads no chunked messages")
        size = end + len(_HEAD_END) + (int(length[1]) if length else 0)
        if len(buffer) < size:
            return None
        self._buffer = buffer[size:]
        return buffer[:size]

    @property
    def is_kept_waiting(self) -> bool:
        """Return True if only a head has come whose body is sent after `CONTINUE`."""
        end = self._buffer.find(_HEAD_END) + len(_HEAD_END)
        return end == len(self._buffer) and _EXPECTS.search(self._buffer) is not None


def action(request: bytes) -> str:
    """Return the action of a request to SQS or DynamoDB; `UNKNOWN` if it is to neither."""
    end = request.find(_HEAD_END)
    if found := _TARGET.search(request, 0, end):
        return found[1].decode()
    address = request.split(b" ", 2)[1]
    found = _QUERY_ACTION.search(address) or _QUERY_ACTION.search(body(request))
    return found[1].decode() if found else UNKNOWN


def status(response: bytes) -> int:
    """Return a response's status."""
    return int(response.split(b" ", 2)[1])


def body(message: bytes) -> bytes:
    """Return the bytes after the head."""
    return message.partition(_HEAD_END)[2]


def with_body(request: bytes, value: Any) -> bytes:
    """Return the request with another body, as JSON."""
    head, content = request.partition(_HEAD_END)[0], json.dumps(value).encode()
    return _LENGTH.sub(b"\r\nContent-Length: %d" % len(content), head) + _HEAD_END + content


def json_response(number: int, value: Any) -> bytes:
    """Return a response in SQS's format."""
    content = json.dumps(value).encode()
    head = (
        f"HTTP/1.1 {number} -\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content
