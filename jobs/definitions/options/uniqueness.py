"""Uniqueness of jobs: `Unique`, and the key that equal submissions share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import UNIQUE
from headgate.jobs.errors import OptionInvalid, SettingsInvalid
from headgate.jobs.messages.envelope import UniqueBy, UniqueMode
from headgate.jobs.values.durations import Duration, duration

UniqueKey = str | Callable[[Any], str]

Kept = Literal["first", "last"]

LONGEST_UNIQUE = timedelta(days=365)
"""The longest duration of uniqueness."""

_MODES: dict[Kept, UniqueMode] = {"first": "first", "last": "replace"}
"""The values of ``keep`` as messages have them."""


@dataclass(frozen=True, slots=True, init=False)
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


def unique_by(
    unique: Unique, job_type: str, payload: Any, dumped: Any, tenant: Tenant | None
) -> UniqueBy:
    """Return the uniqueness of a job as its message has it.

    Args:
        unique: the option.
        job_type: the type's name.
        payload: the payload as submitted.
        dumped: the payload as JSON values.
        tenant: the job's tenant.

    Raises:
        OptionInvalid: the function for keys didn't return a non-empty text.
    """
    mode = _MODES[unique.keep]
    parts = [job_type, tenant.org if tenant else None, *_sameness(unique.key, payload, dumped)]
    return UniqueBy(
        key=hashlib.sha256(_canonical([mode, *parts])).hexdigest()[:40],
        for_s=unique.within.total_seconds(),
        mode=mode,
    )


def _sameness(key: UniqueKey | None, payload: Any, dumped: Any) -> list[Any]:
    if key is None:
        return ["payload", dumped]
    found: Any = key(payload) if callable(key) else key
    if not isinstance(found, str) or not found:
        raise OptionInvalid(
            f"the function Unique(key=...) must return a non-empty string, got {found!r}"
        )
    return ["key", found]


def place(by: UniqueBy) -> Item:
    """Return the table item, without data, that holds the claim on a key."""
    return Item(pk=f"{UNIQUE}{by.key}", sk="claim")


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
