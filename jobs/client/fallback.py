"""Fallbacks of a client while SQS can't be reached: jobs are kept in a file, or run in place.

A client has at most one fallback. `may_fall_back` decides which failures it handles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from headgate.jobs.client.spool.policy import Spool, StrPath
from headgate.jobs.core.events import Events
from headgate.jobs.errors import HeadgateError, SettingsInvalid, TransportError
from headgate.jobs.submission.prepare import Submission

Result: TypeAlias = HeadgateError | None
"""The error of a submission, or None if it succeeded."""

FallbackName: TypeAlias = Literal["inline"]


class Fallback(Protocol):
    """A fallback of a client. That of a `headgate.Client` is thread-safe, and never suspends."""

    @property
    def stores(self) -> bool:
        """True if it stores what it takes, which has to be sealed then if the app seals."""
        ...

    async def open(self) -> None:
        """Get ready. Idempotent."""
        ...

    async def takes(self, submissions: Sequence[Submission]) -> bool:
        """Take submissions of one queue before SQS is asked; return True if they were taken."""
        ...

    async def instead(
        self, submissions: Sequence[Submission], results: Sequence[Result]
    ) -> Sequence[Result]:
        """Handle the submissions that SQS could not be asked to take; return all new results."""
        ...

    async def close(self) -> None:
        """Shut down in order, within a bounded time. Idempotent."""
        ...


def may_fall_back(result: Result) -> bool:
    """Return True if SQS could not be reached, or failed: the same call may succeed later.

    `TransportError.transient` decides. Missing credentials, queues or permissions are no outage,
    and a message that is itself at fault would be refused later too.
    """
    return isinstance(result, TransportError) and result.transient


def lost(
    submissions: Sequence[Submission], results: Sequence[Result]
) -> tuple[list[Submission], Result]:
    """Return the submissions that may fall back, and the first one's error; or none, and None."""
    found = [
        (submission, result)
        for submission, result in zip(submissions, results, strict=True)
        if may_fall_back(result)
    ]
    return [submission for submission, _ in found], found[0][1] if found else None


def replaced(results: Sequence[Result], outcome: Result) -> list[Result]:
    """Return the results, with ``outcome`` in place of those that had to fall back."""
    return [outcome if may_fall_back(result) else result for result in results]


def check_choice(spool: StrPath | Spool | None, fallback: str | None) -> Spool | None:
    """Read a client's ``spool=`` and ``fallback=``.

    Raises:
        SettingsInvalid: there is no such fallback, or both are given.
    """
    if fallback not in (None, "inline"):
        raise SettingsInvalid(f'fallback must be "inline" or None, got {fallback!r}')
    if spool is not None and fallback is not None:
        raise SettingsInvalid(
            'spool= and fallback="inline" exclude each other: a job either waits until SQS can be '
            "reached, or runs at once"
        )
    return spool if spool is None or isinstance(spool, Spool) else Spool(spool)


def events_of(given: Events | None, *, falls_back: bool) -> Events:
    """Return a client's events: the given ones or, with a fallback, new ones that are logged."""
    if given is not None or not falls_back:
        return given or Events()
    from headgate.jobs.core.event_log import log_event  # has all kinds of events

    return Events(log_event)
