"""Jobs that wait in a local file while SQS can't be reached: what is promised, and the policy.

The file itself is `jobs.client.spool.file`; who sends from it are `jobs.client.spool.spooler` and
`jobs.client.spool.async_spooler`.

- **Kept** is a job whose submission failed with a transient `TransportError` (no connection, no
  answer, throttling, a fault of AWS's), after the tries that every submission has. When `submit`
  returns it is on the disk. Any other error is raised as ever: no waiting mends credentials.
- **Order.** Requests for the jobs of one queue begin in the order in which those came into the
  file, and while any wait, new ones of that queue go behind them. Some requests are under way at
  once: on a standard queue, which keeps no order either, one may arrive before another that began a
  little earlier. Of a FIFO group one job at a time is under way, so that its order stays, whichever
  processes of this machine its jobs came from.
- **Once.** A process that sends from a queue's jobs holds a lease on it
  (`jobs.client.spool.lease`), so that several may drain one file. A job leaves the file when SQS
  has confirmed it. It is sent twice where that answer was lost: on the way, with the process that
  waited for it, or because sending took longer than the lease. At least once, as everywhere in SQS.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from headgate.jobs.core.events import Event, JobSpooled, JobSpoolRefused, JobSubmitted, SpoolFailed
from headgate.jobs.core.ports import OutgoingMessage
from headgate.jobs.core.topology import MAX_DELAY
from headgate.jobs.errors import SettingsInvalid, TransportError
from headgate.jobs.messages.envelope import Envelope, parse
from headgate.jobs.retry.backoff import Backoff, check_count
from headgate.jobs.submission.prepare import Submission

StrPath: TypeAlias = str | os.PathLike[str]

CLOSING_S = 5.0
"""How long a client that closes waits for what its spool still has."""

IDLE_S = 30.0
"""How often a spool that seems empty is looked at: another process may have left jobs in it."""

ELSEWHERE_S = 1.0
"""The pause before another look while another process, which may be killed, sends from it."""

_PAUSES = Backoff.exponential(base=1, factor=2, cap=30, jitter="equal")
_ENOUGH_FAILURES = 6  # the pauses grow no further, and each costs as many random numbers
_MEBIBYTE = 1024 * 1024
_MOST = 2**40  # more than any disk has room for


@dataclass(frozen=True, slots=True)
class Spool:
    """A local file that keeps submissions while SQS can't be reached: ``Client(app, spool=...)``.

    It holds payloads, readable by its owner only (mode 0600). It must lie on a local disk, since
    SQLite's log doesn't work over a network, and on one that outlives the process. Use one file for
    one app in one account and region: whoever opens it sends all that is in it.

    Raises:
        SettingsInvalid: a bound is out of range.
    """

    path: StrPath
    max_jobs: int = field(default=100_000, kw_only=True)
    """Jobs that it may hold. The next one is refused with `SpoolFull`."""
    max_bytes: int = field(default=256 * _MEBIBYTE, kw_only=True)
    """Bytes of messages that it may hold; the file is somewhat larger, and doesn't shrink."""
    lease: timedelta = field(default=timedelta(minutes=2), kw_only=True)
    """The time that a process has a queue for itself while it sends some of its jobs; at least 1 s.
    If that takes longer, they may be sent twice. A process that ends, or is killed, is noticed at
    once, but for one on another machine or before a restart: then jobs wait for so long."""

    def __post_init__(self) -> None:
        check_count("max_jobs", self.max_jobs, most=_MOST)
        check_count("max_bytes", self.max_bytes, most=_MOST)
        _check_lease(self.lease)

    @property
    def name(self) -> str:
        """The path, as errors have it."""
        return str(Path(self.path))


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A job in the file, and its message as it would be sent now."""

    id: str
    message: OutgoingMessage

    @cached_property
    def envelope(self) -> Envelope:
        """What the message says."""
        return parse(self.message.body)


Sent: TypeAlias = Callable[[Sequence[Waiting]], None]
"""Writes down what SQS has taken from the file, as
`jobs.client.submission_records.Register.enter`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A queue's oldest jobs, which nobody else may send for the moment."""

    queue: str
    """The physical name."""
    token: str
    """Tells this claim from one that somebody makes after its lease has run out."""
    good_until_s: float
    """By the monotonic clock: no request begins later, so that answers come within the lease."""
    jobs: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The ends of some of a claim's jobs. Those that are not named go on waiting."""

    sent: tuple[Waiting, ...] = ()
    refused: tuple[tuple[Waiting, str], ...] = ()
    """With what SQS says: the message is at fault, and would hold up those behind it."""
    error: TransportError | None = None
    """Why some go on waiting."""

    def __add__(self, later: Answer) -> Answer:
        return Answer(
            sent=self.sent + later.sent,
            refused=self.refused + later.refused,
            error=self.error or later.error,
        )

    def events(self, claim: Claim, waiting: int, at: datetime) -> Iterator[Event]:
        """Tell of it, once the file knows it too and has so many jobs left."""
        for job in self.sent:
            yield JobSubmitted(at=at, delay_s=job.message.delay_s, **_names(job.envelope))
        for job, why in self.refused:
            yield JobSpoolRefused(at=at, error=why, **_names(job.envelope))
        if self.error is not None:
            yield SpoolFailed(at=at, queue=claim.queue, error=str(self.error), waiting=waiting)


def remaining_delay_s(not_before: datetime | None, now: datetime) -> int:
    """The DelaySeconds of a job that has waited already: its due time stays what it was."""
    if not_before is None or not_before <= now:
        return 0
    left = min(not_before - now, MAX_DELAY)  # the clock may have been put back meanwhile
    return math.ceil(left.total_seconds())


def spooled(submission: Submission, reason: str, waiting: int, at: datetime) -> JobSpooled:
    """It is in the file, where by now so many wait."""
    return JobSpooled(at=at, reason=reason, waiting=waiting, **_names(submission.envelope))


class Rhythm:
    """When the file is drained next: soon after a failure, then less and less often, with jitter.

    Times are the clock's monotonic seconds.
    """

    def __init__(self, rng: random.Random) -> None:
        self.due_s = float("-inf")
        """At the start at once: an earlier process may have left jobs."""
        self._rng = rng
        self._failures = 0
        self._passing = False
        self._missed = False
        """A job came in while the file was being drained, maybe behind what was looked at last."""

    def kept(self, now_s: float) -> None:
        """A job came into the file; SQS could not be reached just now."""
        if self._passing:
            self._missed = True
        elif not self._failures:
            self._failed(now_s)

    def answered(self, now_s: float) -> None:
        """SQS took something else: what waits need not wait any longer."""
        if self._failures:
            self._failures = 0
            self.due_s = now_s

    def begins(self) -> None:
        """The file is going to be drained."""
        self._passing, self._missed = True, False

    def passed(self, now_s: float, *, clean: bool, elsewhere: bool = False) -> None:
        """The file was drained, or as ``clean`` says not quite.

        ``elsewhere``: others send from it, who may be killed.
        """
        self._passing = False
        if clean:
            self._failures = 0
            self.due_s = now_s + (ELSEWHERE_S if elsewhere else 0 if self._missed else IDLE_S)
        else:
            self._failed(now_s)

    def _failed(self, now_s: float) -> None:
        self._failures = min(self._failures + 1, _ENOUGH_FAILURES)
        self.due_s = now_s + _PAUSES.delay_s(self._failures, self._rng)


def _check_lease(lease: object) -> None:
    if not isinstance(lease, timedelta) or lease < timedelta(seconds=1):
        raise SettingsInvalid(
            f"Spool(lease=...) must be a timedelta of at least a second, got {lease!r}"
        )


def _names(envelope: Envelope) -> dict[str, Any]:
    return {
        "job_id": str(envelope.id),
        "job_type": envelope.type,
        "queue": envelope.queue,
        "priority": envelope.priority,
        "tenant": envelope.tenant,
    }
