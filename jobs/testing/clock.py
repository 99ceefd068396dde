"""Clocks under a test's control: one moved by hand, one that follows the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from headgate.jobs.errors.configuration import SettingsInvalid
from headgate.jobs.values.durations import Duration, duration

START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """A clock that stands still until `advance` moves it.

    Raises:
        SettingsInvalid: ``start`` has no time zone.

    >>> clock = VirtualClock()
    >>> clock.advance(timedelta(minutes=5))
    >>> clock.now()
    datetime.datetime(2026, 1, 1, 0, 5, tzinfo=datetime.timezone.utc)
    """

    def __init__(self, start: datetime = START) -> None:
        if start.utcoffset() is None:
            raise SettingsInvalid(
                f"start must have a time zone, as datetime.now(UTC) has, got {start!r}"
            )
        self._start = start.astimezone(UTC)
        self._elapsed = timedelta(0)
        self._subscribers: list[Callable[[], None]] = []

    def now(self) -> datetime:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed.total_seconds()

    def advance(self, by: Duration) -> None:
        """Move on by that much, in seconds or as a timedelta, then call the subscribers.

        Raises:
            SettingsInvalid: the clock would go back, or that is no duration.
        """
        self._elapsed += duration("advance(by)", by)
        for notify in self._subscribers:
            notify()

    def subscribe(self, notify: Callable[[], None]) -> None:
        """Call ``notify`` after every `advance`, to wake code that waits."""
        self._subscribers.append(notify)


class LoopClock:
    """A clock that reads the event loop's time, for tests whose loop travels in time.

    Under ``@pytest.mark.looptime`` the loop's time starts near 0 and jumps to the next timer when
    there is nothing else to do, so ``now()`` starts near ``start``. looptime owns the time only
    while the test itself runs, not in its fixtures: take no readings there.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._last_seen: asyncio.AbstractEventLoop | None = None

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the loop's time; in another thread, that of the loop that called last.

        Raises:
            RuntimeError: no loop has called yet, and none runs here.
        """
        try:
            self._last_seen = asyncio.get_running_loop()
        except RuntimeError:
            if self._last_seen is None:
                raise
        return self._last_seen.time()
