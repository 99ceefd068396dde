"""The demo's accounts: each job's history, from the events of clients and workers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headgate.jobs.aws.sqs.transport import Action, RequestMade
from headgate.jobs.core.events import (
    Event,
    JobCompleted,
    JobDeadLettered,
    JobDiscarded,
    JobEvent,
    JobFailed,
    JobQuarantined,
    JobRetryScheduled,
    JobStarted,
    JobSubmitted,
    MessageUnrunnable,
    PollFailed,
    ReceiptLost,
    RecordsFailed,
    SettlementFailed,
)
from headgate.jobs.core.topology import Priority
from headgate.ops.demo.plan import FinalOutcome


@dataclass(slots=True, kw_only=True)
class Account:
    """One job's history."""

    type: str
    submitted: int = 0
    failed: int = 0
    retried: int = 0
    endings: list[FinalOutcome] = field(default_factory=list)
    """Exactly one in a healthy run."""
    reason: str = ""
    """Reason of a dead job."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts for one job type or for all."""

    submitted: int = 0
    done: int = 0
    discarded: int = 0
    retried: int = 0
    dead: Counter[str] = field(default_factory=Counter)
    """Dead jobs by reason."""

    @property
    def ended(self) -> int:
        """Endings of any kind."""
        return self.done + self.discarded + self.dead.total()


class Accounting:
    """Subscriber to events. Not thread-safe: pass it events on the event loop's thread only."""

    def __init__(self) -> None:
        self.jobs: dict[str, Account] = {}
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        """Counts by type, updated with each event: displays need not iterate over all jobs."""
        self.parked: Counter[str] = Counter()
        """Parked messages, which could not become jobs, by reason."""
        self.pickups_s: defaultdict[Priority, list[float]] = defaultdict(list)
        """Seconds from a job's due time to its first start, by priority."""
        self.unrecorded: set[str] = set()
        """Jobs of which a record could not be read or written in time."""
        self.trouble: list[str] = []
        """Events that a healthy run doesn't have."""

    def __call__(self, event: Event) -> None:
        match event:
            case JobEvent():
                self._record(event)
            case MessageUnrunnable(reason=reason, retry_in_s=None):
                self.parked[reason] += 1
            case RecordsFailed(job_id=str(job_id)):
                self.unrecorded.add(job_id)
            case SettlementFailed() | ReceiptLost() | PollFailed():
                self.trouble.append(f"{event.name} at {event.queue}: {event.error}")

    @property
    def total(self) -> Tally:
        """Counts over all types."""
        return total(self.tallies.values())

    def _record(self, event: JobEvent) -> None:
        account = self.jobs.setdefault(event.job_id, Account(type=event.job_type))
        tally = self.tallies[event.job_type]
        match event:
            case JobSubmitted():
                account.submitted += 1
                tally.submitted += 1
            case JobStarted(is_first=True):
                self.pickups_s[event.priority].append(event.waited_s)
            case JobFailed():
                account.failed += 1
            case JobRetryScheduled():
                account.retried += 1
                tally.retried += 1
            case JobCompleted():
                account.endings.append(FinalOutcome.DONE)
                tally.done += 1
            case JobDiscarded():
                account.endings.append(FinalOutcome.DISCARDED)
                tally.discarded += 1
            case JobDeadLettered(reason=reason):
                account.endings.append(FinalOutcome.DEAD)
                account.reason = reason
                tally.dead[reason] += 1
            case JobQuarantined(detail=detail):
                self.trouble.append(f"{event.name}: {event.job_type} {event.job_id}: {detail}")


def total(tallies: Iterable[Tally]) -> Tally:
    """Add up tallies."""
    whole = Tally()
    for tally in tallies:
        whole.submitted += tally.submitted
        whole.done += tally.done
        whole.discarded += tally.discarded
        whole.retried += tally.retried
        whole.dead += tally.dead
    return whole


def percentile(values: Sequence[float], per_cent: float) -> float:
    """Return the smallest value that at least ``per_cent`` % don't exceed (the nearest rank).

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("there is no percentile of no values")
    rank = max(1, math.ceil(len(values) * per_cent / 100))
    return sorted(values)[rank - 1]


class Requests:
    """Counter of requests to SQS by action; may be called from any thread."""

    def __init__(self) -> None:
        self._made: list[Action] = []  # appending is atomic, incrementing a count is not

    def __call__(self, request: RequestMade) -> None:
        self._made.append(request.action)

    @property
    def by_action(self) -> Counter[Action]:
        """Requests by action, the most frequent first."""
        return Counter(dict(Counter(self._made).most_common()))
