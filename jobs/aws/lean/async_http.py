"""HTTP of `jobs.aws.lean.caller` in an event loop, by aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import aiohttp
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)
from yarl import URL

from headgate.jobs.aws.connections.connection import Connection
from headgate.jobs.aws.lean.answer import MAX_BYTES, TOO_LARGE, HttpAnswer
from headgate.jobs.aws.lean.route import KEEP_ALIVE_S, Route


@asynccontextmanager
async def async_http(route: Route, connection: Connection) -> AsyncIterator[AsyncHttp]:
    """Open a pool of connections to a route's endpoint, until the block ends."""
    connector = aiohttp.TCPConnector(
        limit=connection.pool,
        keepalive_timeout=KEEP_ALIVE_S,
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
    ) as session:
        yield AsyncHttp(
            session,
            URL(str(route.endpoint)),
            pool=connection.pool,
            bound_s=connection.connect_timeout_s + connection.read_timeout_s,
        )


class AsyncHttp:
    """A `jobs.aws.lean.caller.Http` for an event loop.

    Each request is bounded as a whole by ``bound_s``, from when it has one of the ``pool``
    connections: an answer that arrives byte by byte never exceeds a read timeout by its silence.
    """

    def __init__(
        self, session: aiohttp.ClientSession, url: URL, *, pool: int, bound_s: float
    ) -> None:
        self._session = session
        self._url = url
        self._places = asyncio.Semaphore(pool)
        self._bound_s = bound_s

    async def post(self, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """`Http.post`."""
        with _botocores_errors(str(self._url)):
            async with (
                self._places,
                asyncio.timeout(self._bound_s),
                self._session.post(
                    self._url, data=body, headers=headers, allow_redirects=False
                ) as response,
            ):
                return HttpAnswer(response.status, response.headers, await _whole(response))


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of an answer.

    Raises:
        HTTPClientError: it is too large; one that announces its length is then not read at all.
    """
    if (announced := response.content_length) is not None and announced <= MAX_BYTES:
        return await response.read()
    body = bytearray()
    while announced is None and (part := await response.content.readany()):
        body += part
        if len(body) > MAX_BYTES:
            break
    if announced is not None or len(body) > MAX_BYTES:
        raise HTTPClientError(error=TOO_LARGE)
    return bytes(body)


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
