"""The benchmarks' proxy counts every request once, whatever the pieces that it comes in."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.proxy import UNKNOWN, RequestReader

_JSON = (
    b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.SendMessageBatch\r\n"
    b'Content-Length: 15\r\n\r\n{"Entries": []}'
)
_FORM = (
    b"POST /000000000000/queue HTTP/1.1\r\nHost: localhost\r\ncontent-length: 34\r\n\r\n"
    b"Version=2012&Action=ReceiveMessage"
)
_QUERY = b"GET /?Action=ListQueues&Version=2012 HTTP/1.1\r\nHost: localhost\r\n\r\n"
_HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def _actions(*pieces: bytes) -> Counter[str]:
    counts: Counter[str] = Counter()
    reader = RequestReader(lambda action: counts.update([action]))
    for piece in pieces:
        reader.feed(piece)
    return counts


@pytest.mark.parametrize(
    ("request_bytes", "action"),
    [
        pytest.param(_JSON, "SendMessageBatch", id="json-protocol"),
        pytest.param(_FORM, "ReceiveMessage", id="query-protocol-body"),
        pytest.param(_QUERY, "ListQueues", id="query-protocol-address"),
        pytest.param(_HEALTH, UNKNOWN, id="no-action"),
    ],
)
def test_a_request_counts_for_its_action(request_bytes: bytes, action: str) -> None:
    assert _actions(request_bytes) == {action: 1}


@pytest.mark.parametrize("size", [1, 7, 64])
def test_requests_in_pieces_count_once_each(size: int) -> None:
    stream = _JSON + _FORM + _JSON
    pieces = [stream[first : first + size] for first in range(0, len(stream), size)]

    assert _actions(*pieces) == {"SendMessageBatch": 2, "ReceiveMessage": 1}


def test_several_requests_in_one_piece_count_each() -> None:
    assert _actions(_JSON + _QUERY + _JSON) == {"SendMessageBatch": 2, "ListQueues": 1}


def test_an_unfinished_request_does_not_count() -> None:
    assert _actions(_JSON[:-1]) == {}


def test_a_body_that_names_an_action_counts_for_its_header() -> None:
    body = b"Action=DeleteMessage"
    head = (
        b"POST / HTTP/1.1\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    )

    assert _actions(head + body) == {"ReceiveMessage": 1}


def test_a_chunked_request_is_refused_rather_than_miscounted() -> None:
    with pytest.raises(ValueError, match="chunked"):
        _actions(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
