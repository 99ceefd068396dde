"""The firing times of schedules, checked with the calendar and dateutil's recurrence rules."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from dateutil import rrule  # type: ignore[import-untyped]  # it has no types of its own
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.definitions.schedules.occurrences import occurrences, period_of

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def times(expression: str, count: int = 3, timezone: str = "UTC", **bounds: datetime) -> list[str]:
    found = occurrences(expression, timezone, **({"since": NOW} | bounds))
    return [f"{at:%Y-%m-%d %H:%M}" for at in islice(found, count)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cron(0 8 * * ? *)", ["2026-03-02 08:00", "2026-03-03 08:00", "2026-03-04 08:00"]),
        ("cron(0/20 12 * * ? *)", ["2026-03-01 12:00", "2026-03-01 12:20", "2026-03-01 12:40"]),
        ("cron(5,50 0 1 1,7 ? *)", ["2026-07-01 00:05", "2026-07-01 00:50", "2027-01-01 00:05"]),
        ("cron(0 9 ? * MON-FRI *)", ["2026-03-02 09:00", "2026-03-03 09:00", "2026-03-04 09:00"]),
        ("cron(0 9 ? * FRI-SUN *)", ["2026-03-06 09:00", "2026-03-07 09:00", "2026-03-08 09:00"]),
        ("cron(0 9 ? * 1 *)", ["2026-03-08 09:00", "2026-03-15 09:00", "2026-03-22 09:00"]),
        ("cron(0 9 ? * 2#1 *)", ["2026-03-02 09:00", "2026-04-06 09:00", "2026-05-04 09:00"]),
        ("cron(0 9 ? * FRIL *)", ["2026-03-27 09:00", "2026-04-24 09:00", "2026-05-29 09:00"]),
        ("cron(0 9 ? * L *)", ["2026-03-07 09:00", "2026-03-14 09:00", "2026-03-21 09:00"]),
        ("cron(0 9 L * ? *)", ["2026-03-31 09:00", "2026-04-30 09:00", "2026-05-31 09:00"]),
        ("cron(0 9 LW * ? *)", ["2026-03-31 09:00", "2026-04-30 09:00", "2026-05-29 09:00"]),
        ("cron(0 9 1W * ? *)", ["2026-03-02 09:00", "2026-04-01 09:00", "2026-05-01 09:00"]),
        ("cron(0 9 31W * ? *)", ["2026-03-31 09:00", "2026-05-29 09:00", "2026-07-31 09:00"]),
        ("cron(0 0 29 2 ? *)", ["2028-02-29 00:00", "2032-02-29 00:00", "2036-02-29 00:00"]),
        ("cron(0 0 1 1 ? 2027,2030)", ["2027-01-01 00:00", "2030-01-01 00:00"]),
        ("cron(0 0 30 2 ? *)", []),
        ("cron(0 0 1 1 ? 2025)", []),
        ("rate(90 minutes)", ["2026-03-01 12:00", "2026-03-01 13:30", "2026-03-01 15:00"]),
        ("rate(1 day)", ["2026-03-01 12:00", "2026-03-02 12:00", "2026-03-03 12:00"]),
        ("at(2026-03-01T12:00:30)", ["2026-03-01 12:00"]),
        ("at(2026-03-01T11:59:59)", []),
    ],
)
def test_an_expression_stands_for_its_times(expression: str, expected: list[str]) -> None:
    assert times(expression) == expected


def test_cron_is_read_by_the_clocks_of_its_time_zone() -> None:
    around = datetime(2026, 3, 27, tzinfo=UTC)
    assert times("cron(0 8 * * ? *)", 4, "Europe/Berlin", since=around) == [
        "2026-03-27 07:00",
        "2026-03-28 07:00",
        "2026-03-29 06:00",  # the clocks went forward in the night
        "2026-03-30 06:00",
    ]


def test_a_time_that_the_clocks_skip_is_left_out() -> None:
    around = datetime(2026, 3, 28, tzinfo=UTC)
    assert times("cron(30 2 * * ? *)", 2, "Europe/Berlin", since=around) == [
        "2026-03-28 01:30",
        "2026-03-30 00:30",
    ]


def test_a_time_that_the_clocks_repeat_counts_once() -> None:
    around = datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert times("cron(30 2 * * ? *)", 2, "Europe/Berlin", since=around) == [
        "2026-10-25 00:30",
        "2026-10-26 01:30",
    ]


def test_at_is_read_by_the_clocks_of_its_time_zone() -> None:
    assert times("at(2026-07-01T08:00:00)", timezone="Europe/Berlin") == ["2026-07-01 06:00"]


def test_a_rate_counts_from_its_start_by_hours_and_not_by_clocks() -> None:
    start = datetime(2026, 2, 20, 8, 30, tzinfo=BERLIN)
    assert times("rate(1 day)", 2, "Europe/Berlin", start=start) == [
        "2026-03-02 07:30",
        "2026-03-03 07:30",
    ]
    after = datetime(2026, 3, 29, 12, tzinfo=UTC)
    assert times("rate(1 day)", 1, "Europe/Berlin", start=start, since=after) == [
        "2026-03-30 07:30"
    ]


def test_nothing_comes_before_the_start_or_after_the_end() -> None:
    start, end = NOW + timedelta(days=2), NOW + timedelta(days=4)
    assert times("cron(0 8 * * ? *)", 9, start=start, end=end) == [
        "2026-03-04 08:00",
        "2026-03-05 08:00",
    ]
    assert times("rate(1 day)", 9, start=start, end=end) == [
        "2026-03-03 12:00",
        "2026-03-04 12:00",
        "2026-03-05 12:00",
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "every day",
        "rate(5 weeks)",
        "rate(0 minutes)",
        "cron(60 8 * * ? *)",
        "cron(0 8 ? * MOON *)",
        "cron(0 8 L-3 * ? *)",
        "at(tomorrow)",
    ],
)
def test_what_cant_be_read_is_a_value_error(expression: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        occurrences(expression, "UTC", since=NOW)


def test_only_a_rate_has_a_period() -> None:
    assert period_of("rate(2 hours)") == timedelta(hours=2)
    with pytest.raises(ValueError, match="not a rate"):
        period_of("cron(0 8 * * ? *)")


def _field(low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=1, max_size=3, unique=True)


def _text(numbers: list[int] | None) -> str:
    return "*" if numbers is None else ",".join(map(str, numbers))


@given(
    minutes=_field(0, 59),
    hours=_field(0, 23),
    days=st.none() | _field(1, 31),
    months=st.none() | _field(1, 12),
    since=st.dates(date(2025, 1, 1), date(2040, 1, 1)),
)
def test_cron_agrees_with_a_recurrence_rule_on_days_of_months(
    minutes: list[int],
    hours: list[int],
    days: list[int] | None,
    months: list[int] | None,
    since: date,
) -> None:
    begin = datetime(since.year, since.month, since.day, tzinfo=UTC)
    expression = f"cron({_text(minutes)} {_text(hours)} {_text(days)} {_text(months)} ? 1970-2060)"
    expected = rrule.rrule(
        rrule.DAILY,
        dtstart=begin,
        until=datetime(2060, 12, 31, 23, 59, tzinfo=UTC),
        byminute=minutes,
        byhour=hours,
        bysecond=0,
        bymonthday=days,
        bymonth=months,
    )
    assert list(islice(occurrences(expression, "UTC", since=begin), 20)) == list(
        islice(expected, 20)
    )


@given(
    weekday=st.integers(1, 7),
    which=st.integers(1, 5) | st.just("L"),
    since=st.dates(date(2025, 1, 1), date(2040, 1, 1)),
)
def test_cron_agrees_with_a_recurrence_rule_on_weekdays_of_months(
    weekday: int, which: int | str, since: date
) -> None:
    begin = datetime(since.year, since.month, since.day, tzinfo=UTC)
    field = f"{weekday}L" if which == "L" else f"{weekday}#{which}"
    named = [rrule.SU, rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA][weekday - 1]
    expected = rrule.rrule(
        rrule.MONTHLY,
        dtstart=begin,
        byweekday=named(-1 if which == "L" else which),
        byhour=9,
        byminute=0,
        bysecond=0,
    )
    found = occurrences(f"cron(0 9 ? * {field} *)", "UTC", since=begin)
    assert list(islice(found, 12)) == list(islice(expected, 12))
