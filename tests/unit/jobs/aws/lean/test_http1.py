"""`AnswerReader`: the same answer out of any pieces, and an error of its own for what is none."""

from __future__ import annotations

from itertools import pairwise

import pytest
from botocore.exceptions import HTTPClientError
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.aws.lean import http1
from headgate.jobs.aws.lean.answer import HttpAnswer
from headgate.jobs.aws.lean.http1 import (
    AnswerBroken,
    AnswerReader,
    AnswerTooLarge,
    head_of,
    request_of,
)

BODY = b'{"Messages": ["\r\n\r\n0\r\n\r\n"]}'
SIZED = b"HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = CHUNKED_HEAD + b"5;ext=1\r\n%b\r\n%x\r\n%b\r\n0\r\nExpires: never\r\n\r\n" % (
    BODY[:5],
    len(BODY) - 5,
    BODY[5:],
)
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\nDate: now\r\n\r\n" + BODY
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def read(*pieces: bytes, reader: AnswerReader | None = None) -> HttpAnswer | None:
    """Feed the pieces, until one completes the answer."""
    reader = reader or AnswerReader()
    for piece in pieces:
        if answer := reader.feed(piece):
            return answer
    return None


def with_header(line: bytes) -> bytes:
    return SIZED.replace(b"\r\n\r\n", b"\r\n" + line + b"\r\n\r\n", 1)


def in_pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(bounds)]
    return [piece for piece in pieces if piece]


@pytest.mark.parametrize(
    "data",
    [SIZED, CHUNKED, INTERIM + SIZED, SIZED.replace(b"\r\n", b"\n", 4)],
    ids=["a length", "chunks", "after interim ones", "bare line feeds"],
)
@given(cuts=st.lists(st.integers(0, 400), max_size=8))
def test_an_answer_is_the_same_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    reader = AnswerReader()
    answer = read(*in_pieces(data, cuts), reader=reader)
    assert answer is not None
    assert (answer.status, answer.headers["date"], answer.body) == (200, "now", BODY)
    assert not reader.is_last


@pytest.mark.parametrize(
    "data",
    [SIZED, CHUNKED, INTERIM + SIZED, EMPTY],
    ids=["a length", "chunks", "after interim ones", "no body"],
)
def test_an_answer_is_read_byte_by_byte_and_not_complete_before_its_last(data: bytes) -> None:
    pieces = [data[at : at + 1] for at in range(len(data))]
    assert read(*pieces[:-1]) is None
    assert read(*pieces) is not None


@pytest.mark.parametrize(
    "data",
    [SIZED, CHUNKED, INTERIM + SIZED],
    ids=["a length", "chunks", "after interim ones"],
)
def test_an_answer_whose_connection_ends_early_is_broken(data: bytes) -> None:
    for end in range(len(data)):
        reader = AnswerReader()
        assert reader.feed(data[:end]) is None
        with pytest.raises(AnswerBroken):
            reader.end()


def test_a_body_without_a_length_ends_with_its_connection() -> None:
    reader = AnswerReader()
    assert read(UNTIL_CLOSED[:-3], UNTIL_CLOSED[-3:], reader=reader) is None
    assert reader.end().body == BODY
    assert reader.is_last


@pytest.mark.parametrize(
    "data",
    [
        with_header(b"Connection: close"),
        with_header(b"connection: Keep-Alive, CLOSE"),
        SIZED.replace(b"HTTP/1.1", b"HTTP/1.0"),
        SIZED + b"more",
        CHUNKED + b"more",
        CHUNKED.replace(b"Date", b"Content-Length: 5\r\nDate"),
    ],
    ids=["close", "close among others", "HTTP/1.0", "too much", "too many chunks", "two lengths"],
)
def test_a_connection_that_ends_or_is_out_of_step_is_not_for_another_request(data: bytes) -> None:
    reader = AnswerReader()
    answer = reader.feed(data)
    assert answer is not None
    assert (answer.status, answer.body) == (200, BODY)
    assert reader.is_last


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_an_answer_that_never_has_a_body_ends_with_its_head(status: bytes) -> None:
    reader = AnswerReader()
    answer = reader.feed(b"HTTP/1.1 %b\r\nContent-Length: 5\r\n\r\n" % status)
    assert answer is not None
    assert answer.body == b""


def test_a_switch_of_protocols_is_an_answer_and_the_connections_last() -> None:
    reader = AnswerReader()
    answer = reader.feed(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    assert answer is not None
    assert answer.status == 101
    assert reader.is_last


def test_a_header_that_is_repeated_has_all_its_values() -> None:
    answer = read(with_header(b"X-A: 1\r\nx-a:2\r\nX-Empty:"))
    assert answer is not None
    assert answer.headers["x-a"] == "1, 2"
    assert answer.headers["x-empty"] == ""


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
        with_header(b"no colon"),
        with_header(b": no name"),
        with_header(b" folded: line"),
        with_header(b"space : before the colon"),
        with_header(b"Content-Length: 3"),
        EMPTY.replace(b": 0", b": -1"),
        EMPTY.replace(b": 0", b": +1"),
        EMPTY.replace(b": 0", b": 1_0"),
        EMPTY.replace(b": 0", b": \xb2"),
        EMPTY.replace(b": 0", b":"),
        with_header(b"Transfer-Encoding: gzip, chunked"),
        CHUNKED_HEAD + b"\r\n",
        CHUNKED_HEAD + b"secret\r\n",
        CHUNKED_HEAD + b"-1\r\n",
        CHUNKED_HEAD + b"0x1\r\na\r\n",
        CHUNKED_HEAD + b"1\r\nab\r\n",
        CHUNKED_HEAD + b"1;" + b"e" * 2_000,
        CHUNKED_HEAD + b"0\r\na: " + b"b" * 2_000,
    ],
)
def test_what_is_no_http_is_broken_and_not_quoted(data: bytes) -> None:
    with pytest.raises(AnswerBroken) as caught:
        AnswerReader().feed(data)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\na: " + b"b" * 40_000,
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 8_000 + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000,
        EMPTY.replace(b": 0", b": 1001"),
        CHUNKED_HEAD + b"3e9\r\n",
        CHUNKED_HEAD + b"3e8\r\n" + b"x" * 1_000 + b"\r\n1\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_001,
        CHUNKED_HEAD + b"0\r\n" + b"a: b\r\n" * 8_000,
    ],
    ids=[
        "a header",
        "headers",
        "interim ones",
        "a length",
        "a chunk",
        "chunks",
        "no length",
        "trailers",
    ],
)
def test_an_answer_that_exceeds_a_bound_is_refused_as_soon_as_that_is_known(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "MAX_BYTES", 1_000)
    with pytest.raises(AnswerTooLarge):
        AnswerReader().feed(data)


_LINES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"Content-Length: 2\r\n",
        b"Content-Length: x\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"\r\n",
        b"\n",
        b"2\r\n{}\r\n",
        b"0\r\n",
        b"{}",
    ]
)


@given(st.lists(_LINES | st.binary(max_size=20), max_size=12), st.integers(1, 40))
def test_anything_is_an_answer_or_broken_and_the_pieces_change_nothing(
    lines: list[bytes], length: int
) -> None:
    data = b"".join(lines)
    results: list[HttpAnswer | None] = []
    for pieces in ([data], [data[at : at + length] for at in range(0, len(data), length)]):
        reader = AnswerReader()
        try:
            results.append(read(*pieces, reader=reader) or reader.end())
        except (AnswerBroken, AnswerTooLarge):
            results.append(None)
    assert results[0] == results[1]


def test_a_large_body_in_many_pieces_is_read_without_copying_it_for_each() -> None:
    """One of 16 MiB in pieces of 4 KiB: copied for each piece, it would be 32 GiB."""
    piece, count = b"x" * 4_096, 4_096
    for head in (
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(piece) * count),
        CHUNKED_HEAD + b"%x\r\n" % (len(piece) * count),
    ):
        answer = read(head, *[piece] * count, b"\r\n0\r\n\r\n")
        assert answer is not None
        assert len(answer.body) == len(piece) * count


def test_a_request_has_its_headers_and_its_length() -> None:
    head = head_of({"host": "here", "user-agent": "headgate"})
    assert request_of(head, b"{}") == (
        b"POST / HTTP/1.1\r\nhost: here\r\nuser-agent: headgate\r\ncontent-length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\rb"])
def test_a_header_with_a_line_break_is_not_written(value: str) -> None:
    with pytest.raises(HTTPClientError, match="a line break in a header"):
        head_of({"x-amz-security-token": value})


def test_a_header_that_http_has_no_character_for_is_not_written_and_not_quoted() -> None:
    with pytest.raises(HTTPClientError, match="a character in a header") as raised:
        head_of({"x-amz-security-token": "a token with \N{ZERO WIDTH SPACE}"})
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
