"""The retry policy of a job type: attempts, errors worth a retry, and delays."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from typing import Literal

from headgate.jobs.errors import ChildFailed, SettingsInvalid, did_you_mean
from headgate.jobs.retry.backoff import Backoff, check_count, nth
from headgate.jobs.retry.backoff_context import BackoffContext
from headgate.jobs.retry.classification import ErrorKind, classify, combined, leaves
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.light_dataclass import frozen_dataclass

_RETRY_AFTER_JITTER = 0.2
_MOST_ATTEMPTS = 1000
_UNKNOWNS = ("retry", "dead-letter")


def _check_classes(name: str, classes: object) -> None:
    if not isinstance(classes, tuple):
        raise SettingsInvalid(
            f"{name} must be a tuple of exception classes, such as (TimeoutError,), got {classes!r}"
        )
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise SettingsInvalid(f"{name} must hold exception classes, got {cls!r}")


_DEFAULT_BACKOFF = Backoff.exponential()


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The number of a job's attempts, the errors worth another one, and the delays between them.

    ``never_on`` takes precedence over ``retry_on``, which takes precedence over `classify`. Both
    match subclasses. An exception group is judged by its members: list their classes, not that of
    the group.

    Raises:
        SettingsInvalid: a field is out of range, or contradicts another.
    """

    max_attempts: int = 3
    """Number of attempts, the first included: 1 (no retry) to 1000, SQS's own limit on receives."""
    backoff: Backoff = _DEFAULT_BACKOFF
    retry_on: tuple[type[BaseException], ...] = ()
    """Errors that are always worth another attempt."""
    never_on: tuple[type[BaseException], ...] = ()
    """Errors that are never worth one: the job goes to the dead-letter queue at once."""
    unknown: Literal["retry", "dead-letter"] = "retry"
    """Action for an error that is neither listed here nor of a known kind."""

    def __post_init__(self) -> None:
        check_count("max_attempts", self.max_attempts, most=_MOST_ATTEMPTS)
        if not isinstance(self.backoff, Backoff):
            raise SettingsInvalid(
                f"backoff must be a Backoff, such as Backoff.fixed(30), got {self.backoff!r}"
            )
        _check_classes("retry_on", self.retry_on)
        _check_classes("never_on", self.never_on)
        if shadowed := [cls for cls in self.retry_on if issubclass(cls, self.never_on)]:
            raise SettingsInvalid(
                f"{shadowed[0].__qualname__} is in retry_on, but never_on wins and has it or a "
                "base of it: take it out of one of them"
            )
        if self.unknown not in _UNKNOWNS:
            raise SettingsInvalid(
                f"unknown must be one of {', '.join(_UNKNOWNS)}, got {self.unknown!r}: "
                f"{did_you_mean(str(self.unknown), _UNKNOWNS)}"
            )

    def kind_of(self, error: BaseException) -> ErrorKind:
        """Classify an error under this policy, before ``unknown`` is applied."""
        return combined(map(self._kind_of_leaf, leaves(error)))

    def should_retry(self, error: BaseException) -> bool:
        """Return True if the error is worth another attempt; doesn't check if one is left."""
        if isinstance(error, ChildFailed):
            return error.retryable  # decided in the child, which had the error itself
        match self.kind_of(error):
            case ErrorKind.TRANSIENT:
                return True
            case ErrorKind.PERMANENT:
                return False
            case ErrorKind.UNKNOWN:
                return self.unknown == "retry"

    def _kind_of_leaf(self, error: BaseException) -> ErrorKind:
        if isinstance(error, self.never_on):
            return ErrorKind.PERMANENT
        if isinstance(error, self.retry_on):
            return ErrorKind.TRANSIENT
        return classify(error)


DEFAULT_RETRY = Retry()
"""The policy of a job type that declares none."""


@frozen_dataclass(frozen=True, kw_only=True)
class CrashLimit:
    """The number of a job's attempts that may end with the death of their process.

    Raises:
        SettingsInvalid: a field is out of range.
    """

    crashes: int = 3
    """Number of crashes, 1 to 1000; the last one puts the job into quarantine."""
    within: DurationField = DurationField(timedelta(minutes=5), positive=True)
    """The window in which crashes add up, in seconds or as a timedelta. A crash is noticed only
    when its message is visible again, so the queue's visibility timeout is added once for each
    crash."""

    def __post_init__(self) -> None:
        check_count("crashes", self.crashes, most=_MOST_ATTEMPTS)

    def window(self, visibility: timedelta) -> timedelta:
        """Return the time within which crashes add up, on a queue with that visibility timeout."""
        return self.within + self.crashes * visibility


DEFAULT_CRASH_LIMIT = CrashLimit()
"""Three crashes within five minutes."""


def retry_delay_s(
    retry: Retry,
    attempt: int,
    rng: random.Random,
    *,
    asked_s: float | None = None,
    backlog: int = 0,
    failed: BackoffContext | None = None,
) -> int:
    """Return the whole seconds to wait after ``attempt`` (from 1) failed.

    The wait that the error asks for wins over the backoff, with up to 20 % on top, so that jobs
    with the same answer don't return together; it is never shortened, and so rounded up. An error
    that asks for a wait of 0 is left to the backoff: retried at once, a job would use up its
    attempts on a server whose clock is wrong.

    Args:
        retry: the policy, whose backoff applies otherwise.
        attempt: the number of the failed attempt.
        rng: a fresh `job_rng`. The same number of it is used, whichever of the two sets the delay.
        asked_s: seconds that the error asks for, as `retry_after_s` reads them; None for none.
        backlog: the number of the queue's visible messages; 0 if unknown.
        failed: the failure, for a custom backoff; None if nothing but the attempt is known.

    Raises:
        ValueError: ``attempt`` is below 1.
        SettingsInvalid: a custom backoff failed; see `Backoff.custom`.
    """
    if not asked_s:
        return round(retry.backoff.delay_s(attempt, rng, backlog, failed))
    jitter = _RETRY_AFTER_JITTER * nth(iter(rng.random, None), attempt)
    return math.ceil(asked_s * (1 + jitter))
