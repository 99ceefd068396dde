"""Ids of jobs: UUIDv7s, which hold the time that a job is for, and sort by it."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

PUT_BACK_MS = 60_000
"""Milliseconds that a process's clock may be set back without its ids losing their order."""

_COUNTER_BITS, _RANDOM_BITS = 26, 48
_FIRST_BITS = _COUNTER_BITS - 1
"""Those of the number that the counter starts at: half of it is left to count up."""


class JobIds:
    """Generates UUIDv7s (RFC 9562, 5.7), each greater than those before it.

    48 bits of milliseconds are followed by a counter of 26 bits and 48 random bits. The counter
    starts at a random number in each millisecond and counts up within it (RFC 9562, 6.2, method 1).
    While a clock is set back by up to `PUT_BACK_MS`, the last millisecond continues. A clock set
    back further is followed, since ids from the future would sort after those of all other
    processes.

    Safe to share between threads. Ids of different processes are ordered by their clocks'
    milliseconds; within the same millisecond the order is arbitrary, but the same for every reader.

    Args:
        randbits: returns the given number of random bits; must not be seeded alike in two
            processes.
    """

    def __init__(self, randbits: Callable[[int], int] = secrets.randbits) -> None:
        self._randbits = randbits
        self._lock = threading.Lock()
        self._last_ms = -1
        self._counter = 0

    def __call__(self, now: datetime) -> UUID:
        """Return a new id for that time."""
        with self._lock:
            # For both parts at once: each draw is a call of the operating system.
            first, random = divmod(self._randbits(_FIRST_BITS + _RANDOM_BITS), 1 << _RANDOM_BITS)
            self._count(_milliseconds(now), first)
            return _uuid7(self._last_ms, self._counter << _RANDOM_BITS | random)

    def _count(self, now_ms: int, first: int) -> None:
        put_back = 0 <= self._last_ms - now_ms <= PUT_BACK_MS
        if put_back and self._counter + 1 < 1 << _COUNTER_BITS:
            self._counter += 1
            return
        # A full one borrows from the next millisecond.
        self._last_ms = self._last_ms + 1 if put_back else now_ms
        self._counter = first


new_job_id = JobIds()
"""The generator of this process's ids."""


def derived_job_id(at: datetime, *parts: str) -> UUID:
    """Return the UUIDv7 of one occurrence: the same time and parts always give the same id.

    A schedule that fires twice for one occurrence thus submits one job twice, not two jobs.
    """
    digest = hashlib.sha256("\n".join((at.astimezone(UTC).isoformat(), *parts)).encode()).digest()
    return _uuid7(_milliseconds(at), int.from_bytes(digest[:10]) >> 6)


def time_of(job_id: UUID) -> datetime | None:
    """Return the time that an id was made for; None if it is not a UUIDv7."""
    if job_id.version != 7:
        return None
    try:
        return datetime.fromtimestamp((job_id.int >> 80) / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # later than the year 9999
        return None


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _uuid7(milliseconds: int, bits: int) -> UUID:
    high, low = bits >> 62, bits & ((1 << 62) - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low)
