"""A lease: who sends from a queue of the spool, and for how long others leave it to them."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from datetime import timedelta

from headgate.jobs.client.spool.locks import KERNEL, SpoolLocks
from headgate.jobs.core.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """It holds until its time is over, or its process has ended."""

    kernel: str | None
    """`jobs.client.spool.locks.KERNEL`, where it was taken."""
    number: int | None
    """Of the locks of its process; None if it has none."""
    until_s: float
    """By the monotonic clock, which the processes under one kernel share."""
    until: float
    """By the wall clock, in seconds since 1970."""
    lasts_s: float
    """In all, so that a wall clock that was put back since shows."""
    nonce: str = field(default_factory=lambda: secrets.token_hex(4))
    """Tells it from every other lease of the queue."""

    @property
    def token(self) -> str:
        """All of it but `until`, as the file has it."""
        return json.dumps([self.kernel, self.number, self.until_s, self.lasts_s, self.nonce])

    @classmethod
    def read(cls, token: str, until: float, lasts: timedelta) -> Lease:
        """Read a token; one of an earlier version says no more than its time."""
        try:
            kernel, number, until_s, lasts_s, _nonce = json.loads(token)
        except (TypeError, ValueError):
            kernel, number, until_s, lasts_s = None, None, 0.0, lasts.total_seconds()
        return cls(kernel=kernel, number=number, until_s=until_s, until=until, lasts_s=lasts_s)

    def holds(self, clock: Clock, locks: SpoolLocks) -> bool:
        """True if its queue is to be left alone."""
        if self.kernel is None or self.kernel != KERNEL:
            # Taken on another machine, or before this one was started again.
            return 0 < self.until - clock.now().timestamp() <= self.lasts_s
        in_time = self.until_s > clock.monotonic()
        if self.number is None:
            return in_time
        return locks.is_open(self.number) and (in_time or locks.is_settling(self.number))
