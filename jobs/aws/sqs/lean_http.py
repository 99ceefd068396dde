"""Calls to SQS for a fraction of the CPU that aiobotocore's take: aiohttp, and our own signer.

botocore runs every request through hooks, serializers and parsers that fit any service, which is
most of a call's cost. This module knows one protocol, AWS JSON 1.0, and leaves to botocore all
that is not done for every request: the credentials and their refresh, the region, the endpoint,
the CA bundle, and the reading of error responses. If botocore's configuration needs more than that,
`find_route` finds nothing, and the caller uses aiobotocore's client.
https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

import aiohttp
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)
from botocore.httpsession import create_urllib3_context, get_cert_path
from botocore.parsers import ResponseParserError, create_parser
from botocore.utils import get_environ_proxies
from pydantic_core import from_json, to_json
from yarl import URL

from headgate.jobs.aws.connections import skew
from headgate.jobs.aws.connections.connection import Connection
from headgate.jobs.aws.connections.faults import FOREIGN, FOREIGN_AT_OPENING, fault
from headgate.jobs.aws.connections.retries import pause_s
from headgate.jobs.aws.sqs.sigv4 import Credentials, Signer
from headgate.jobs.aws.sqs.wire import Request
from headgate.jobs.core.clock import Clock

if TYPE_CHECKING:
    from aiobotocore.session import AioSession
    from types_aiobotocore_sqs import SQSClient

_log = logging.getLogger("headgate.sqs")

_KEEP_ALIVE_S = 12  # aiobotocore's: AWS closes idle connections after 20 s


_NO_SHAPE: Any = None  # an error response needs no shape of a model, but botocore's stubs want one


class CredentialsSource(Protocol):
    """aiobotocore's credentials, which refresh themselves."""

    async def get_frozen_credentials(self) -> Credentials: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The endpoint of requests, and the means to sign and send them."""

    endpoint: URL
    region: str
    user_agent: str
    credentials: CredentialsSource
    tls: ssl.SSLContext | None = None
    """None for plain HTTP."""


async def find_route(session: AioSession, client: SQSClient) -> Route | None:
    """Return the route to the endpoint of ``client``; None if only aiobotocore can call it.

    That is: without credentials, with another signature than version 4, with an endpoint below a
    path, through a proxy, with botocore's plugins or its client-side monitoring, and in a Lambda
    function, where each request carries the invocation's trace.

    Raises:
        TransportError: the CA bundle can't be read.
    """
    try:
        return await _route(session, client)
    except FOREIGN_AT_OPENING as error:
        raise fault(error, action="sqs:*", target="sqs", opening=True) from error


async def _route(session: AioSession, client: SQSClient) -> Route | None:
    endpoint, config = URL(client.meta.endpoint_url), client.meta.config
    # Its stubs allow for keys that are None, and frozen credentials have them.
    credentials: CredentialsSource | None = await session.get_credentials()  # type: ignore[assignment]
    if credentials is None or _is_special(session, config, endpoint):
        return None
    return Route(
        endpoint=endpoint.with_path("/"),
        region=client.meta.region_name,
        # An option that Config sets from its arguments, so the stubs don't see it.
        user_agent=config.user_agent,  # type: ignore[attr-defined]
        credentials=credentials,
        tls=await asyncio.to_thread(_tls, session) if endpoint.scheme == "https" else None,
    )


def _is_special(session: AioSession, config: Any, endpoint: URL) -> bool:
    return bool(
        config.signature_version != "v4"
        or getattr(config, "auth_scheme_preference", None)  # since botocore 1.38
        or endpoint.path != "/"
        or endpoint.query_string
        or endpoint.user
        or get_environ_proxies(str(endpoint)).get(endpoint.scheme)
        or os.environ.get("BOTOCORE_EXPERIMENTAL__PLUGINS", "DISABLED") != "DISABLED"
        or session.get_config_variable("csm_enabled")
        or "AWS_LAMBDA_FUNCTION_NAME" in os.environ
    )


def _tls(session: AioSession) -> ssl.SSLContext:
    """Return botocore's own TLS context, with the CA bundle that it would use. Reads files."""
    bundle: str | None = session.get_config_variable("ca_bundle")
    bundle = bundle or os.environ.get("REQUESTS_CA_BUNDLE")
    context: ssl.SSLContext = create_urllib3_context()
    context.check_hostname = True  # off by default, since urllib3 checks by itself
    context.load_verify_locations(bundle or get_cert_path(True))
    return context


@asynccontextmanager
async def lean_caller(
    route: Route, connection: Connection, clock: Clock
) -> AsyncIterator[LeanCaller]:
    """Open a caller with a pool of connections of its own, until the block ends."""
    connector = aiohttp.TCPConnector(
        limit=connection.pool,
        keepalive_timeout=_KEEP_ALIVE_S,
        ssl=route.tls or True,
    )
    timeout = aiohttp.ClientTimeout(
        sock_connect=connection.connect_timeout_s, sock_read=connection.read_timeout_s
    )
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    ) as http:
        yield LeanCaller(
            http,
            route,
            attempts=connection.attempts,
            pool=connection.pool,
            bound_s=connection.connect_timeout_s + connection.read_timeout_s,
            clock=clock,
        )


class LeanCaller:
    """Makes SQS's calls, and raises the same errors as aiobotocore's client.

    Throttling, 5xx and connection errors are tried again after a pause, by
    `jobs.aws.connections.retries`. When AWS doesn't accept a signature and its clock is minutes off
    ours, the request is signed once more by AWS's clock, and so are those that follow.

    Each try is bounded as a whole by ``bound_s``, from when it has one of the ``pool`` connections:
    an answer that arrives byte by byte never exceeds a read timeout by its silence.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        route: Route,
        *,
        attempts: int,
        pool: int,
        bound_s: float,
        clock: Clock,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._http = http
        self._route = route
        self._attempts = attempts
        self._places = asyncio.Semaphore(pool)
        self._bound_s = bound_s
        self._clock = clock
        self._pause = pause
        self._rng = rng or random.Random()  # noqa: S311  spreads load, guards no secret
        self._signer = Signer(region=route.region, service="sqs")
        self._skew = timedelta()
        self._headers = {
            "content-type": "application/x-amz-json-1.0",
            "host": route.endpoint.host_port_subcomponent or "",
            "x-amzn-query-mode": "true",  # errors by the codes that SQS has always had
        }
        self._unsigned = {"user-agent": route.user_agent, "accept-encoding": "identity"}

    async def call(self, action: str, params: Request) -> dict[str, Any]:
        """Return SQS's response to ``action``, such as ``SendMessageBatch``.

        Raises:
            ClientError: SQS refused the call.
            ResponseParserError: the response is not a JSON object.
            BotoCoreError: there was no response, or there are no credentials.
        """
        body = _written(params)
        for tries in range(1, self._attempts):
            try:
                return await self._answer(action, body)
            except FOREIGN as error:
                if (wait_s := pause_s(error, tries, self._rng)) is None:
                    raise
            await self._pause(wait_s)
        return await self._answer(action, body)

    async def _answer(self, action: str, body: bytes) -> dict[str, Any]:
        answer = await self._post(action, body)
        if answer.refused and self._learns_skew(answer.refusal(action), answer.headers):
            answer = await self._post(action, body)
        if answer.refused:
            raise answer.refusal(action)
        return answer.read()

    async def _post(self, action: str, body: bytes) -> _Answer:
        signed = self._signer.signed(
            {**self._headers, "x-amz-target": f"AmazonSQS.{action}"},
            body,
            credentials=await self._credentials(),
            at=self._clock.now() + self._skew,
        )
        url, headers = self._route.endpoint, {**signed, **self._unsigned}
        with _botocores_errors(str(url)):
            async with (
                self._places,
                asyncio.timeout(self._bound_s),
                self._http.post(url, data=body, headers=headers, allow_redirects=False) as response,
            ):
                return _Answer(response.status, response.headers, await response.read())

    async def _credentials(self) -> Credentials:
        """Return botocore's, refreshed; a ``credential_process`` may make that raise anything."""
        try:
            return await self._route.credentials.get_frozen_credentials()
        except FOREIGN:
            raise
        except Exception as error:
            # Only the error's class: its text may show the process's output.
            raise CredentialRetrievalError(
                provider="botocore", error_msg=type(error).__name__
            ) from error

    def _learns_skew(self, refusal: ClientError, headers: Mapping[str, str]) -> bool:
        """Return True if AWS may have refused because of this clock, not of the credentials."""
        code = refusal.response.get("Error", {}).get("Code", "")
        found = skew.skew_of(headers, self._clock.now()) if code in skew.CODES else None
        if found is None or abs(found - self._skew) < skew.TOLERATED:
            return False
        _log.warning("%s; until then requests are signed by AWS's time", skew.told(found))
        self._skew = found
        return True


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def refused(self) -> bool:
        return self.status >= HTTPStatus.MULTIPLE_CHOICES

    def read(self) -> dict[str, Any]:
        parsed = _read(self.body)
        if not isinstance(parsed, dict):
            raise ResponseParserError("the response is no JSON object")
        # botocore leaves out nulls. Most bodies don't contain the word, so aren't walked through.
        if b"null" not in self.body:
            return parsed
        try:
            return {name: _without_nulls(item) for name, item in parsed.items() if item is not None}
        except RecursionError as error:
            raise ResponseParserError("the response is nested too deeply") from error

    def refusal(self, action: str) -> ClientError:
        """Read the error by botocore's own parser, which takes every form of error response."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        response = {"status_code": self.status, "headers": headers, "body": self.body}
        try:
            parsed = create_parser("json").parse(response, _NO_SHAPE)
        except Exception:  # noqa: BLE001 - a proxy's page, or anything else with that status
            parsed = {
                "Error": {"Code": str(self.status), "Message": "the answer can't be read"},
                "ResponseMetadata": {"HTTPStatusCode": self.status},
            }
        return ClientError(parsed, action)


def _written(params: Request) -> bytes:
    try:
        return to_json(params)
    except ValueError:  # half of a surrogate pair, left for SQS to refuse
        return json.dumps(params).encode()


def _read(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:  # perhaps half of a surrogate pair, which json accepts, and so does botocore
        return _read_by_json(body)


def _read_by_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ResponseParserError("the response is no JSON") from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


@contextmanager
def _botocores_errors(url: str) -> Iterator[None]:
    """Translate aiohttp's errors into botocore's, as aiobotocore does."""
    try:
        yield
    except aiohttp.ClientSSLError as error:
        raise SSLError(endpoint_url=url, error=error) from error
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError) as error:
        raise ConnectionClosedError(endpoint_url=url, error=error) from error
    except aiohttp.ConnectionTimeoutError as error:
        raise ConnectTimeoutError(endpoint_url=url, error=error) from error
    except TimeoutError as error:
        raise ReadTimeoutError(endpoint_url=url, error=error) from error
    except (aiohttp.ClientConnectionError, OSError) as error:
        raise EndpointConnectionError(endpoint_url=url, error=error) from error
    except aiohttp.ClientError as error:
        raise HTTPClientError(error=error) from error
