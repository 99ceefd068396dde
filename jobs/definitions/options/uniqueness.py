"""Uniqueness of jobs, as a type or a submission declares it: `Unique`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, get_args

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.light_dataclass import frozen_dataclass

UniqueKey = str | Callable[[Any], str]

Kept = Literal["first", "last"]

LONGEST_UNIQUE = timedelta(days=365)
"""The longest duration of uniqueness."""


@frozen_dataclass(frozen=True, slots=True, init=False)
class Unique:
    """Equal submissions count as one job: ``Unique(within=timedelta(hours=1))``.

    Submissions are equal if they are of the same type and tenant, and have an equal key. Option of
    a job type, or of a single submission.

    Args:
        within: the time from a job's submission for which equal submissions count as that job; a
            timedelta or seconds, more than 0 and at most 365 days.
        key: a text, or a function from the payload to one; None takes the whole payload.
        keep: the submission that runs. With ``first`` the others get the handle of the first one's
            job. With ``last`` an earlier one that has not started never does; submissions of one
            process are in call order, and those of different processes are ordered by their
            clocks' milliseconds.

    Raises:
        SettingsInvalid: a value is of the wrong type or out of range.

    Example:
        >>> @app.job("sync-shop", unique=Unique(within=60, key=lambda sync: sync.shop))
        ... async def sync_shop(sync: Sync) -> None: ...  # doctest: +SKIP
    """

    within: timedelta
    key: UniqueKey | None
    keep: Kept

    def __init__(
        self, *, within: Duration, key: UniqueKey | None = None, keep: Kept = "first"
    ) -> None:
        checked: Any = key
        if not (checked is None or callable(checked) or (isinstance(checked, str) and checked)):
            raise SettingsInvalid(
                f"Unique(key=...) must be a string or a function of the payload, got {key!r}"
            )
        if keep not in get_args(Kept):
            raise SettingsInvalid(f"Unique(keep=...) must be 'first' or 'last', got {keep!r}")
        object.__setattr__(self, "within", _checked_within(within))
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "keep", keep)


def _checked_within(within: Duration) -> timedelta:
    length = duration("Unique(within=...)", within, positive=True)
    if length > LONGEST_UNIQUE:
        raise SettingsInvalid(
            f"Unique(within=...) must be at most {LONGEST_UNIQUE.days} days, got {length}"
        )
    return length
