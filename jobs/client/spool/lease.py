"""Leases, by which one process at a time sends from a queue of the spool."""

from __future__ import annotations

import json
import secrets
from dataclasses import field
from datetime import timedelta

from headgate.jobs.client.spool.locks import KERNEL, SpoolLocks
from headgate.jobs.core.clock import Clock
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class FileLease:
    """A lease, which holds until its time is over, or its process has ended."""

    kernel: str | None
    """`jobs.client.spool.locks.KERNEL` of the process that took it."""
    number: int | None
    """The number of its process's locks; None if it has none."""
    until_s: float
    """Its end by the monotonic clock, which the processes under one kernel share."""
    until: float
    """Its end by the wall clock, in seconds since 1970."""
    lasts_s: float
    """Its whole length, which shows if the wall clock was set back since."""
    nonce: str = field(default_factory=lambda: secrets.token_hex(4))
    """Distinguishes it from every other lease of the queue."""

    @property
    def token(self) -> str:
        """All of its fields but `until`, as stored in the file."""
        return json.dumps([self.kernel, self.number, self.until_s, self.lasts_s, self.nonce])

    @classmethod
    def read(cls, token: str, until: float, lasts: timedelta) -> FileLease:
        """Read a token; one of an earlier version tells only its time."""
        try:
            kernel, number, until_s, lasts_s, _nonce = json.loads(token)
        except (TypeError, ValueError):
            kernel, number, until_s, lasts_s = None, None, 0.0, lasts.total_seconds()
        return cls(kernel=kernel, number=number, until_s=until_s, until=until, lasts_s=lasts_s)

    def holds(self, clock: Clock, locks: SpoolLocks) -> bool:
        """Return True if the lease still holds, so that its queue is to be left alone."""
        if self.kernel is None or self.kernel != KERNEL:
            # Taken on another machine, or before this one was restarted.
            return 0 < self.until - clock.now().timestamp() <= self.lasts_s
        in_time = self.until_s > clock.monotonic()
        if self.number is None:
            return in_time
        return locks.is_open(self.number) and (in_time or locks.is_settling(self.number))
