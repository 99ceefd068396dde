"""`LeanCaller` against a scripted server, and the cases in which aiobotocore takes over."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    CredentialRetrievalError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from botocore.httpsession import get_cert_path
from botocore.parsers import ResponseParserError
from yarl import URL

from headgate.jobs.aws.connections.connection import Connection, async_aws_client, async_session
from headgate.jobs.aws.connections.faults import fault
from headgate.jobs.aws.sqs.lean_http import LeanCaller, Route, find_route, lean_caller
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.errors import CredentialsMissing, TransportError
from tests.support.environment import REGION, with_test_credentials, without_aws

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
SKEWED = {"__type": "com.amazonaws.sqs#SignatureDoesNotMatch", "message": "Signature expired"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    body: Any = field(default_factory=dict)
    status: int = 200
    date: datetime = NOON
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False
    hangs_up: bool = False

    def response(self) -> web.Response:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        date = {"Date": format_datetime(self.date, usegmt=True)}
        return web.Response(status=self.status, body=body, headers=date | self.headers)


@dataclass(slots=True)
class Server:
    replies: list[Reply]
    url: URL = field(default_factory=URL)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.Response:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.bodies.append(await request.read())
        reply = self.replies.pop(0)
        if reply.silent:
            await self.released.wait()
        if reply.hangs_up:
            assert request.transport is not None
            request.transport.close()
        return reply.response()

    def keys(self) -> list[str]:
        """Return the access key of each request."""
        return [
            headers["authorization"].split("Credential=")[1].split("/")[0]
            for headers in self.headers
        ]


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncIterator[Server]:
    server = Server(list(replies))
    app = web.Application()
    app.router.add_post("/", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        server.url = URL(f"http://{host}:{port}/")
        yield server
    finally:
        server.released.set()
        await runner.cleanup()


class StoppedClock:
    def now(self) -> datetime:
        return NOON

    def monotonic(self) -> float:
        return 0.0


class Rotating:
    """Credentials that differ for every request."""

    def __init__(self, *keys: str) -> None:
        self._keys = list(keys)

    async def get_frozen_credentials(self) -> ReadOnlyCredentials:
        key = self._keys.pop(0) if len(self._keys) > 1 else self._keys[0]
        return ReadOnlyCredentials(key, f"secret-of-{key}", f"token-of-{key}")


def route_to(url: URL, *keys: str) -> Route:
    credentials: Any = Rotating(*(keys or ("AKID",)))
    return Route(endpoint=url, region=REGION, user_agent="headgate", credentials=credentials)


@asynccontextmanager
async def calling(
    server: Server, *keys: str, attempts: int = 3, read_timeout_s: float = 10
) -> AsyncIterator[tuple[LeanCaller, list[float]]]:
    """Yield a caller, and its pauses, none of which takes time."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    connection = Connection(attempts=attempts, read_timeout_s=read_timeout_s)
    async with lean_caller(route_to(server.url, *keys), connection, StoppedClock()) as caller:
        caller._pause = pause
        caller._rng = random.Random(1)  # noqa: S311  repeatable
        yield caller, pauses


# --- a call --------------------------------------------------------------------------------------


async def test_a_call_is_a_signed_post_of_json_to_the_endpoints_root() -> None:
    async with serving(Reply(body={"Successful": []})) as server, calling(server) as (caller, _):
        url = "https://elsewhere.example/1/queue"
        answer = await caller.call("DeleteMessageBatch", {"QueueUrl": url, "Entries": []})
    assert answer == {"Successful": []}
    [headers] = server.headers
    assert headers["host"] == f"127.0.0.1:{server.url.port}"
    assert headers["x-amz-target"] == "AmazonSQS.DeleteMessageBatch"
    assert headers["content-type"] == "application/x-amz-json-1.0"
    assert headers["x-amz-date"] == "20300102T120000Z"
    assert headers["x-amz-security-token"] == "token-of-AKID"
    assert headers["user-agent"] == "headgate"
    assert json.loads(server.bodies[0]) == {"QueueUrl": url, "Entries": []}


async def test_credentials_that_were_refreshed_between_two_calls_sign_the_second() -> None:
    async with (
        serving(Reply(), Reply()) as server,
        calling(server, "OLD", "NEW") as (caller, _),
    ):
        await caller.call("ReceiveMessage", {})
        await caller.call("ReceiveMessage", {})
    assert server.keys() == ["OLD", "NEW"]
    assert server.headers[1]["x-amz-security-token"] == "token-of-NEW"


async def test_what_is_null_in_a_response_is_left_out_as_botocore_does() -> None:
    body = {"Messages": [{"Body": "null", "MessageAttributes": None}], "Failed": None}
    async with serving(Reply(body=body)) as server, calling(server) as (caller, _):
        assert await caller.call("ReceiveMessage", {}) == {"Messages": [{"Body": "null"}]}


async def test_half_a_surrogate_pair_is_left_to_sqs_to_refuse() -> None:
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
async def test_a_refusal_has_the_code_that_botocore_reads(reply: Reply, code: str | None) -> None:
    async with serving(reply) as server, calling(server) as (caller, _):
        with pytest.raises(ClientError) as caught:
            await caller.call("SendMessageBatch", {})
    response = caught.value.response
    assert response["Error"]["Code"] == (code or "QueueDoesNotExist")
    assert response["ResponseMetadata"]["HTTPStatusCode"] == reply.status
    assert len(server.headers) == 1
    assert "secret-of" not in str(caught.value) + repr(response)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b""])
async def test_an_answer_that_is_no_json_object_is_no_answer(body: bytes) -> None:
    async with serving(Reply(body=body)) as server, calling(server, attempts=1) as (caller, _):
        with pytest.raises(ResponseParserError):
            await caller.call("ReceiveMessage", {})


# --- retries -------------------------------------------------------------------------------------

PASSING = {
    "throttled": Reply(status=400, body={"__type": "RequestThrottled"}),
    "failed": Reply(status=500),
    "hung up": Reply(hangs_up=True),
}


@pytest.mark.parametrize("reply", PASSING.values(), ids=PASSING)
async def test_a_call_is_made_three_times_with_a_jittered_pause_between(reply: Reply) -> None:
    async with (
        serving(reply, reply, Reply(body={"a": 1})) as server,
        calling(server) as (caller, pauses),
    ):
        assert await caller.call("SendMessageBatch", {}) == {"a": 1}
    rng = random.Random(1)  # noqa: S311  repeatable
    base_s = 1 if reply is PASSING["throttled"] else 0.05
    assert pauses == [rng.random() * base_s, rng.random() * base_s * 2]


@pytest.mark.parametrize("reply", PASSING.values(), ids=PASSING)
async def test_the_last_try_that_fails_says_why(reply: Reply) -> None:
    async with serving(*[reply] * 3) as server, calling(server) as (caller, _):
        with pytest.raises((ClientError, ConnectionClosedError)):
            await caller.call("SendMessageBatch", {})
    assert len(server.headers) == 3


async def test_a_poll_is_made_once() -> None:
    async with (
        serving(Reply(status=500)) as server,
        calling(server, attempts=1) as (caller, pauses),
    ):
        with pytest.raises(ClientError):
            await caller.call("ReceiveMessage", {})
    assert pauses == []


async def test_an_answer_that_does_not_come_in_time_is_given_up() -> None:
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


async def test_an_answer_that_drips_in_is_given_up_like_a_silent_one() -> None:
    connection = Connection(attempts=1, connect_timeout_s=0.2, read_timeout_s=0.2)
    async with (
        dripping() as url,
        lean_caller(route_to(URL(url)), connection, StoppedClock()) as caller,
    ):
        with pytest.raises(ReadTimeoutError):
            await caller.call("ReceiveMessage", {})


async def test_aiobotocore_gives_up_an_answer_that_drips_in_as_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    async with dripping() as url:
        connection = Connection(
            endpoint_url=url, attempts=1, connect_timeout_s=0.2, read_timeout_s=0.2
        )
        async with async_aws_client("dynamodb", connection) as client:
            with pytest.raises(ReadTimeoutError):
                await client.list_tables()


async def test_credentials_that_fail_in_any_way_are_missing_for_now() -> None:
    class Broken:
        async def get_frozen_credentials(self) -> ReadOnlyCredentials:
            raise ValueError("secret: what the process printed")

    credentials: Any = Broken()
    async with serving() as server:
        route = replace(route_to(server.url), credentials=credentials)
        async with lean_caller(route, Connection(attempts=1), StoppedClock()) as caller:
            with pytest.raises(CredentialRetrievalError) as caught:
                await caller.call("ReceiveMessage", {})
    known = fault(caught.value, action="sqs:ReceiveMessage", target="q")
    assert isinstance(known, CredentialsMissing)
    assert "secret" not in str(known)


async def test_an_endpoint_that_is_down_is_named() -> None:
    async with serving() as server:
        pass
    async with calling(server, attempts=1) as (caller, _):
        with pytest.raises(EndpointConnectionError, match=r"127\.0\.0\.1"):
            await caller.call("ReceiveMessage", {})


# --- a wrong clock -------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [-2, 2])
async def test_with_a_clock_that_is_wrong_requests_are_signed_by_awss(hours: int) -> None:
    theirs = NOON + timedelta(hours=hours)
    refused = Reply(status=403, body=SKEWED, date=theirs)
    async with (
        serving(refused, Reply(), Reply()) as server,
        calling(server, attempts=1) as (caller, _),
    ):
        await caller.call("ReceiveMessage", {})
        await caller.call("ReceiveMessage", {})
    dates = [headers["x-amz-date"] for headers in server.headers]
    assert dates == [f"{at:%Y%m%dT%H%M%SZ}" for at in (NOON, theirs, theirs)]


@pytest.mark.parametrize(
    ("replies", "requests"),
    [
        ([Reply(status=403, body=SKEWED)], 1),
        ([Reply(status=403, body=SKEWED, headers={"Date": "today"})], 1),
        ([Reply(status=403, body=SKEWED, date=NOON + timedelta(hours=1))] * 2, 2),
    ],
    ids=["the clocks agree", "no date", "it is refused again"],
)
async def test_a_signature_that_is_wrong_for_another_reason_is_not_tried_without_end(
    replies: Sequence[Reply], requests: int
) -> None:
    async with serving(*replies) as server, calling(server) as (caller, _):
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            await caller.call("ReceiveMessage", {})
    assert len(server.headers) == requests


@pytest.mark.usefixtures("_credentials")
async def test_a_clock_that_is_off_from_the_start_is_learnt_at_get_queue_url(
    caplog: pytest.LogCaptureFixture,
) -> None:
    theirs = NOON + timedelta(minutes=10)
    refused = Reply(status=403, body=SKEWED, date=theirs)
    replies = [refused, Reply(body={"QueueUrl": "http://queue"}), Reply(body={"Successful": []})]
    async with (
        serving(*replies) as server,
        AsyncSqsTransport(endpoint_url=str(server.url), clock=StoppedClock()) as sqs,
    ):
        await sqs.delete("queue", ["receipt"])
    dates = [headers["x-amz-date"] for headers in server.headers]
    assert dates == [f"{at:%Y%m%dT%H%M%SZ}" for at in (NOON, theirs, theirs)]
    assert "this machine's clock is 10 minutes behind AWS's" in caplog.text


@pytest.mark.usefixtures("_credentials")
@pytest.mark.parametrize(("minutes", "way"), [(10, "behind"), (-10, "ahead of")])
async def test_a_refusal_names_the_clock_that_caused_it(minutes: int, way: str) -> None:
    theirs = datetime.now(UTC) + timedelta(minutes=minutes, seconds=5)
    refused = Reply(status=403, body=SKEWED, date=theirs)
    async with (
        serving(*[refused] * 5) as server,
        AsyncSqsTransport(endpoint_url=str(server.url), lean=False) as sqs,
    ):
        with pytest.raises(CredentialsMissing, match=f"clock is 10 minutes {way} AWS's") as raised:
            await sqs.delete("queue", ["receipt"])
    assert "aws configure" not in str(raised.value)


# --- calls by aiobotocore ------------------------------------------------------------------------


@pytest.fixture
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def bundle_of_one(tmp_path: Path) -> Path:
    """Return the first certificate of botocore's own bundle."""
    end = "-----END CERTIFICATE-----\n"
    whole = get_cert_path(verify=True)
    assert whole is not None
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(Path(whole).read_text().split(end)[0] + end)
    return bundle


async def found(endpoint_url: str | None = None) -> Route | None:
    session = async_session()
    connection = Connection(endpoint_url=endpoint_url, region=REGION)
    async with async_aws_client("sqs", connection, session) as client:
        return await find_route(session, client)


@pytest.mark.usefixtures("_credentials")
async def test_the_route_is_botocores_endpoint_with_tls_that_verifies() -> None:
    route = await found()
    assert route is not None
    assert str(route.endpoint) == f"https://sqs.{REGION}.amazonaws.com/"
    assert route.region == REGION
    assert route.user_agent.startswith("headgate/")
    assert route.tls is not None
    assert route.tls.check_hostname
    assert route.tls.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.usefixtures("_credentials")
@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
async def test_the_ca_bundle_is_the_one_that_botocore_would_take(
    monkeypatch: pytest.MonkeyPatch, bundle_of_one: Path, variable: str
) -> None:
    monkeypatch.setenv(variable, str(bundle_of_one))
    route = await found()
    assert route is not None
    assert route.tls is not None
    assert route.tls.cert_store_stats()["x509"] == 1


@pytest.mark.usefixtures("_credentials")
async def test_a_ca_bundle_that_is_missing_is_told_of_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "nowhere.pem"))
    with pytest.raises(TransportError, match="No such file"):
        await AsyncSqsTransport(region=REGION).start()


@pytest.mark.usefixtures("_credentials")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "http://127.0.0.1:9"),
        ("AWS_LAMBDA_FUNCTION_NAME", "shop"),
        ("AWS_AUTH_SCHEME_PREFERENCE", "sigv4a"),
        ("BOTOCORE_EXPERIMENTAL__PLUGINS", "none=nowhere"),
        ("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:9/below"),
    ],
)
async def test_there_is_no_route_where_only_aiobotocore_knows_the_way(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert await found() is None


@pytest.mark.usefixtures("_credentials")
async def test_there_is_no_route_past_botocores_client_side_monitoring() -> None:
    session = async_session()
    async with async_aws_client("sqs", Connection(region=REGION), session) as client:
        session.set_config_variable("csm_enabled", value=True)
        assert await find_route(session, client) is None


@pytest.mark.usefixtures("_credentials")
async def test_a_proxy_that_is_not_for_the_endpoint_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "localhost")
    assert await found("http://localhost:9324") is not None
    assert await found("http://192.0.2.1:9324") is None


async def test_without_credentials_there_is_no_route(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    assert await found() is None


@pytest.mark.usefixtures("_credentials")
@pytest.mark.parametrize("lean", [True, False])
async def test_the_transport_makes_its_calls_either_way(lean: bool) -> None:
    replies = [Reply(body={"QueueUrl": "http://queue"}), Reply(body={"Successful": [{"Id": "0"}]})]
    async with (
        serving(*replies) as server,
        AsyncSqsTransport(endpoint_url=str(server.url), lean=lean) as sqs,
    ):
        assert await sqs.delete("queue", ["receipt"]) == []
    assert server.headers[1]["x-amz-target"] == "AmazonSQS.DeleteMessageBatch"
    assert ("amz-sdk-invocation-id" in server.headers[1]) is not lean
    differing = {"amz-sdk-invocation-id", "amz-sdk-request", "authorization", "x-amz-date"}
    assert server.headers[1].keys() - differing == server.headers[0].keys() - differing
