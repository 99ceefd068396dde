"""The filter of dead letters, as it stands in the address."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.values.listing.time_bounds import end_by
from headgate.ops.console.forms import Fields
from headgate.ops.console.pages.wanted import Wanted

_NAMES = ("id", "type", "reason", "error", "queue", "tenant")
_LONGEST = 300


def wanted_letters(fields: Fields) -> Wanted:
    """Read the filter from a query or a form; raises as `Wanted.of`."""
    return Wanted.of(fields, _NAMES, most=_LONGEST)


def letter_filter(wanted: Wanted) -> DeadLetterFilter:
    """Return the library's filter.

    Raises:
        HTTPException: an age or a time can't be read.
        ConfigurationError: nothing can be as young and as old.
    """
    return DeadLetterFilter(
        ids=wanted.values("id"),
        types=wanted.values("type"),
        reasons=wanted.values("reason"),
        errors=wanted.values("error"),
        queues=wanted.values("queue"),
        tenants=wanted.values("tenant"),
        since=wanted.time("since"),
        until=wanted.time("until"),
    )


def until_at_most(wanted: Wanted, at: datetime) -> Wanted:
    """Return the same filter without what dies after a time, or comes to be as old as it asks for
    after that."""
    return wanted.having("until", end_by(wanted.time("until"), at).isoformat())


def narrowed(wanted: Wanted, group: Mapping[str, str | None]) -> Wanted | None:
    """Return the same filter for one group's letters; None if no filter selects these.

    Args:
        wanted: the filter.
        group: what the letters have in common, as `LetterCount.group`.
    """
    if None in group.values():
        return None
    for name, value in group.items():
        if name != "hour":
            wanted = wanted.having(name, str(value))
            continue
        begin = datetime.fromisoformat(str(value))
        wanted = wanted.having("since", begin.isoformat())
        wanted = wanted.having("until", (begin + timedelta(hours=1)).isoformat())
    return wanted
