"""Any odd answer in AWS's place is an error of transport, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from botocore.config import Config

import headgate.jobs.aws.scheduler
import headgate.jobs.aws.sqs.transport
from headgate.jobs.aws.connections.clients import AnyClients
from headgate.jobs.aws.dynamo import wire
from headgate.jobs.aws.dynamo.table import AsyncDynamoTable, DynamoTable
from headgate.jobs.aws.scheduler import EventBridgeScheduler
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport, SqsTransport
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage, VisibilityChange
from headgate.jobs.errors import TransportError
from tests.support.environment import with_test_credentials

_MESSAGE = (
    '{"MessageId": "1", "ReceiptHandle": "r", "Body": "secret",'
    ' "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1790000000000"}}'
)

ODD = {
    "no UTF-8": b"\xff\xfe\xfd",
    "a string": b'"Service Unavailable"',
    "a list": b"[]",
    "null": b"null",
    "a number": b"1e999",
    "a page": b"<html><h1>503</h1></html>",
    "nothing": b"",
    "half": b'{"Messages": [{"MessageId"',
    "too deep": b'{"Messages":' + b"[" * 100_000,
    "deep with nulls": b'{"a":' * 900 + b"null" + b"}" * 900,
    "an empty message": b'{"Messages": [{}]}',
    "messages of another kind": b'{"Messages": 5, "Successful": 5, "UnprocessedItems": 5}',
    "members of another kind": b'{"Messages": ["a"], "Failed": [1], "Items": [[]], "Item": "a"}',
    "failures without a code": b'{"Failed": [{"Id": "0"}], "QueueUrl": 5, "Item": {"pk": {}}}',
    "a body that is none": _MESSAGE.replace('"secret"', "null")
    .join(['{"Messages": [', "]}"])
    .encode(),
    "a time beyond time": _MESSAGE.replace("1790000000000", "9" * 30)
    .join(['{"Messages": [', "]}"])
    .encode(),
    "a binary of gzip": b"\x1f\x8b\x08\x00" + bytes(range(64)),
}


ONE_TRY = Config(retries={"mode": "standard", "total_max_attempts": 1})
"""Settings of botocore with which nothing is waited for."""


@dataclass
class OddServer:
    """Answers everything alike; ``GetQueueUrl`` properly, unless that is to be odd as well."""

    url: str = ""
    status: int = 200
    body: bytes = b""
    resolves: bool = True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OddServer]:
    odd = OddServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one write an answer: else its body waits 40 ms for its head to be confirmed

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = odd.status, odd.body
            if odd.resolves and self.headers.get("X-Amz-Target", "").endswith("GetQueueUrl"):
                status, body = 200, f'{{"QueueUrl": "{odd.url}/queue/q"}}'.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - what BaseHTTPRequestHandler asks for

        def log_message(self, *_: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, name="odd-server", daemon=True)
    thread.start()
    odd.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    with pytest.MonkeyPatch.context() as environment:
        with_test_credentials(environment, tmp_path_factory.mktemp("nowhere"))
        yield odd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def each_odd_answer(server: OddServer) -> Iterator[str]:
    """Have the server give each answer in turn; yield its name."""
    for status in (200, 400, 503):
        for name, body in ODD.items():
            server.status, server.body, server.resolves = status, body, True
            yield f"{status} with {name}"


@contextmanager
def at_worst_unanswered(answer: str) -> Iterator[None]:
    """Check that anything the block raises is an error of transport that quotes no payload."""
    try:
        yield
    except TransportError as error:
        quotes = "secret" in str(error)
        if quotes:
            raise AssertionError(f"{answer}: the error quotes a payload") from error
    except Exception as error:
        raise AssertionError(f"{answer}: {type(error).__name__}") from error


@pytest.mark.parametrize("lean", [True, False], ids=["lean", "aiobotocore"])
async def test_sqs_raises_nothing_but_transport_errors(
    server: OddServer, monkeypatch: pytest.MonkeyPatch, lean: bool
) -> None:
    monkeypatch.setattr(headgate.jobs.aws.sqs.transport, "_ATTEMPTS", 1)
    change = VisibilityChange(receipt="r", timeout_s=1)
    async with AsyncSqsTransport(endpoint_url=server.url, lean=lean) as sqs:
        for answer in each_odd_answer(server):
            batches: tuple[Callable[[], Awaitable[list[EntryFailure]]], ...] = (
                lambda: sqs.send("q", [OutgoingMessage(body="secret")]),
                lambda: sqs.delete("q", ["r"]),
                lambda: sqs.change_visibility("q", [change]),
            )
            for call in batches:
                with at_worst_unanswered(answer):
                    failures = await call()
                    assert [each.index for each in failures] == [0], "unconfirmed is failed"
            with at_worst_unanswered(answer):
                assert await sqs.receive("q", limit=10, wait_s=0) == []
            with at_worst_unanswered(answer):
                await sqs.depth("q")
            server.resolves = False
            with at_worst_unanswered(answer):
                await sqs.send(f"new for {answer}", [OutgoingMessage(body="secret")])


@pytest.mark.parametrize("lean", [True, False], ids=["lean", "boto3"])
def test_synchronous_sqs_raises_nothing_but_transport_errors(
    server: OddServer, monkeypatch: pytest.MonkeyPatch, lean: bool
) -> None:
    monkeypatch.setattr(headgate.jobs.aws.sqs.transport, "_ATTEMPTS", 1)
    change = VisibilityChange(receipt="r", timeout_s=1)
    with SqsTransport(endpoint_url=server.url, lean=lean) as sqs:
        for answer in each_odd_answer(server):
            batches: tuple[Callable[[], list[EntryFailure]], ...] = (
                lambda: sqs.send("q", [OutgoingMessage(body="secret")]),
                lambda: sqs.delete("q", ["r"]),
                lambda: sqs.change_visibility("q", [change]),
            )
            for call in batches:
                with at_worst_unanswered(answer):
                    assert [each.index for each in call()] == [0], "unconfirmed is failed"
            with at_worst_unanswered(answer):
                assert sqs.receive("q", limit=10, wait_s=0) == []
            with at_worst_unanswered(answer):
                sqs.depth("q")
            server.resolves = False
            with at_worst_unanswered(answer):
                sqs.send(f"new for {answer}", [OutgoingMessage(body="secret")])


@pytest.mark.parametrize("lean", [True, False], ids=["lean", "aiobotocore"])
async def test_the_table_raises_nothing_but_transport_errors(
    server: OddServer, monkeypatch: pytest.MonkeyPatch, lean: bool
) -> None:
    monkeypatch.setattr(wire, "ATTEMPTS", 1)
    table = AsyncDynamoTable("t", endpoint_url=server.url, lean=lean)
    item = Item(pk="a", sk="b", data={"text": "secret"}, version=1)
    calls: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: table.put([item]),
        lambda: table.get("a", "b"),
        lambda: table.query("a"),
        lambda: table.lines("a"),
        lambda: table.delete([("a", "b")]),
        lambda: table.replace(item),
    )
    async with table:
        for answer in each_odd_answer(server):
            for call in calls:
                with at_worst_unanswered(answer):
                    await call()


@pytest.mark.parametrize("lean", [True, False], ids=["lean", "boto3"])
def test_the_synchronous_table_raises_nothing_but_transport_errors(
    server: OddServer, monkeypatch: pytest.MonkeyPatch, lean: bool
) -> None:
    monkeypatch.setattr(wire, "ATTEMPTS", 1)
    with DynamoTable("t", endpoint_url=server.url, lean=lean) as table:
        calls: tuple[Callable[[], object], ...] = (
            lambda: table.put([Item(pk="a", sk="b")]),
            lambda: table.get("a", "b"),
            lambda: table.query("a"),
        )
        for answer in each_odd_answer(server):
            for call in calls:
                with at_worst_unanswered(answer):
                    call()


def test_the_scheduler_raises_nothing_but_transport_errors(
    server: OddServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = EventBridgeScheduler(endpoint_url=server.url, config=ONE_TRY)

    async def identity(_clients: AnyClients, _target: str) -> dict[str, str]:
        return {"Account": "1", "Arn": "arn:aws:iam::1:user/ada"}

    monkeypatch.setattr(headgate.jobs.aws.scheduler, "caller_identity", identity)
    with scheduler:
        for answer in each_odd_answer(server):
            with at_worst_unanswered(answer):
                scheduler.get("g", "n")
            with at_worst_unanswered(answer):
                scheduler.names("g", prefix="n")


async def test_one_message_that_cannot_be_read_hides_no_other(
    server: OddServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.status, server.resolves = 200, True
    server.body = '{"Messages": [{"Body": "secret"}, %s]}'.replace("%s", _MESSAGE).encode()
    async with AsyncSqsTransport(endpoint_url=server.url) as sqs:
        [message] = await sqs.receive("q", limit=10, wait_s=0)
    assert message.body == "secret"
    [record] = caplog.records
    assert "secret" not in record.getMessage()


async def test_one_item_that_nothing_of_ours_wrote_hides_no_other(server: OddServer) -> None:
    server.status = 200
    server.body = b'{"Items": [{"pk": {"S": "a"}}, {"pk": {"S": "a"}, "sk": {"S": "b"}}]}'
    async with AsyncDynamoTable("t", endpoint_url=server.url) as table:
        [item] = await table.query("a")
    assert item.sk == "b"
