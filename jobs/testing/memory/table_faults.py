"""Faults on demand for `MemoryTable`: calls that fail or are slow, items left unprocessed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Literal

from headgate.jobs.core.ports.table import Item
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.light_dataclass import light_dataclass

TableAction = Literal["put", "query", "page", "get", "lines", "scan", "delete", "replace"]
"""The calls of a `jobs.core.ports.table.AsyncTable`."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Unprocessed:
    """The items at these indexes of a put are not written; with None, no item is."""

    indexes: frozenset[int] | None = None

    def among(self, items: Sequence[Item]) -> list[Item]:
        """Return the items that are not written."""
        return [
            item
            for index, item in enumerate(items)
            if self.indexes is None or index in self.indexes
        ]


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _RaisedError:
    error: Exception
    applied: bool


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Delay:
    seconds: float


@dataclass(slots=True, kw_only=True)
class _Plan:
    action: TableAction | None
    times: int
    fault: Unprocessed | _RaisedError | _Delay


class TableFaults:
    """Faults of the next calls. Each call meets at most one fault: the oldest that fits it.

    ``action=None`` means any call.

    >>> faults = TableFaults()
    >>> faults.leave_unprocessed(times=3)                                   # three whole puts
    >>> faults.raise_on("replace", ConnectionError("reset"), applied=True)  # written, answer lost
    """

    def __init__(self) -> None:
        self._plans: list[_Plan] = []

    def raise_on(
        self,
        action: TableAction | None,
        error: Exception,
        *,
        times: int = 1,
        applied: bool = False,
    ) -> None:
        """Raise ``error`` from the next ``times`` calls; ``applied``: after they took effect."""
        self._plan(action, times, _RaisedError(error=error, applied=applied))

    def slow_down(self, action: TableAction | None, by: Duration, *, times: int = 1) -> None:
        """Delay the next ``times`` calls by that much of the event loop's time.

        ``by`` is in seconds or a timedelta. A synchronous call has no loop: it uses up its turn,
        and is not delayed.
        """
        self._plan(action, times, _Delay(seconds=duration("by", by).total_seconds()))

    def leave_unprocessed(self, *, times: int = 1, indexes: Iterable[int] | None = None) -> None:
        """Leave items of the next ``times`` puts unwritten: those at ``indexes``, or all."""
        left = None if indexes is None else frozenset(indexes)
        self._plan("put", times, Unprocessed(indexes=left))

    def clear(self) -> None:
        """Forget all faults that have not happened yet."""
        self._plans.clear()

    @asynccontextmanager
    async def async_around(self, action: TableAction) -> AsyncIterator[Unprocessed | None]:
        """Apply the fault of one call before, within or after the block."""
        fault = self._next(action)
        if isinstance(fault, _Delay):
            await asyncio.sleep(fault.seconds)
        with _happening(fault) as left:
            yield left

    @contextmanager
    def around(self, action: TableAction) -> Iterator[Unprocessed | None]:
        """As `async_around`, but for a synchronous call."""
        with _happening(self._next(action)) as left:
            yield left

    def _plan(
        self, action: TableAction | None, times: int, fault: Unprocessed | _RaisedError | _Delay
    ) -> None:
        if times < 1:
            raise ValueError(f"a fault happens at least once, got times={times}")
        self._plans.append(_Plan(action=action, times=times, fault=fault))

    def _next(self, action: TableAction) -> Unprocessed | _RaisedError | _Delay | None:
        for plan in self._plans:
            if plan.action in (None, action):
                plan.times -= 1
                if not plan.times:
                    self._plans.remove(plan)
                return plan.fault
        return None


@contextmanager
def _happening(fault: Unprocessed | _RaisedError | _Delay | None) -> Iterator[Unprocessed | None]:
    if not isinstance(fault, _RaisedError):
        yield fault if isinstance(fault, Unprocessed) else None
        return
    if fault.applied:
        yield None
    raise fault.error
