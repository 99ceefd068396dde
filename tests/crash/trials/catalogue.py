"""Answers that AWS doesn't document, and connections that don't last, by name."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from http import HTTPStatus

from tests.support.proxy import (
    BROKEN,
    THROTTLED,
    UNAVAILABLE,
    Cut,
    Delay,
    Drop,
    Fault,
    Say,
    Trickle,
)

Draw = Callable[[random.Random], Fault]

_ERRORS = (
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
_NO_OBJECTS = (b'"Service Unavailable"', b"[]", b"null", b"1e999", b"true", b"")
_INCOMPLETE = (
    b'{"Messages": [{"MessageId"',
    b'{"Messages": [{}], "Successful": [{}], "Items": [{}], "UnprocessedItems": [1]}',
    b'{"Messages": 5, "Successful": 5, "Failed": 5, "Items": 5, "UnprocessedItems": 5}',
    b'{"Messages": ["a"], "Failed": [1], "Items": [[]], "Item": "a", "UnprocessedItems": "a"}',
    b'{"Failed": [{"Id": "0"}], "QueueUrl": 5, "Item": {"pk": {}}, "UnprocessedItems": {"a": 1}}',
)
_PAGE = b"<html><body><h1>503 Service Unavailable</h1></body></html>"
_DEEP = 100_000
_MOST_RANDOM = 2_000


def _answer(status: int, body: bytes, kind: bytes = b"application/x-amz-json-1.0") -> bytes:
    head = b"HTTP/1.1 %d -\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (status, kind, len(body)) + body


def _error(rng: random.Random, body: bytes) -> Fault:
    """Return an error in AWS's place: the server may have carried the request out, or not."""
    return Say(answer=_answer(rng.choice(_ERRORS), body), forward=rng.random() < 1 / 2)


def _garbled(body: bytes) -> Fault:
    """Return an unreadable success, of a request that was carried out."""
    return Say(answer=_answer(HTTPStatus.OK, body), forward=True)


def _random_bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randint(1, _MOST_RANDOM))


def _nested(rng: random.Random) -> bytes:
    return b'{"Messages":' + rng.choice([b"[", b'{"a":']) * _DEEP


CATALOGUE: dict[str, Draw] = {
    "no UTF-8": lambda rng: _error(rng, b"\xff\xfe" + _random_bytes(rng)),
    "no object": lambda rng: _error(rng, rng.choice(_NO_OBJECTS)),
    "a page": lambda rng: _error(rng, _PAGE),
    "incomplete": lambda rng: _garbled(rng.choice(_INCOMPLETE)),
    "too deep": lambda rng: _garbled(_nested(rng)),
    "random body": lambda rng: _garbled(_random_bytes(rng)),
    "random bytes": lambda rng: Say(answer=_random_bytes(rng), forward=rng.random() < 1 / 2),
    "status 500": lambda _: BROKEN,
    "status 503": lambda _: UNAVAILABLE,
    "throttled": lambda _: THROTTLED,
    "dropped": lambda rng: Drop(forward=rng.random() < 1 / 2),
    "cut off": lambda rng: Cut(part=rng.random()),
    "late": lambda rng: Delay(seconds=rng.uniform(1, 3)),
    "stalled": lambda _: Delay(seconds=12),
    "byte by byte": lambda rng: Trickle(pause_s=rng.choice([0.001, 0.02, 0.05])),
}
"""The kinds of answers by name."""

SLOW = frozenset({"late", "stalled", "byte by byte"})
"""Kinds that cost a client time."""

ANSWERED = frozenset({"late", "byte by byte"})
"""Slow kinds that are answers all the same, which a patient client accepts."""

AT_ONCE = tuple(name for name in CATALOGUE if name not in SLOW)


TABLE = frozenset(
    {"BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem"}
)
"""DynamoDB's actions; SQS has none of these names."""


class Weather:
    """Draws faults for a proxy, and counts them by kind.

    Args:
        rng: the source of randomness.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.kinds: Sequence[str] = ()
        """The kinds of faults to draw."""
        self.share = 0.0
        """Fraction of the requests that are hit."""
        self.actions: frozenset[str] = frozenset()
        """The only actions that are hit; empty for all."""
        self.drawn: Counter[str] = Counter()

    def turn(
        self, share: float, kinds: Sequence[str], actions: frozenset[str] = frozenset()
    ) -> None:
        """Hit this fraction of requests with faults of these kinds from now on."""
        self.share, self.kinds, self.actions = share, kinds, actions

    def clear(self) -> None:
        """Hit no more requests."""
        self.turn(0, ())

    def fault_for(self, action: str) -> Fault | None:
        """Return the fault for a request, or None; passed to `tests.support.proxy.Proxy.draw`."""
        spared = bool(self.actions) and action not in self.actions
        if not self.kinds or spared or self._rng.random() >= self.share:
            return None
        kind = self._rng.choice(self.kinds)
        self.drawn[kind] += 1
        return CATALOGUE[kind](self._rng)
