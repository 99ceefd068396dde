"""The proxy recognises every request once, with its action, however it is split into pieces."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.support.proxy import FailEntries
from tests.support.proxy.wire import (
    UNKNOWN,
    MessageReader,
    action,
    body,
    json_response,
    status,
    with_body,
)

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


def _messages(*pieces: bytes) -> list[bytes]:
    reader, found = MessageReader(), []
    for piece in pieces:
        reader.feed(piece)
        while (message := reader.take()) is not None:
            found.append(message)
    return found


def _actions(*pieces: bytes) -> Counter[str]:
    return Counter(action(message) for message in _messages(*pieces))


@pytest.mark.parametrize(
    ("request_bytes", "name"),
    [
        pytest.param(_JSON, "SendMessageBatch", id="json-protocol"),
        pytest.param(_FORM, "ReceiveMessage", id="query-protocol-body"),
        pytest.param(_QUERY, "ListQueues", id="query-protocol-address"),
        pytest.param(_HEALTH, UNKNOWN, id="no-action"),
    ],
)
def test_a_request_counts_for_its_action(request_bytes: bytes, name: str) -> None:
    assert _actions(request_bytes) == {name: 1}


@pytest.mark.parametrize("size", [1, 7, 64])
def test_requests_in_pieces_are_found_once_each_and_whole(size: int) -> None:
    stream = _JSON + _FORM + _JSON
    pieces = [stream[first : first + size] for first in range(0, len(stream), size)]

    assert _messages(*pieces) == [_JSON, _FORM, _JSON]
    assert _actions(*pieces) == {"SendMessageBatch": 2, "ReceiveMessage": 1}


def test_several_requests_in_one_piece_count_each() -> None:
    assert _actions(_JSON + _QUERY + _JSON) == {"SendMessageBatch": 2, "ListQueues": 1}


def test_an_unfinished_request_does_not_count() -> None:
    assert _actions(_JSON[:-1]) == {}


def test_a_body_that_names_an_action_counts_for_its_header() -> None:
    content = b"Action=DeleteMessage"
    head = (
        b"POST / HTTP/1.1\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
        b"Content-Length: %d\r\n\r\n" % len(content)
    )

    assert _actions(head + content) == {"ReceiveMessage": 1}


def test_a_reader_reports_a_client_that_expects_100_continue() -> None:
    head = b"PUT /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    reader = MessageReader()
    waiting = []
    for piece in (head[:-2], head[-2:], b"a", b"b"):
        reader.feed(piece)
        waiting.append(reader.is_kept_waiting)
    assert waiting == [False, True, False, False]
    assert reader.take() == head + b"ab"
    assert not reader.is_kept_waiting


def test_a_chunked_request_is_refused_rather_than_miscounted() -> None:
    with pytest.raises(ValueError, match="chunked"):
        _actions(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")


def test_a_response_is_read_as_a_request_is() -> None:
    response = json_response(503, {"__type": "ServiceUnavailable"})

    assert _messages(response[:20], response[20:]) == [response]
    assert status(response) == 503
    assert json.loads(body(response)) == {"__type": "ServiceUnavailable"}


def test_a_request_with_another_body_declares_its_length() -> None:
    [changed] = _messages(with_body(_JSON, {"Entries": [{"Id": "0"}]}))

    assert json.loads(body(changed)) == {"Entries": [{"Id": "0"}]}
    assert action(changed) == "SendMessageBatch"


def test_failed_entries_are_taken_out_of_a_batch_and_joined_to_its_answer() -> None:
    batch = json.dumps({"QueueUrl": "q", "Entries": [{"Id": str(each)} for each in range(3)]})
    fault = FailEntries(every=2)

    left, failures = fault.split(batch.encode())
    answer = fault.join(b'{"Successful": [{"Id": "1"}]}', failures)

    assert left == {"QueueUrl": "q", "Entries": [{"Id": "1"}]}
    assert answer["Successful"] == [{"Id": "1"}]
    assert [failure["Id"] for failure in answer["Failed"]] == ["0", "2"]
