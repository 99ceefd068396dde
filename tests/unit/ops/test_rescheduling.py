"""New times of a schedule: what stays, and what doesn't go with them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headgate import Schedule, cron
from headgate.jobs.errors import SettingsInvalid
from headgate.ops.rescheduling import with_expression

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOUNDED = cron(
    "0 2 * * ? *",
    start=NOW - timedelta(days=1),
    end=NOW + timedelta(days=1),
    flexible_window=timedelta(minutes=10),
)


@pytest.mark.parametrize("expression", ["rate(2 hours)", "cron(0 3 * * ? *)"])
def test_start_end_and_window_stay(expression: str) -> None:
    moved, dropped = with_expression(BOUNDED, expression, "Europe/Berlin", NOW)
    assert moved == replace(BOUNDED, expression=expression, timezone="Europe/Berlin")
    assert dropped == []


def test_one_time_has_neither_start_nor_end_and_keeps_its_window() -> None:
    once = "at(2026-02-01T08:00:00)"
    moved, dropped = with_expression(BOUNDED, once, "UTC", NOW)
    assert moved == Schedule(expression=once, flexible_window=timedelta(minutes=10))
    assert [each.split(" (")[0] for each in dropped] == ["its start", "its end"]


def test_an_end_that_has_passed_would_leave_no_time_and_is_dropped() -> None:
    moved, [dropped] = with_expression(BOUNDED, "rate(1 hour)", "UTC", NOW + timedelta(days=2))
    assert moved.end is None
    assert dropped.endswith("is dropped: it has passed")


def test_what_aws_would_refuse_is_refused() -> None:
    with pytest.raises(SettingsInvalid, match="Mars/Base"):
        with_expression(BOUNDED, "rate(1 hour)", "Mars/Base", NOW)
