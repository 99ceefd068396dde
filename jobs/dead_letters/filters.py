"""Filters of dead letters."""

from __future__ import annotations

from datetime import UTC, datetime

from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.messages.bundles import job_in
from headgate.jobs.values.durations import Duration
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.listing.selections import check_selection
from headgate.jobs.values.listing.time_bounds import moment_of

_OWNER = "a DeadLetterFilter"
_TEXTS = ("ids", "types", "reasons", "errors", "queues", "tenants")


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Selects dead letters: by all of the fields that are given, and by any of a field's values.

    >>> lately = DeadLetterFilter(types=("send-email",), errors=("timeout",),
    ...                           since=timedelta(hours=2))

    Raises:
        ConfigurationError: a value is of the wrong kind or empty, a time has no time zone, an age
            is negative, or nothing can be as young and as old as that; the error names the field.
    """

    ids: tuple[str, ...] = ()
    """Ids of jobs, or SQS's ids of messages. The id of a job in a bundle selects the bundle."""
    types: tuple[str, ...] = ()
    """Names of job types."""
    reasons: tuple[str, ...] = ()
    """The reasons of docs/dead-letters.md."""
    errors: tuple[str, ...] = ()
    """Names of the last error's class, or parts of its message; in upper or lower case."""
    queues: tuple[str, ...] = ()
    """Names of queues: logical, or the physical one of where a letter lies or came from."""
    tenants: tuple[str, ...] = ()
    """The tenants' ``org``."""
    since: datetime | Duration | None = None
    """Only those that died at or after a time, which is aware, or at most as long ago as an age, a
    timedelta or a number of seconds."""
    until: datetime | Duration | None = None
    """Only those that died before a time, or longer ago than an age; given as ``since``."""

    def __post_init__(self) -> None:
        check_selection(_OWNER, self, _TEXTS)

    def matches(self, letter: DeadLetter, *, now: datetime | None = None) -> bool:
        """Return True if a letter is selected.

        Args:
            letter: the letter.
            now: the time that ages are counted from; None: this machine's.
        """
        return (
            self._has_id(letter)
            and _is_any(self.types, letter.job_type)
            and _is_any(self.reasons, letter.reason)
            and self._has_error(letter)
            and _is_any(self.queues, letter.queue, letter.origin, letter.group)
            and _is_any(self.tenants, letter.tenant)
            and self._is_of_time(letter.died_at, now or datetime.now(UTC))
        )

    def _has_id(self, letter: DeadLetter) -> bool:
        if _is_any(self.ids, letter.job_id, letter.message_id):
            return True
        content = letter.content
        return content is not None and any(job_in(content.body, each) for each in self.ids)

    def _has_error(self, letter: DeadLetter) -> bool:
        kind, message = letter.error_type.casefold(), letter.error_message.casefold()
        wanted = [each.casefold() for each in self.errors]
        return not wanted or any(each == kind or each in message for each in wanted)

    def _is_of_time(self, died_at: datetime, now: datetime) -> bool:
        since, before = moment_of(self.since, now), moment_of(self.until, now)
        return (since is None or died_at >= since) and (before is None or died_at < before)


def _is_any(wanted: tuple[str, ...], *names: str | None) -> bool:
    return not wanted or any(name in wanted for name in names)
