"""Filters of listed jobs."""

from __future__ import annotations

from datetime import UTC, datetime

from headgate.jobs.errors import ConfigurationError, did_you_mean
from headgate.jobs.records.lists.entries import STATES, ListEntry
from headgate.jobs.records.state import JobState
from headgate.jobs.values.durations import Duration
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.listing.selections import check_selection
from headgate.jobs.values.listing.time_bounds import moment_of

_OWNER = "a JobFilter"
_TEXTS = ("states", "types", "queues", "tenants")

LISTED = frozenset(STATES.values()) - {JobState.WAITING}
"""The states whose jobs are listed."""

_ELSEWHERE = {
    JobState.WAITING: "SQS tells only how many wait: see `headgate queues list`",
    JobState.DELAYED: "a schedule or SQS holds each: look one up by its id",
    JobState.UNKNOWN: "nothing is recorded of them",
}


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Selects listed jobs: by all of the fields that are given, and by any of a field's values.

    >>> lately = JobFilter(states=("dead",), types=("send-email",), since=timedelta(hours=2))

    Raises:
        ConfigurationError: a value is of the wrong kind or empty, jobs of a state are not listed, a
            time has no time zone, an age is negative, or nothing can be as young and as old as
            that; the error names the field.
    """

    states: tuple[str, ...] = ()
    """``running``, ``retrying``, ``dead``, ``quarantined``, ``cancelled``, ``completed``,
    ``discarded`` or ``dropped``; as texts, or a `JobState`."""
    types: tuple[str, ...] = ()
    """Names of job types, which need not exist any more; if none is given, all that the app has."""
    queues: tuple[str, ...] = ()
    """Names of queue groups."""
    tenants: tuple[str, ...] = ()
    """The tenants' ``org``."""
    since: datetime | Duration | None = None
    """Only those that got into their state at or after a time, which is aware, or at most as long
    ago as an age, a timedelta or a number of seconds."""
    until: datetime | Duration | None = None
    """Only those that got into it before a time, or longer ago than an age; as ``since``."""

    def __post_init__(self) -> None:
        check_selection(_OWNER, self, _TEXTS)
        for state in self.states:
            _check_state(state)

    def bounds(self, now: datetime) -> tuple[str, str]:
        """Return the places between which the entries lie, for ages that count from ``now``."""
        return _place(moment_of(self.since, now)), _place(moment_of(self.until, now))

    def matches(self, entry: ListEntry) -> bool:
        """Return True if an entry is of one of the queues and tenants."""
        return (not self.queues or entry.queue in self.queues) and (
            not self.tenants or entry.tenant in self.tenants
        )

    def has_state(self, state: JobState) -> bool:
        """Return True if jobs in that state are selected."""
        return not self.states or state in self.states


def _place(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).isoformat()


def _check_state(state: str) -> None:
    if state in LISTED:
        return
    if state in [*JobState]:
        raise ConfigurationError(
            f"{_OWNER}: jobs that are {state!s} are not listed: {_ELSEWHERE[JobState(state)]}"
        )
    raise ConfigurationError(
        f"{_OWNER}: there is no state {state!r}: {did_you_mean(str(state), map(str, LISTED))}"
    )
