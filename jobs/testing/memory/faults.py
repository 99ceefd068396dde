"""Faults on demand for `MemorySqs`: entries that fail, calls that fail, answers that get lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from headgate.jobs.core.ports.transport import EntryFailure
from headgate.jobs.values.light_dataclass import light_dataclass

Action = Literal["send", "receive", "delete", "change_visibility", "depth"]
"""The calls of a `jobs.core.ports.transport.AsyncTransport`."""

BatchAction = Literal["send", "delete", "change_visibility"]
"""The calls that answer for each entry."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class FailedEntries:
    """The same failure for the entries at these indexes, or for all of them (None)."""

    code: str
    message: str
    sender_fault: bool
    indexes: frozenset[int] | None

    def of(self, index: int) -> EntryFailure | None:
        """Return the failure of the entry at ``index``, or None if it doesn't fail."""
        if self.indexes is not None and index not in self.indexes:
            return None
        return EntryFailure(
            index=index, code=self.code, message=self.message, sender_fault=self.sender_fault
        )


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _RaisedError:
    error: Exception
    applied: bool


@dataclass(slots=True, kw_only=True)
class _Plan:
    action: Action
    queue: str | None
    times: int
    fault: FailedEntries | _RaisedError


class Faults:
    """Faults of the next calls. Each call meets at most one fault: the oldest that fits it.

    >>> faults = Faults()
    >>> faults.fail_entries("delete", times=3)                              # all their entries
    >>> faults.raise_on("send", ConnectionError("reset"), applied=True)     # sent, answer lost
    """

    def __init__(self) -> None:
        self._plans: list[_Plan] = []

    def fail_entries(
        self,
        action: BatchAction,
        *,
        queue: str | None = None,
        times: int = 1,
        code: str = "InternalError",
        message: str = "a fault that the test asked for",
        sender_fault: bool = False,
        indexes: Iterable[int] | None = None,
    ) -> None:
        """Fail entries of the next ``times`` calls; those entries are not carried out.

        ``queue=None`` means any queue, ``indexes=None`` every entry of the batch.
        """
        fault = FailedEntries(
            code=code,
            message=message,
            sender_fault=sender_fault,
            indexes=None if indexes is None else frozenset(indexes),
        )
        self._plan(action, queue, times, fault)

    def raise_on(
        self,
        action: Action,
        error: Exception,
        *,
        queue: str | None = None,
        times: int = 1,
        applied: bool = False,
    ) -> None:
        """Raise ``error`` from the next ``times`` calls.

        With ``applied`` the call takes effect and only its answer is lost: messages are sent, and
        received messages stay hidden until their visibility timeout ends.
        """
        fault = _RaisedError(error=error, applied=applied)
        self._plan(action, queue, times, fault)

    def clear(self) -> None:
        """Forget all faults that have not happened yet."""
        self._plans.clear()

    @contextmanager
    def around(self, action: Action, queue: str) -> Iterator[FailedEntries | None]:
        """Apply the fault of one call before, within or after the block."""
        fault = self._next(action, queue)
        if not isinstance(fault, _RaisedError):
            yield fault
            return
        if fault.applied:
            yield None
        raise fault.error

    def _plan(
        self, action: Action, queue: str | None, times: int, fault: FailedEntries | _RaisedError
    ) -> None:
        if times < 1:
            raise ValueError(f"a fault happens at least once, got times={times}")
        self._plans.append(_Plan(action=action, queue=queue, times=times, fault=fault))

    def _next(self, action: Action, queue: str) -> FailedEntries | _RaisedError | None:
        for plan in self._plans:
            if plan.action == action and plan.queue in (None, queue):
                plan.times -= 1
                if not plan.times:
                    self._plans.remove(plan)
                return plan.fault
        return None
