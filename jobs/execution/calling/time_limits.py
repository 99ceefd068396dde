"""The time limits of all attempts of an event loop, with one timer between them.

With `asyncio.timeout_at` each attempt sets a timer, and nearly all cancel it soon: most attempts
end long before their timeout.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any


class TimeLimits:
    """Watches the limits that are entered in one event loop.

    One timer is set, for the earliest limit that was known then. A limit that is left leaves the
    timer as it is, which finds nothing due and is set anew.
    """

    def __init__(self) -> None:
        self._entered: dict[TimeLimit, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, limit: TimeLimit) -> None:
        """Begin to watch a limit."""
        self._entered[limit] = None
        if self._timer is None or limit.at < self._timer.when():
            self._set_timer(limit.at)

    def leave(self, limit: TimeLimit) -> None:
        """Watch a limit no more."""
        self._entered.pop(limit, None)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._ring, at)

    def _ring(self, at: float) -> None:
        self._timer = None
        # The loop's clock may be short of the timer's time, by its resolution.
        now = max(at, asyncio.get_running_loop().time())
        for limit in [limit for limit in self._entered if limit.at <= now]:
            del self._entered[limit]
            limit.expire()
        if self._entered:
            self._set_timer(min(limit.at for limit in self._entered))


class TimeLimit:
    """A context manager that cancels its task when its time is up, as `asyncio.Timeout` does.

    Entered once.

    Args:
        limits: watches it.
        at: the time at which it is up, of the event loop's clock.
        task: the task that enters it.

    Raises:
        TimeoutError: its time was up, and the block ended by that cancellation.
    """

    __slots__ = ("_cancelling", "_limits", "_task", "at", "expired")

    def __init__(self, limits: TimeLimits, at: float, task: asyncio.Task[Any]) -> None:
        self._limits = limits
        self._task = task
        self._cancelling = 0
        self.at = at
        self.expired = False
        """True once its time was up within the block."""

    def __enter__(self) -> None:
        self._cancelling = self._task.cancelling()
        self._limits.enter(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._limits.leave(self)
        if not self.expired:
            return
        # Others may have cancelled the task as well: then it stays cancelled.
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        """Cancel the task."""
        self.expired = True
        self._task.cancel()
