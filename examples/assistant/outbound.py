"""HTTP requests to customers' endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import aiohttp

TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The part of an answer that decides what to do next."""

    status_code: int
    headers: Mapping[str, str]


class Http(Protocol):
    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Response:
        """Send a request, within ten seconds.

        Raises:
            TimeoutError: no answer came in time.
            aiohttp.ClientError: there is no connection.
        """
        ...


class AiohttpHttp:
    """`Http` by aiohttp; redirects are not followed, since they could lead anywhere."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Response:
        async with self._session.post(
            url, data=body, headers=headers, allow_redirects=False
        ) as answer:
            return Response(status_code=answer.status, headers=dict(answer.headers))


@asynccontextmanager
async def connections() -> AsyncIterator[AiohttpHttp]:
    """Open the connections of one process."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield AiohttpHttp(session)
