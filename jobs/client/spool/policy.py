"""The spool, a local file in which jobs wait while SQS can't be reached: guarantees and policy.

The file itself is in `jobs.client.spool.file`; `jobs.client.spool.drainer` and
`jobs.client.spool.async_drainer` send from it.

- **Kept.** A job is kept if its submission failed with a transient `TransportError` (no connection,
  no answer, throttling, a fault of AWS), after the retries that every submission has. When `submit`
  returns, the job is on the disk. Any other error is raised as without a spool: waiting doesn't
  repair credentials.
- **Order.** Requests for the jobs of one queue begin in the order in which those came into the
  file, and while any wait, new jobs of that queue go behind them. Several requests are under way at
  once: on a standard queue, which keeps no order either, one may arrive before another that began a
  little earlier. Of a FIFO group one job at a time is under way, so its order is kept, whichever
  processes of this machine the jobs came from.
- **Once.** A process that sends a queue's jobs holds a lease on the queue
  (`jobs.client.spool.lease`), so that several may drain one file. A job leaves the file when SQS
  has confirmed it. It is sent twice if that answer was lost: on the way, with the process that
  waited for it, or because sending took longer than the lease. So jobs are sent at least once, as
  everywhere in SQS.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from headgate.jobs.core.events import Event, JobSpooled, JobSpoolRefused, JobSubmitted
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import MAX_DELAY
from headgate.jobs.errors import SettingsInvalid, TransportError
from headgate.jobs.messages.envelope import Envelope, parse
from headgate.jobs.retry.backoff import Backoff, check_count
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass

StrPath: TypeAlias = str | os.PathLike[str]

CLOSING_S = 5.0
"""Seconds for which a closing client tries to send the jobs in its spool."""

IDLE_S = 30.0
"""Interval, in seconds, at which an empty spool is looked at for other processes' jobs."""

ELSEWHERE_S = 1.0
"""Seconds until the next look while another process, which may be killed, sends from it."""

_PAUSES = Backoff.exponential(base=1, factor=2, cap=30, jitter="equal")
_ENOUGH_FAILURES = 6  # by then the pauses grow no further, and each failure costs a random number
_MEBIBYTE = 1024 * 1024
_MOST = 2**40  # more than any disk has room for


@frozen_dataclass(frozen=True)
class Spool:
    """A local file that keeps submissions while SQS can't be reached: ``Client(app, spool=...)``.

    It holds payloads, readable by its owner only (mode 0600). It must be on a local disk, since
    SQLite's log doesn't work over a network, and on one that outlives the process. Use one file for
    one app in one account and region: a client that opens it sends all jobs in it.

    Raises:
        SettingsInvalid: a bound is out of range.
    """

    path: StrPath
    _: KW_ONLY
    max_jobs: int = 100_000
    """Maximum number of jobs. The next one is refused with `SpoolFull`."""
    max_bytes: int = 256 * _MEBIBYTE
    """Maximum bytes of messages; the file is somewhat larger, and doesn't shrink."""
    lease: DurationField = DurationField(timedelta(minutes=2))
    """Time for which a process has a queue for itself while it sends some of its jobs, in seconds
    or as a timedelta; at least 1 s. If that takes longer, they may be sent twice. A process that
    ends, or is killed, is noticed at once, except on another machine or before a restart: then its
    jobs wait for the lease."""

    def __post_init__(self) -> None:
        check_count("max_jobs", self.max_jobs, most=_MOST)
        check_count("max_bytes", self.max_bytes, most=_MOST)
        if self.lease < timedelta(seconds=1):
            raise SettingsInvalid(f"Spool(lease=...) must be at least 1 s, got {self.lease}")

    @property
    def name(self) -> str:
        """The path, as shown in errors."""
        return str(Path(self.path))


@frozen_dataclass(frozen=True, kw_only=True)
class SpooledJob:
    """A job in the file, and its message as it would be sent now."""

    id: str
    message: OutgoingMessage

    @cached_property
    def envelope(self) -> Envelope:
        """The message's envelope."""
        return parse(self.message.body)


Sent: TypeAlias = Callable[[Sequence[SpooledJob]], None]
"""Records the jobs that SQS has taken from the file, as
`jobs.client.submitting.submission_records.Register.enter` does."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class SpoolClaim:
    """A queue's oldest jobs, leased to this process."""

    queue: str
    """The physical name."""
    token: str
    """Distinguishes this claim from one made after its lease has expired."""
    good_until_s: float
    """Time on the monotonic clock after which no request begins, so that answers come in time."""
    jobs: tuple[SpooledJob, ...]


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The ends of some of a claim's jobs. All others go on waiting."""

    sent: tuple[SpooledJob, ...] = ()
    refused: tuple[tuple[SpooledJob, str], ...] = ()
    """Jobs whose message is at fault and would block later ones, with SQS's error."""
    error: TransportError | None = None
    """The error for which some jobs go on waiting, if any."""

    def __add__(self, later: Answer) -> Answer:
        return Answer(
            sent=self.sent + later.sent,
            refused=self.refused + later.refused,
            error=self.error or later.error,
        )

    def events(self, claim: SpoolClaim, waiting: int, at: datetime) -> Iterator[Event]:
        """Yield the events to emit once the file is settled and has ``waiting`` jobs left."""
        for job in self.sent:
            yield JobSubmitted(at=at, delay_s=job.message.delay_s, **_names(job.envelope))
        for job, why in self.refused:
            yield JobSpoolRefused(at=at, error=why, **_names(job.envelope))
        if self.error is not None:
            from headgate.jobs.core.events import SpoolFailed  # only once something fails

            yield SpoolFailed(at=at, queue=claim.queue, error=str(self.error), waiting=waiting)


def remaining_delay_s(not_before: datetime | None, now: datetime) -> int:
    """Return the DelaySeconds of a job that has already waited; its due time stays the same."""
    if not_before is None or not_before <= now:
        return 0
    left = min(not_before - now, MAX_DELAY)  # the clock may have been set back meanwhile
    return math.ceil(left.total_seconds())


def spooled(submission: Submission, reason: str, waiting: int, at: datetime) -> JobSpooled:
    """Return the event of a job put into the file, which now has ``waiting`` jobs."""
    return JobSpooled(at=at, reason=reason, waiting=waiting, **_names(submission.envelope))


class Rhythm:
    """The times at which the file is drained: soon after a failure, then less often, with jitter.

    Times are the clock's monotonic seconds.
    """

    def __init__(self, rng: random.Random) -> None:
        self.due_s = float("-inf")
        """Time of the next pass; at first at once, since an earlier process may have left jobs."""
        self._rng = rng
        self._failures = 0
        self._passing = False
        self._missed = False
        """True if a job came in during a pass, possibly too late to be seen by it."""

    def kept(self, now_s: float) -> None:
        """Note that a job came into the file, since SQS could not be reached."""
        if self._passing:
            self._missed = True
        elif not self._failures:
            self._failed(now_s)

    def answered(self, now_s: float) -> None:
        """Note that SQS took another job, so that the waiting jobs are due at once."""
        if self._failures:
            self._failures = 0
            self.due_s = now_s

    def begins(self) -> None:
        """Note that a pass begins."""
        self._passing, self._missed = True, False

    def passed(self, now_s: float, *, clean: bool, elsewhere: bool = False) -> None:
        """Note that a pass has ended.

        Args:
            now_s: the current time.
            clean: whether it sent everything.
            elsewhere: whether another process, which may be killed, sends from the file.
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


def _names(envelope: Envelope) -> dict[str, Any]:
    return {
        "job_id": str(envelope.id),
        "job_type": envelope.type,
        "queue": envelope.queue,
        "priority": envelope.priority,
        "tenant": envelope.tenant,
    }
