"""A stand-in for the shop's outside services, in this process; it fails on demand.

The word before the first hyphen of the name it is called about selects the failure:

    flaky-…      the first call gets 503, every later one works
    busy-…       the first call gets 429 with Retry-After: 1, every later one works
    down-…       every call gets 503
    unknown-…    every call gets 422
    declined-…   the bank declines
    hang-…       no call is answered within a minute

Calls are counted in the store, so that "first" holds across workers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from examples.shop import store

_LATENCY_S = 0.05
_HANGS_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The part of an HTTP response that decides what to do next."""

    status_code: HTTPStatus
    headers: Mapping[str, str] = field(default_factory=dict)


class GatewayError(Exception):
    """A service answered with an error; carries the response, as HTTP libraries' errors do."""

    def __init__(self, response: Response) -> None:
        self.response = response
        status = response.status_code
        super().__init__(f"the gateway answered {status.value} {status.phrase}")


class CardDeclined(Exception):
    """The bank declined, and would decline again."""


async def call(about: str) -> None:
    """Call a service about something, from an event loop.

    Raises:
        GatewayError: it answered with an error.
        CardDeclined: the bank declined.
    """
    await asyncio.sleep(_latency_s(about))
    await asyncio.to_thread(_answer, about)


def call_blocking(about: str) -> None:
    """`call` for synchronous code."""
    time.sleep(_latency_s(about))
    _answer(about)


def _answer(about: str) -> None:
    fault = _fault(about)
    if fault in _PASSING and store.current().count_call(about) > 1:
        return
    if fault == "declined":
        raise CardDeclined(about)
    if fault in _ERRORS:
        raise GatewayError(_ERRORS[fault])


def _latency_s(about: str) -> float:
    return _HANGS_S if _fault(about) == "hang" else _LATENCY_S


def _fault(about: str) -> str:
    return about.partition("-")[0]


_ERRORS = {
    "flaky": Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE),
    "busy": Response(status_code=HTTPStatus.TOO_MANY_REQUESTS, headers={"Retry-After": "1"}),
    "down": Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE),
    "unknown": Response(status_code=HTTPStatus.UNPROCESSABLE_ENTITY),
}
_PASSING = {"flaky", "busy"}
