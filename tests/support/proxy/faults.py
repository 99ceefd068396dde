"""Faults of requests, as values, and the rules by which they are injected."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from tests.support.proxy.wire import json_response

_MESSAGE = "injected by the proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer with an error, without asking the server."""

    status: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Close the connection instead of answering."""

    forward: bool
    """True if the server has carried the request out by then, so that only its answer is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Delay the server's answer by that many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Freeze: answer nothing until ``release`` is set."""

    forward: bool = True
    """True if the server carries the request out meanwhile, False if it gets it on release."""
    release: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailEntries:
    """Report entries of a batch as failed, without handing them to the server."""

    every: int = 2
    """1 fails all of them, 2 the first, third, fifth and so on."""
    code: str = "InternalError"
    sender_fault: bool = False

    def split(self, body: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the batch left for the server, and the failures of the other entries."""
        batch = json.loads(body)
        entries = batch["Entries"]
        failed = entries[:: self.every]
        batch["Entries"] = [entry for entry in entries if entry not in failed]
        return batch, [self._failure(entry) for entry in failed]

    def join(self, body: bytes, failures: list[dict[str, Any]]) -> dict[str, Any]:
        """Add the failures of the other entries to the server's answer."""
        result = json.loads(body)
        return {"Successful": [], **result, "Failed": [*result.get("Failed", ()), *failures]}

    def _failure(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {
            "Id": entry["Id"],
            "SenderFault": self.sender_fault,
            "Code": self.code,
            "Message": _MESSAGE,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Answer with these bytes, whatever they are, and close the connection."""

    answer: bytes
    forward: bool
    """True if the server has carried the request out by then, so that only its answer is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Forward the first part of the server's answer, and close the connection."""

    part: float
    """Fraction of the answer's bytes, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trickle:
    """Forward the server's answer byte by byte."""

    pause_s: float
    """Seconds between two bytes."""


Fault = Refuse | Drop | Delay | Hold | FailEntries | Say | Cut | Trickle

THROTTLED = Refuse(status=HTTPStatus.BAD_REQUEST, code="ThrottlingException")
BROKEN = Refuse(status=HTTPStatus.INTERNAL_SERVER_ERROR, code="InternalFailure")
UNAVAILABLE = Refuse(status=HTTPStatus.SERVICE_UNAVAILABLE, code="ServiceUnavailable")


def refusal(fault: Refuse) -> bytes:
    """Return an error as SQS words it."""
    error = {"__type": f"com.amazonaws.sqs#{fault.code}", "message": _MESSAGE}
    return json_response(fault.status, error)


@dataclass(slots=True, eq=False)
class _Injection:
    fault: Fault
    actions: frozenset[str]
    """The actions that it hits; empty for all."""
    left: float

    def takes(self, action: str) -> bool:
        """Return True if the fault hits this request, and count it."""
        if self.left < 1 or (self.actions and action not in self.actions):
            return False
        self.left -= 1
        return True


class Injections:
    """The faults to come, in the order of their injection."""

    def __init__(self) -> None:
        self._all: list[_Injection] = []
        self.draw: Callable[[str], Fault | None] = _nothing
        """Called for each action that no injected fault hits; returns a fault or None."""

    def add(self, fault: Fault, actions: Iterable[str], times: float) -> None:
        """Inject a fault into the next ``times`` requests of these actions, or of all."""
        self._all.append(_Injection(fault, frozenset(actions), times))

    def clear(self) -> None:
        """Remove all faults."""
        self._all.clear()
        self.draw = _nothing

    def next_for(self, action: str) -> Fault | None:
        """Return the fault for the next request of this action, or None."""
        taken = next((each.fault for each in self._all if each.takes(action)), None)
        return taken or self.draw(action)


def _nothing(_action: str) -> None:
    """Let every request pass."""
