"""HTTP/1.1 without I/O: a request as bytes, and the answer to it out of the pieces that arrive.

Pure, and shared by `jobs.aws.lean.sockets` and `jobs.aws.lean.async_http`. A general library of
HTTP reads an answer for several times the CPU, since it serves both ends of any exchange. This one
reads what follows a POST, and refuses what RFC 9112 doesn't allow.
https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple, Protocol

from botocore.exceptions import HTTPClientError

from headgate.jobs.aws.lean.answer import HttpAnswer

MAX_BYTES = 64 * 2**20
"""Maximum bytes of an answer's body. The largest that there can be is SQS's of ten messages of
1 MiB with every byte escaped, in 60 MiB of JSON; DynamoDB's have 1 MB of items, or 16 MB.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html"""

MAX_HEAD_BYTES = 32 * 2**10
"""Maximum bytes of an answer's head together with the interim ones before it, and of trailers."""

_MAX_SIZE_LINE_BYTES = 1_000

_START = b"HTTP/"
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) +([1-9][0-9]{2})(?: [^\r]*)?\r?")
_HEADER = re.compile(r"^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*)\r?$", re.MULTILINE)
_LENGTH = re.compile(r"[0-9]{1,18}")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r?", re.DOTALL)
_HEAD_END = re.compile(rb"\n\r?\n")
# As numbers: to look up a member of the enum is a call of a Python function.
_OK = HTTPStatus.OK.value
_SWITCHING_PROTOCOLS = HTTPStatus.SWITCHING_PROTOCOLS.value
_BODILESS = frozenset({HTTPStatus.NO_CONTENT.value, HTTPStatus.NOT_MODIFIED.value})


class AnswerBroken(Exception):
    """The answer is not HTTP, or ended too early. The text never quotes it."""


class AnswerTooLarge(Exception):
    """The answer exceeds a bound."""


def head_of(headers: Mapping[str, str]) -> bytes:
    """Return the head of a POST to the root, up to the value of its last header.

    Raises:
        HTTPClientError: a header has a line break, or what HTTP has no character for.
    """
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(("POST / HTTP/1.1", *lines))
    if head.count("\n") != len(lines) or head.count("\r") != len(lines):
        raise HTTPClientError(error="a line break in a header")
    try:
        return head.encode("latin-1")
    except UnicodeEncodeError:  # whose text would quote it, as perhaps a session token
        raise HTTPClientError(error="a character in a header that HTTP doesn't have") from None


def request_of(head: bytes, body: bytes) -> bytes:
    """Return the bytes of a request, from what `head_of` returns, and the length of its body."""
    return b"%b\r\ncontent-length: %d\r\n\r\n%b" % (head, len(body), body)


class AnswerReader:
    """Reads the answer to one request."""

    __slots__ = ("_begun", "_passed", "_pending", "is_last")

    def __init__(self) -> None:
        self._pending = b""
        self._passed = 0
        """Bytes of the interim answers."""
        self._begun: tuple[_Head, _Body] | None = None
        self.is_last = False
        """True if the connection can't be used again after this answer."""

    def feed(self, data: bytes) -> HttpAnswer | None:
        """Take the next piece; return the answer once it is whole.

        Raises:
            AnswerBroken: it is not HTTP.
            AnswerTooLarge: it exceeds a bound; a body that announces its length is then not read.
        """
        if (begun := self._begun) is None:
            self._pending += data
            if (begun := self._past_head()) is None:
                return None
            self._begun, data = begun, self._pending
        head, body = begun
        return self._answer(head, body) if body.feed(data) else None

    def end(self) -> HttpAnswer:
        """Return the answer that the end of the connection completes.

        Raises:
            AnswerBroken: it is incomplete.
        """
        if self._begun is None or not isinstance(self._begun[1], _UntilClosed):
            raise AnswerBroken("the connection ended before the answer did")
        return self._answer(*self._begun)

    def _past_head(self) -> tuple[_Head, _Body] | None:
        """Read the final head, after any interim ones; None if it isn't in. The rest is pending."""
        pending, at = self._pending, 0
        while ended := _HEAD_END.search(pending, at):
            _bound_head(self._passed + ended.start())
            head = _Head.of(pending[at : ended.start()])
            at = ended.end()
            if not head.is_interim:
                self._pending = pending[at:]
                return head, _body_after(head)
        self._pending = pending = pending[at:]
        self._passed += at
        _bound_head(self._passed + len(pending))
        if not pending.startswith(_START[: len(pending)]):
            raise AnswerBroken("the answer is not HTTP")
        return None

    def _answer(self, head: _Head, body: _Body) -> HttpAnswer:
        self.is_last = body.is_last or head.closes
        return HttpAnswer(head.status, head.headers, body.read())


class _Head(NamedTuple):
    status: int
    headers: dict[str, str]
    """By lower-case names; what is repeated is joined by commas."""
    is_old: bool
    """True for HTTP/1.0."""

    @classmethod
    def of(cls, data: bytes) -> _Head:
        status_line, _, lines = data.decode("latin-1").partition("\n")
        if (said := _STATUS_LINE.fullmatch(status_line)) is None:
            raise AnswerBroken("the answer has no status line of HTTP/1")
        found = _HEADER.findall(lines)
        if len(found) != lines.count("\n") + bool(lines):
            raise AnswerBroken("a line of the answer's head is no header")
        headers = {name.lower(): value.rstrip(" \t") for name, value in found}
        if len(headers) < len(found):
            headers = _joined(found)
        return cls(int(said[2]), headers, said[1] == "0")

    @property
    def is_interim(self) -> bool:
        """True for a 1xx that another answer follows; none does after 101."""
        return self.status < _OK and self.status != _SWITCHING_PROTOCOLS

    @property
    def closes(self) -> bool:
        """True if the server closes the connection, or might have been misunderstood."""
        headers = self.headers
        return (
            self.is_old
            or "close" in headers.get("connection", "").lower()
            or self.status == _SWITCHING_PROTOCOLS
            or ("transfer-encoding" in headers and "content-length" in headers)
        )


def _joined(found: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return headers of which some are repeated."""
    headers: dict[str, list[str]] = {}
    for name, value in found:
        headers.setdefault(name.lower(), []).append(value.rstrip(" \t"))
    return {name: ", ".join(values) for name, values in headers.items()}


class _Body(Protocol):
    """The body of an answer, by the way in which its end is found."""

    is_last: bool
    """True if bytes came in that don't belong to the answer, or its end is the connection's."""

    def feed(self, data: bytes) -> bool:
        """Take the next piece; return True once the body is whole."""
        ...

    def read(self) -> bytes:
        """Return the body."""
        ...


def _body_after(head: _Head) -> _Body:
    """https://www.rfc-editor.org/rfc/rfc9112#section-6.3"""
    if head.status in _BODILESS or head.status < _OK:
        return _Sized(0)
    if (encoding := head.headers.get("transfer-encoding")) is not None:
        if encoding.lower() != "chunked":
            raise AnswerBroken("the answer has an unknown transfer encoding")
        return _Chunked()
    if (announced := head.headers.get("content-length")) is None:
        return _UntilClosed()
    if _LENGTH.fullmatch(announced) is None:
        raise AnswerBroken("the answer's length is not a number")
    return _Sized(int(announced))


class _Sized:
    """A body whose length was announced."""

    __slots__ = ("_left", "_length", "_parts", "is_last")

    def __init__(self, length: int) -> None:
        _bound(length)
        self._length = self._left = length
        self._parts: list[bytes] = []
        self.is_last = False

    def feed(self, data: bytes) -> bool:
        self._parts.append(data)
        self._left -= len(data)
        self.is_last = self._left < 0
        return self._left <= 0

    def read(self) -> bytes:
        return b"".join(self._parts)[: self._length]


class _UntilClosed:
    """A body that ends with its connection."""

    __slots__ = ("_length", "_parts")
    is_last = True

    def __init__(self) -> None:
        self._length = 0
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> bool:
        self._length += len(data)
        _bound(self._length)
        self._parts.append(data)
        return False

    def read(self) -> bytes:
        return b"".join(self._parts)


class _Chunked:
    """A body in chunks. https://www.rfc-editor.org/rfc/rfc9112#section-7.1"""

    __slots__ = ("_at", "_left", "_length", "_line", "_parts", "_pending", "_trailers", "is_last")

    def __init__(self) -> None:
        self._pending = b""
        """Bytes that have come in; the first ``_at`` of them are done with."""
        self._at = 0
        self._parts: list[bytes] = []
        self._length = 0
        self._left = 0
        """Bytes of the present chunk that are still to come."""
        self._line: _Line | None = self._size
        """Reads the next line; None after the last."""
        self._trailers = 0
        self.is_last = False

    def feed(self, data: bytes) -> bool:
        self._pending, self._at = self._pending[self._at :] + data, 0
        while self._line is not None:
            if self._left:
                self._take()
            if self._left or (line := self._next_line()) is None:
                return False
            self._line = self._line(line)
        self.is_last = self._at < len(self._pending)
        return True

    def read(self) -> bytes:
        return b"".join(self._parts)

    def _take(self) -> None:
        part = self._pending[self._at : self._at + self._left]
        self._parts.append(part)
        self._at += len(part)
        self._left -= len(part)

    def _next_line(self) -> bytes | None:
        """Return the next line without its line feed, None if it isn't in."""
        end = self._pending.find(b"\n", self._at)
        if (end if end >= 0 else len(self._pending)) - self._at > _MAX_SIZE_LINE_BYTES:
            raise AnswerBroken("a line between the chunks of the answer is too long")
        if end < 0:
            return None
        line = self._pending[self._at : end]
        self._at = end + 1
        return line

    def _size(self, line: bytes) -> _Line:
        if (found := _SIZE.fullmatch(line)) is None:
            raise AnswerBroken("a chunk of the answer has no size")
        self._left = int(found[1], 16)
        self._length += self._left
        _bound(self._length)
        return self._after_chunk if self._left else self._trailer

    def _after_chunk(self, line: bytes) -> _Line:
        if line.rstrip(b"\r"):
            raise AnswerBroken("a chunk of the answer is longer than its size")
        return self._size

    def _trailer(self, line: bytes) -> _Line | None:
        self._trailers += len(line)
        _bound_head(self._trailers)
        return self._trailer if line.rstrip(b"\r") else None


class _Line(Protocol):
    """Reads a line between chunks, and returns what reads the next."""

    def __call__(self, line: bytes, /) -> _Line | None: ...


def _bound(length: int) -> None:
    if length > MAX_BYTES:
        raise AnswerTooLarge(f"the answer has over {MAX_BYTES:,} bytes")


def _bound_head(length: int) -> None:
    if length > MAX_HEAD_BYTES:
        raise AnswerTooLarge(f"the answer's head has over {MAX_HEAD_BYTES:,} bytes")
