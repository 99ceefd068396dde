"""`LeanCaller` against a scripted server, in an event loop and in threads."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

import pytest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
)
from botocore.parsers import ResponseParserError

from headgate.jobs.aws.connections.connection import Connection, async_aws_client
from headgate.jobs.aws.connections.faults import fault
from headgate.jobs.aws.lean import http1
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport, SqsTransport
from headgate.jobs.core.ports.transport import VisibilityChange
from headgate.jobs.errors import CredentialsMissing, ServiceUnavailable
from tests.support.environment import with_test_credentials
from tests.support.lean_calls import (
    KINDS,
    NOON,
    SKEWED,
    Kind,
    Opener,
    Reply,
    ScriptedServer,
    SetClock,
    StoppedClock,
    serving,
)
from tests.support.ports import NOWHERE


@pytest.fixture(params=KINDS)
def calling(request: pytest.FixtureRequest) -> Opener:
    return Opener(request.param)


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_test_credentials(monkeypatch, tmp_path)


# --- a call --------------------------------------------------------------------------------------


async def test_a_call_is_a_signed_post_of_json_to_the_endpoints_root(calling: Opener) -> None:
    async with serving(Reply(body={"Successful": []})) as server, calling(server) as (caller, _):
        url = "https://elsewhere.example/1/queue"
        answer = await caller.call("DeleteMessageBatch", {"QueueUrl": url, "Entries": []})
    assert answer == {"Successful": []}
    [headers] = server.headers
    assert headers["host"] == urlsplit(server.url).netloc
    assert headers["x-amz-target"] == "AmazonSQS.DeleteMessageBatch"
    assert headers["content-type"] == "application/x-amz-json-1.0"
    assert headers["x-amz-date"] == "20300102T120000Z"
    assert headers["x-amz-security-token"] == "token-of-AKID"
    assert headers["user-agent"] == "headgate"
    assert json.loads(server.bodies[0]) == {"QueueUrl": url, "Entries": []}


async def test_credentials_that_were_refreshed_between_two_calls_sign_the_second(
    calling: Opener,
) -> None:
    async with (
        serving(Reply(), Reply()) as server,
        calling(server, "OLD", "NEW") as (caller, _),
    ):
        await caller.call("ReceiveMessage", {})
        await caller.call("ReceiveMessage", {})
    assert server.keys() == ["OLD", "NEW"]
    assert server.headers[1]["x-amz-security-token"] == "token-of-NEW"


async def test_what_is_null_in_a_response_is_left_out_as_botocore_does(calling: Opener) -> None:
    body = {"Messages": [{"Body": "null", "MessageAttributes": None}], "Failed": None}
    async with serving(Reply(body=body)) as server, calling(server) as (caller, _):
        assert await caller.call("ReceiveMessage", {}) == {"Messages": [{"Body": "null"}]}


async def test_half_a_surrogate_pair_is_left_to_sqs_to_refuse(calling: Opener) -> None:
    body = b'{"said": "\\ud800"}'
    async with serving(Reply(body=body)) as server, calling(server) as (caller, _):
        answer = await caller.call("SendMessageBatch", {"body": "\ud800"})
    assert answer == {"said": "\ud800"}
    assert json.loads(server.bodies[0]) == {"body": "\ud800"}


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(status=400, body={"__type": "com.amazonaws.sqs#QueueDoesNotExist"}), None),
        (
            Reply(
                status=400,
                body={"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no"},
                headers={"x-amzn-query-error": "AWS.SimpleQueueService.NonExistentQueue;Sender"},
            ),
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
        (Reply(status=413, body=b"<h1>too large</h1>"), "413"),
        (Reply(status=302, headers={"Location": "/elsewhere"}), "302"),
    ],
    ids=["a type", "a code of the query protocol", "a page", "a redirect"],
)
async def test_a_refusal_has_the_code_that_botocore_reads(
    calling: Opener, reply: Reply, code: str | None
) -> None:
    async with serving(reply) as server, calling(server) as (caller, _):
        with pytest.raises(ClientError) as caught:
            await caller.call("SendMessageBatch", {})
    response = caught.value.response
    assert response["Error"]["Code"] == (code or "QueueDoesNotExist")
    assert response["ResponseMetadata"]["HTTPStatusCode"] == reply.status
    assert len(server.headers) == 1
    assert "secret-of" not in str(caught.value) + repr(response)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b""])
async def test_an_answer_that_is_no_json_object_is_no_answer(calling: Opener, body: bytes) -> None:
    async with serving(Reply(body=body)) as server, calling(server, attempts=1) as (caller, _):
        with pytest.raises(ResponseParserError):
            await caller.call("ReceiveMessage", {})


async def test_an_answer_whose_checksum_is_another_is_no_answer(calling: Opener) -> None:
    wrong = Reply(headers={"x-amz-crc32": "1"})
    right = Reply(headers={"x-amz-crc32": str(crc32(b"{}"))})
    async with serving(wrong, right) as server, calling(server, attempts=1) as (caller, _):
        with pytest.raises(ResponseParserError, match="checksum"):
            await caller.call("GetItem", {})
        assert await caller.call("GetItem", {}) == {}


async def test_a_refused_condition_has_the_item_that_is_there(calling: Opener) -> None:
    item = {"pk": {"S": "a"}}
    body = {"__type": "com.amazonaws#ConditionalCheckFailedException", "Item": item}
    async with serving(Reply(status=400, body=body)) as server, calling(server) as (caller, _):
        with pytest.raises(ClientError) as caught:
            await caller.call("PutItem", {})
    response: Any = caught.value.response
    assert response["Error"]["Code"] == "ConditionalCheckFailedException"
    assert response["Item"] == item


# --- retries -------------------------------------------------------------------------------------

PASSING = {
    "throttled": Reply(status=400, body={"__type": "RequestThrottled"}),
    "failed": Reply(status=500),
    "hung up": Reply(hangs_up=True),
}


@pytest.mark.parametrize("reply", PASSING.values(), ids=PASSING)
async def test_a_call_is_made_three_times_with_a_jittered_pause_between(
    calling: Opener, reply: Reply
) -> None:
    async with (
        serving(reply, reply, Reply(body={"a": 1})) as server,
        calling(server) as (caller, pauses),
    ):
        assert await caller.call("SendMessageBatch", {}) == {"a": 1}
    rng = random.Random(1)  # noqa: S311  repeatable
    base_s = 1 if reply is PASSING["throttled"] else 0.05
    assert pauses == [rng.random() * base_s, rng.random() * base_s * 2]


@pytest.mark.parametrize("reply", PASSING.values(), ids=PASSING)
async def test_the_last_try_that_fails_says_why(calling: Opener, reply: Reply) -> None:
    async with serving(*[reply] * 3) as server, calling(server) as (caller, _):
        with pytest.raises((ClientError, ConnectionClosedError)):
            await caller.call("SendMessageBatch", {})
    assert len(server.headers) == 3


async def test_a_poll_is_made_once(calling: Opener) -> None:
    async with (
        serving(Reply(status=500)) as server,
        calling(server, attempts=1) as (caller, pauses),
    ):
        with pytest.raises(ClientError):
            await caller.call("ReceiveMessage", {})
    assert pauses == []


async def test_an_answer_that_does_not_come_in_time_is_given_up(calling: Opener) -> None:
    async with (
        serving(Reply(silent=True)) as server,
        calling(server, attempts=1, read_timeout_s=0.05) as (caller, _),
    ):
        with pytest.raises(ReadTimeoutError):
            await caller.call("ReceiveMessage", {})


@asynccontextmanager
async def dripping() -> AsyncIterator[str]:
    """Yield the URL of a server whose answers come byte by byte without end.

    It is closed once its client has hung up.
    """
    hung_up = asyncio.Event()

    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        hung_up.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        yield f"http://{host}:{port}/"
        await hung_up.wait()


async def test_an_answer_that_drips_in_is_given_up_like_a_silent_one(calling: Opener) -> None:
    async with (
        dripping() as url,
        calling(ScriptedServer([], url), attempts=1, read_timeout_s=0.2) as (caller, _),
    ):
        with pytest.raises(ReadTimeoutError):
            await caller.call("ReceiveMessage", {})


async def test_aiobotocore_gives_up_an_answer_that_drips_in_as_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    async with dripping() as url:
        connection = Connection(
            endpoint_url=url, attempts=1, connect_timeout_s=3, read_timeout_s=0.2
        )
        async with async_aws_client("dynamodb", connection) as client:
            with pytest.raises(ReadTimeoutError):
                await client.list_tables()


async def test_credentials_that_fail_in_any_way_are_missing_for_now(calling: Opener) -> None:
    class Broken:
        async def get_frozen_credentials(self) -> ReadOnlyCredentials:
            raise ValueError("secret: what the process printed")

    async with (
        serving() as server,
        calling(server, attempts=1, credentials=Broken()) as (caller, _),
    ):
        with pytest.raises(CredentialRetrievalError) as caught:
            await caller.call("ReceiveMessage", {})
    known = fault(caught.value, action="sqs:ReceiveMessage", target="q")
    assert isinstance(known, CredentialsMissing)
    assert "secret" not in str(known)


@pytest.mark.parametrize("announced", [True, False])
async def test_an_answer_that_is_larger_than_any_of_awss_is_cut_off(
    calling: Opener, announced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "MAX_BYTES", 1_000)
    fits = json.dumps({"Messages": "x" * 900}).encode()
    replies = [Reply(body=fits, chunked=not announced)]
    replies += [Reply(body=b"x" * 2_000_000, chunked=not announced)] * 2
    async with serving(*replies) as server, calling(server, attempts=2) as (caller, _):
        assert len((await caller.call("ReceiveMessage", {}))["Messages"]) == 900
        with pytest.raises(HTTPClientError, match="the answer has over 1,000 bytes") as caught:
            await caller.call("ReceiveMessage", {})
    known = fault(caught.value, action="sqs:ReceiveMessage", target="q")
    assert isinstance(known, ServiceUnavailable)
    assert len(server.headers) == 3


async def test_an_endpoint_that_is_down_is_named(calling: Opener) -> None:
    async with calling(ScriptedServer([], f"{NOWHERE}/"), attempts=1) as (caller, _):
        with pytest.raises(EndpointConnectionError, match=r"127\.0\.0\.1"):
            await caller.call("ReceiveMessage", {})


# --- a wrong clock -------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [-2, 2])
async def test_with_a_clock_that_is_wrong_requests_are_signed_by_awss(
    calling: Opener, hours: int
) -> None:
    theirs = NOON + timedelta(hours=hours)
    refused = Reply(status=403, body=SKEWED, date=theirs)
    async with (
        serving(refused, Reply(), Reply()) as server,
        calling(server, attempts=1) as (caller, _),
    ):
        await caller.call("ReceiveMessage", {})
        await caller.call("ReceiveMessage", {})
    assert server.times() == [f"{at:%Y%m%dT%H%M%SZ}" for at in (NOON, theirs, theirs)]


async def test_requests_refused_together_for_a_wrong_clock_are_all_signed_anew(
    calling: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = NOON + timedelta(minutes=10)
    refused = Reply(status=403, body=SKEWED, date=theirs, once_asked=3)
    async with (
        serving(*[refused] * 3, *[Reply()] * 3) as server,
        calling(server, attempts=1) as (caller, _),
    ):
        await asyncio.gather(*(caller.call("ReceiveMessage", {}) for _ in range(3)))
    assert server.times() == [f"{at:%Y%m%dT%H%M%SZ}" for at in [NOON] * 3 + [theirs] * 3]
    assert "this machine's clock is 10 minutes behind AWS's" in caplog.text


async def test_a_request_under_way_while_the_clock_is_set_right_is_signed_anew(
    calling: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = NOON - timedelta(minutes=10)
    refused = Reply(status=403, body=SKEWED, date=NOON)
    async with (
        serving(refused, Reply()) as server,
        calling(server, attempts=1, clock=SetClock(wrong, NOON)) as (caller, _),
    ):
        await caller.call("ReceiveMessage", {})
    assert server.times() == [f"{at:%Y%m%dT%H%M%SZ}" for at in (wrong, NOON)]
    assert "clock" not in caplog.text, "it is right now"


async def test_once_the_clock_is_set_right_requests_are_signed_by_it_again(
    calling: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = NOON + timedelta(minutes=10)
    replies = [Reply(status=403, body=SKEWED, date=date) for date in (theirs, NOON)]
    with caplog.at_level(logging.INFO, "headgate.aws"):
        async with (
            serving(replies[0], Reply(), replies[1], Reply()) as server,
            calling(server, attempts=1) as (caller, _),
        ):
            await caller.call("ReceiveMessage", {})
            await caller.call("ReceiveMessage", {})
    assert server.times() == [f"{at:%Y%m%dT%H%M%SZ}" for at in (NOON, theirs, theirs, NOON)]
    assert "clock agrees with AWS's again" in caplog.messages[-1]


@pytest.mark.parametrize(
    ("replies", "requests"),
    [
        ([Reply(status=403, body=SKEWED)], 1),
        ([Reply(status=403, body=SKEWED, headers={"Date": "today"})], 1),
        ([Reply(status=403, body=SKEWED, date=NOON + timedelta(hours=25))], 1),
        ([Reply(status=403, body=SKEWED, date=NOON - timedelta(days=3_650))], 1),
        ([Reply(status=403, body=SKEWED, date=NOON + timedelta(hours=1))] * 2, 2),
    ],
    ids=["the clocks agree", "no date", "a day on", "ten years ago", "it is refused again"],
)
async def test_a_signature_refused_for_another_reason_is_not_retried_forever(
    calling: Opener, replies: Sequence[Reply], requests: int
) -> None:
    async with serving(*replies) as server, calling(server) as (caller, _):
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            await caller.call("ReceiveMessage", {})
    assert len(server.headers) == requests


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_clock_that_is_off_from_the_start_is_learnt_at_get_queue_url(
    caplog: pytest.LogCaptureFixture, kind: Kind
) -> None:
    theirs = NOON + timedelta(minutes=10)
    refused = Reply(status=403, body=SKEWED, date=theirs)
    replies = [refused, Reply(body={"QueueUrl": "http://queue"}), Reply(body={"Successful": []})]
    change = VisibilityChange(receipt="receipt", timeout_s=0)
    async with serving(*replies) as server:
        if kind == "event loop":
            async with AsyncSqsTransport(endpoint_url=server.url, clock=StoppedClock()) as sqs:
                await sqs.change_visibility("queue", [change])
        else:
            with SqsTransport(endpoint_url=server.url, clock=StoppedClock()) as blocking:
                await asyncio.to_thread(blocking.change_visibility, "queue", [change])
    assert server.times() == [f"{at:%Y%m%dT%H%M%SZ}" for at in (NOON, theirs, theirs)]
    assert "this machine's clock is 10 minutes behind AWS's" in caplog.text


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(("minutes", "way"), [(10, "behind"), (-10, "ahead of")])
async def test_a_refusal_names_the_clock_that_caused_it(minutes: int, way: str) -> None:
    theirs = datetime.now(UTC) + timedelta(minutes=minutes, seconds=5)
    refused = Reply(status=403, body=SKEWED, date=theirs)
    async with (
        serving(*[refused] * 5) as server,
        AsyncSqsTransport(endpoint_url=server.url, lean=False) as sqs,
    ):
        with pytest.raises(CredentialsMissing, match=f"clock is 10 minutes {way} AWS's") as raised:
            await sqs.delete("queue", ["receipt"])
    assert "aws configure" not in str(raised.value)
