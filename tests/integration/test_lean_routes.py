"""The cases in which botocore's own client makes the calls, and those in which it need not."""

from __future__ import annotations

import asyncio
import importlib
import logging
import ssl
import unittest.mock
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import botocore.client
import botocore.handlers
import pytest
from aiobotocore.client import AioBaseClient
from botocore.awsrequest import AWSPreparedRequest
from botocore.config import Config
from botocore.httpsession import get_cert_path

from headgate import App
from headgate.jobs.aws.backend import AwsBackend
from headgate.jobs.aws.connections import bounded_credentials
from headgate.jobs.aws.connections.connection import (
    Connection,
    SharedSession,
    async_aws_client,
    async_session,
    aws_client,
)
from headgate.jobs.aws.lean.async_opening import find_async_route
from headgate.jobs.aws.lean.opening import find_route
from headgate.jobs.aws.lean.route import Route
from headgate.jobs.aws.lean.services import DYNAMODB, SQS, JsonService
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport, SqsTransport
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import TransportError
from tests.support.environment import REGION, with_test_credentials, without_aws
from tests.support.lean_calls import KINDS, Reply, serving

Find = Callable[[Connection], Awaitable[Route | None]]

OURS = Connection(region=REGION)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_test_credentials(monkeypatch, tmp_path)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def in_an_event_loop(connection: Connection) -> Route | None:
    session = async_session(connection.session)
    async with async_aws_client("sqs", connection, session) as client:
        return await find_async_route(SQS, connection, session, client)


async def for_threads(connection: Connection) -> Route | None:
    connection = replace(connection, shared=SharedSession())
    core = connection.shared.core() if connection.session is None else None
    with closing(aws_client("sqs", connection)) as client:
        return find_route(SQS, connection, core, client)


@pytest.fixture(params=[in_an_event_loop, for_threads], ids=KINDS)
def find(request: pytest.FixtureRequest) -> Find:
    found: Find = request.param
    return found


@pytest.fixture
def bundle_of_one(tmp_path: Path) -> Path:
    """Return the first certificate of botocore's own bundle."""
    end = "-----END CERTIFICATE-----\n"
    whole = get_cert_path(verify=True)
    assert whole is not None
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(Path(whole).read_text().split(end)[0] + end)
    return bundle


# --- a route -------------------------------------------------------------------------------------


async def test_the_route_is_botocores_endpoint_with_tls_that_verifies(find: Find) -> None:
    route = await find(OURS)
    assert route is not None
    assert str(route.endpoint) == f"https://sqs.{REGION}.amazonaws.com/"
    assert route.region == REGION
    assert route.user_agent.startswith("headgate/")
    assert route.tls is not None
    assert route.tls.check_hostname
    assert route.tls.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("variable", "host"),
    [
        ("AWS_USE_DUALSTACK_ENDPOINT", f"sqs.{REGION}.api.aws"),
        ("AWS_USE_FIPS_ENDPOINT", f"sqs-fips.{REGION}.amazonaws.com"),
    ],
)
async def test_a_dualstack_or_fips_endpoint_is_the_one_that_botocore_finds(
    find: Find, monkeypatch: pytest.MonkeyPatch, variable: str, host: str
) -> None:
    monkeypatch.setenv(variable, "true")
    route = await find(OURS)
    assert route is not None
    assert route.endpoint.host == host


class Kept(Exception):
    """A request that is not sent."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


def keep(request: AWSPreparedRequest, **_: Any) -> None:
    raise Kept(request.url)


@pytest.mark.parametrize(
    ("region", "variable"),
    [
        ("us-iso-east-1", "AWS_USE_FIPS_ENDPOINT"),
        ("us-iso-east-1", "AWS_USE_DUALSTACK_ENDPOINT"),
        ("us-isob-east-1", "AWS_USE_DUALSTACK_ENDPOINT"),
        ("us-gov-west-1", "AWS_USE_FIPS_ENDPOINT"),
        ("cn-north-1", "AWS_USE_DUALSTACK_ENDPOINT"),
    ],
)
@pytest.mark.parametrize(
    ("service", "call"),
    [(SQS, lambda sdk: sdk.list_queues()), (DYNAMODB, lambda sdk: sdk.list_tables())],
    ids=["sqs", "dynamodb"],
)
def test_in_every_partition_the_route_leads_where_botocores_calls_go(
    monkeypatch: pytest.MonkeyPatch,
    service: JsonService,
    call: Callable[[Any], Any],
    region: str,
    variable: str,
) -> None:
    monkeypatch.setenv(variable, "true")
    connection = replace(OURS, region=region, shared=SharedSession())
    with closing(aws_client(service.name, connection)) as sdk:
        route = find_route(service, connection, connection.shared.core(), sdk)
        sdk.meta.events.register("before-send", keep)
        with pytest.raises(Kept) as sent:
            call(sdk)
    assert route is not None
    assert str(route.endpoint) == sent.value.url


async def test_credentials_that_name_their_account_leave_the_endpoint_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCOUNT_ID", "123456789012")
    connection = replace(OURS, shared=SharedSession())
    with closing(aws_client("dynamodb", connection)) as sdk:
        route = find_route(DYNAMODB, connection, connection.shared.core(), sdk)
    assert route is not None
    assert route.endpoint.host == f"dynamodb.{REGION}.amazonaws.com"


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://vpce-1.sqs.eu-west-1.vpce.amazonaws.com", None),
        ("http://localhost:9324", "localhost:9324"),
        ("http://[::1]:9324/", "[::1]:9324"),
        ("http://127.0.0.1:80", "127.0.0.1"),
    ],
)
async def test_the_host_header_has_the_port_unless_it_is_the_schemes(
    find: Find, url: str, authority: str | None
) -> None:
    route = await find(replace(OURS, endpoint_url=url))
    assert route is not None
    assert route.endpoint.authority == (authority or url.removeprefix("https://"))


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
async def test_the_ca_bundle_is_the_one_that_botocore_would_take(
    find: Find, monkeypatch: pytest.MonkeyPatch, bundle_of_one: Path, variable: str
) -> None:
    monkeypatch.setenv(variable, str(bundle_of_one))
    route = await find(OURS)
    assert route is not None
    assert route.tls is not None
    assert route.tls.cert_store_stats()["x509"] == 1


async def test_a_ca_bundle_that_is_missing_is_told_of_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "nowhere.pem"))
    with pytest.raises(TransportError, match="No such file"):
        await AsyncSqsTransport(region=REGION).start()
    with (
        SqsTransport(region=REGION) as blocking,
        pytest.raises(TransportError, match="No such file"),
    ):
        blocking.depth("any")


async def test_a_proxy_that_is_not_for_the_endpoint_changes_nothing(
    find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "localhost")
    monkeypatch.setenv("HEADGATE_ALLOW_HTTP", "1")
    assert await find(replace(OURS, endpoint_url="http://localhost:9324")) is not None
    assert await find(replace(OURS, endpoint_url="http://192.0.2.1:9324")) is None


# --- none ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("HEADGATE_SDK_CALLS", "1", "HEADGATE_SDK_CALLS asks for it"),
        ("HTTPS_PROXY", "http://127.0.0.1:9", "it goes through a proxy"),
        ("AWS_LAMBDA_FUNCTION_NAME", "shop", "requests of a function carry its trace"),
        ("AWS_AUTH_SCHEME_PREFERENCE", "sigv4a", "its signature is not SigV4"),
        ("AWS_ACCOUNT_ID_ENDPOINT_MODE", "required", "its endpoint differs by account"),
        ("BOTOCORE_EXPERIMENTAL__PLUGINS", "none=nowhere", "botocore has plugins"),
        ("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:9/below", "its endpoint is more than a host"),
    ],
)
async def test_where_only_botocore_knows_the_way_a_debug_line_says_why(
    find: Find,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    value: str,
    reason: str,
) -> None:
    monkeypatch.setenv(name, value)
    caplog.set_level(logging.DEBUG, "headgate.aws")
    assert await find(OURS) is None
    assert f"using botocore's client for sqs: {reason}" in caplog.text


async def test_there_is_no_route_past_botocores_client_side_monitoring() -> None:
    session, connection = async_session(), replace(OURS, shared=SharedSession())
    async with async_aws_client("sqs", OURS, session) as client:
        session.set_config_variable("csm_enabled", value=True)
        assert await find_async_route(SQS, OURS, session, client) is None
    core = connection.shared.core()
    with closing(aws_client("sqs", connection)) as client:
        core.set_config_variable("csm_enabled", value=True)
        assert find_route(SQS, connection, core, client) is None


async def test_without_credentials_there_is_no_route(
    find: Find, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    assert await find(OURS) is None


async def test_with_settings_of_the_users_own_there_is_no_route(find: Find) -> None:
    assert await find(replace(OURS, config=Config(read_timeout=5))) is None


async def test_a_boto3_session_of_the_users_own_makes_its_calls_itself() -> None:
    session = boto3.Session(region_name=REGION)
    assert await for_threads(replace(OURS, session=session)) is None


class Mock:
    """Handles botocore's events as moto does, by an object in the list of built-in handlers."""

    def __call__(self, **_: Any) -> None: ...


@pytest.mark.parametrize(
    "event",
    [
        "before-send",
        "before-send.sqs.SendMessageBatch",
        "before-endpoint-resolution.sqs",
        "request-created",
        "after-call.sqs",
    ],
)
async def test_a_handler_of_somebody_elses_sees_the_calls_that_it_asked_for(
    find: Find, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    handlers = [*botocore.handlers.BUILTIN_HANDLERS, (event, Mock())]
    monkeypatch.setattr(botocore.handlers, "BUILTIN_HANDLERS", handlers)
    assert await find(OURS) is None


async def test_a_handler_of_other_services_events_changes_nothing(
    find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = [*botocore.handlers.BUILTIN_HANDLERS, ("before-send.s3.PutObject", Mock())]
    monkeypatch.setattr(botocore.handlers, "BUILTIN_HANDLERS", handlers)
    assert await find(OURS) is not None


async def test_powertools_which_adds_to_the_user_agent_alone_changes_nothing(find: Find) -> None:
    importlib.import_module("aws_lambda_powertools")
    assert await find(OURS) is not None


async def test_a_wrapper_around_botocores_calls_is_not_gone_around(
    find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    def traced(self: Any, *args: Any) -> Any:
        raise NotImplementedError  # a stand-in: it is looked at, and never called

    for owner in (botocore.client.BaseClient, AioBaseClient):
        monkeypatch.setattr(owner, "_make_api_call", traced)
    assert await find(OURS) is None


async def test_mocks_of_aws_inside_this_process_get_the_synchronous_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handlers = botocore.handlers.BUILTIN_HANDLERS
    monkeypatch.setattr(botocore.handlers, "BUILTIN_HANDLERS", [*handlers])  # moto adds its own
    moto = pytest.importorskip("moto")
    from moto.core.models import botocore_stubber

    added = ("before-send", botocore_stubber)
    if added not in botocore.handlers.BUILTIN_HANDLERS:
        botocore.handlers.BUILTIN_HANDLERS.append(added)
    with moto.mock_aws(), SqsTransport(region=REGION) as sqs:
        boto3.client("sqs", region_name=REGION).create_queue(QueueName="shop")
        assert sqs.send("shop", [OutgoingMessage(body="{}")]) == []
        assert sqs.depth("shop").visible == 1


# --- either way ----------------------------------------------------------------------------------

REPLIES = [Reply(body={"QueueUrl": "http://queue"}), Reply(body={"Successful": [{"Id": "0"}]})]


@pytest.mark.parametrize("lean", [True, False])
async def test_the_asynchronous_transport_makes_its_calls_either_way(lean: bool) -> None:
    async with (
        serving(*REPLIES) as server,
        AsyncSqsTransport(endpoint_url=server.url, lean=lean) as sqs,
    ):
        assert await sqs.delete("queue", ["receipt"]) == []
    check(server.headers, "DeleteMessageBatch", lean=lean)


async def test_the_services_of_a_synchronous_client_share_a_session_and_so_its_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = unittest.mock.Mock(wraps=bounded_credentials.BoundedCredentialsSession)
    monkeypatch.setattr(bounded_credentials, "BoundedCredentialsSession", make)
    async with serving(*REPLIES, Reply(body={"Items": []})) as server:
        with closing(AwsBackend(App("shop").topology, endpoint_url=server.url)) as aws:
            await asyncio.to_thread(aws.ports.transport.send, "queue", [OutgoingMessage(body="{}")])
            await asyncio.to_thread(aws.ports.table.query, "partition")
    assert len(server.keys()) == 3
    make.assert_called_once_with()


@pytest.mark.parametrize("lean", [True, False])
async def test_the_synchronous_transport_makes_its_calls_either_way(lean: bool) -> None:
    async with serving(*REPLIES) as server:
        with SqsTransport(endpoint_url=server.url, lean=lean) as sqs:
            sent = await asyncio.to_thread(sqs.send, "queue", [OutgoingMessage(body="{}")])
    assert sent == []
    check(server.headers, "SendMessageBatch", lean=lean)


def check(headers: list[dict[str, str]], action: str, *, lean: bool) -> None:
    assert headers[1]["x-amz-target"] == f"AmazonSQS.{action}"
    assert ("amz-sdk-invocation-id" in headers[1]) is not lean
    differing = {"amz-sdk-invocation-id", "amz-sdk-request", "authorization", "x-amz-date"}
    assert headers[1].keys() - differing == headers[0].keys() - differing
