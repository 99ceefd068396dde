"""Requests to SQS: reported to an observer, with failures translated into Headgate's errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from headgate.jobs.aws.connections.faults import fault, is_foreign
from headgate.jobs.core.clock import Clock
from headgate.jobs.errors import QueueMissing
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.sqs")

Action = Literal["send", "receive", "delete", "change_visibility", "depth", "resolve"]

_PERMISSIONS: dict[Action, str] = {
    "send": "sqs:SendMessage",
    "receive": "sqs:ReceiveMessage",
    "delete": "sqs:DeleteMessage",
    "change_visibility": "sqs:ChangeMessageVisibility",
    "depth": "sqs:GetQueueAttributes",
    "resolve": "sqs:GetQueueUrl",
}


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class RequestMade:
    """One call to SQS that ended, successfully or not; costs are counted from these.

    Retries are part of the call, and not counted.
    """

    action: Action
    queue: str
    entries: int
    """Messages sent, received, deleted or changed; 0 for a call that carries none."""
    duration_s: float


Observer = Callable[[RequestMade], None]
"""Called after every request, on the caller's thread; it must be quick and not raise."""


class Ledger:
    """The state that both transports keep for requests: addresses, the observer, the clock."""

    __slots__ = ("_clock", "_on_request", "urls")

    def __init__(self, on_request: Observer | None, clock: Clock) -> None:
        self._on_request = on_request
        self._clock = clock
        self.urls: dict[str, str] = {}

    def call(self, action: Action, queue: str, entries: int = 0) -> PendingRequest:
        return PendingRequest(self, action, queue, entries, self._clock.monotonic())

    def ended(self, call: PendingRequest) -> None:
        if self._on_request is not None:
            self._on_request(
                RequestMade(
                    action=call.action,
                    queue=call.queue,
                    entries=call.entries,
                    duration_s=self._clock.monotonic() - call.started,
                )
            )


@dataclass(slots=True)
class PendingRequest:
    """One request under way: reported when it ends, with its error translated into Headgate's."""

    ledger: Ledger
    action: Action
    queue: str
    entries: int
    started: float

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.ledger.ended(self)
        except Exception:  # noqa: BLE001 - the user's code; what was received must not be lost
            _log.exception("the observer of requests raised")
        if is_foreign(error):
            known = fault(error, action=_PERMISSIONS[self.action], target=self.queue)
            if isinstance(known, QueueMissing):
                # If it is created again it may have another address.
                self.ledger.urls.pop(self.queue, None)
            raise known from error
