"""Bounds of a filter by time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from headgate.jobs.values.listing.time_bounds import moment_of
from tests.support.statuses import NOW

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
EAST, WEST = (timezone(timedelta(hours=hours)) for hours in (23, -23))


@pytest.mark.parametrize(
    ("bound", "moment"),
    [
        (None, None),
        (NOW.astimezone(WEST), NOW),
        (timedelta(hours=2), NOW - timedelta(hours=2)),
        (90, NOW - timedelta(seconds=90)),
        (timedelta.max, FIRST),
        (datetime(1, 1, 1, tzinfo=EAST), FIRST),
        (datetime(9999, 12, 31, 23, tzinfo=WEST), LAST),
    ],
)
def test_a_bound_is_a_moment_in_utc_however_far_away(
    bound: datetime | timedelta | float | None, moment: datetime | None
) -> None:
    found = moment_of(bound, NOW)
    assert found == moment
    assert found is None or found.tzinfo is UTC
