"""Edge cases of schedules: each is valid on AWS, or refused by the field's name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate import Schedule, cron
from headgate.jobs.definitions.schedules import schedule as schedules
from headgate.jobs.definitions.schedules.occurrences import (
    LONGEST_EXPRESSION,
    check_expression,
    occurrences,
)
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.schedules.registry import ScheduleInfo
from headgate.jobs.values.durations import duration
from tests.support import odd_values

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FIRST = datetime.fromisoformat("0001-01-01T00:00:00+14:00")
LAST = datetime.fromisoformat("9999-12-31T23:59:59.999999-12:00")


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("60 8 * * ? *", "the minute '60' .* '60' is not in 0 to 59"),
        ("-1 8 * * ? *", "the minute '-1'"),
        ("5/ 8 * * ? *", "the minute '5/' .* neither a number nor a range"),
        ("/5 8 * * ? *", "the minute '/5'"),
        ("1- 8 * * ? *", "the minute '1-'"),
        ("1-2-3 8 * * ? *", "the minute '1-2-3'"),
        ("*-5 8 * * ? *", r"the minute '\*-5'"),
        ("1,,2 8 * * ? *", "the minute '1,,2'"),
        ("*/0 8 * * ? *", "the step 0 is not in 1 to 59"),
        ("*/60 8 * * ? *", "the step 60 is not in 1 to 59"),
        ("L 8 * * ? *", "the minute 'L'"),
        ("? 8 * * ? *", r"the minute '\?'"),
        ("0 24 * * ? *", "the hour '24'"),
        ("0 8h! * * ? *", "the hour '8h!' is not a cron field"),
        ("0 8-99 * * ? *", "the hour '8-99' .* '99' is not in 0 to 23"),
        ("0 8 0 * ? *", "the day of month '0' .* not in 1 to 31"),
        ("0 8 32 * ? *", "the day of month '32'"),
        ("0 8 0W * ? *", "the day of month '0W'"),
        ("0 8 W * ? *", "the day of month 'W'"),
        ("0 8 32W * ? *", "the day of month '32W'"),
        ("0 8 1-5W * ? *", "the day of month '1-5W'"),
        ("0 8 5L * ? *", "the day of month '5L'"),
        ("0 8 MON * ? *", "the day of month 'MON'"),
        ("0 8 1,? * ? *", r"the day of month '1,\?'"),
        ("0 8 * 0 ? *", "the month '0'"),
        ("0 8 * 13 ? *", "the month '13' .* not in 1 to 12, nor in JAN, FEB"),
        ("0 8 * JANUARY ? *", "the month 'JANUARY'"),
        ("0 8 ? * 0 *", "the day of week '0'"),
        ("0 8 ? * 8 *", "the day of week '8'"),
        ("0 8 ? * MONDAY *", "the day of week 'MONDAY'"),
        ("0 8 ? * MON# *", "the day of week 'MON#'"),
        ("0 8 ? * MON#0 *", "the day of week 'MON#0' .* not in 1 to 5"),
        ("0 8 ? * MON#6 *", "the day of week 'MON#6'"),
        ("0 8 ? * 8#1 *", "the day of week '8#1'"),
        ("0 8 ? * 3#1,6#3 *", "the day of week '3#1,6#3' .* stands alone"),
        ("0 8 ? * 2W *", "the day of week '2W'"),
        ("0 8 ? * 9L *", "the day of week '9L'"),
        ("0 8 * * ? 1800", "the year '1800' .* not in 1970 to 2199"),
        ("0 8 * * ? 2200", "the year '2200'"),
        ("0 8 * * ? 2030-2027", "the range '2030-2027' ends before it starts"),
        ("0 8 * * ? 99999999999999999999", "the year '9+'"),
        ("\u0660 8 * * ? *", "is not a schedule expression"),
        ("0 8 ? * \u017fun *", "is not a schedule expression"),
        ("99 99 45 13 ? 1800", "the minute '99'"),
        ("0,1" + ",2" * 150 + " 8 * * ? *", f"EventBridge Scheduler takes {LONGEST_EXPRESSION}"),
    ],
)
def test_a_cron_field_that_means_nothing_is_refused_by_its_name(
    expression: str, fault: str
) -> None:
    with pytest.raises(SettingsInvalid, match=fault):
        cron(expression)


def lists(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(part, min_size=1, max_size=3).map(",".join)


def numbers(lowest: int, highest: int, *names: str) -> st.SearchStrategy[str]:
    """Draw the forms that AWS documents for one field: numbers, names, ranges and steps."""
    one = st.integers(lowest, highest).map(str)
    if names:
        one |= st.sampled_from(names)
    first = st.just("*") | one | st.tuples(one, one).map("-".join)
    stepped = st.tuples(first, st.integers(1, highest).map(str)).map("/".join)
    return lists(first | stepped)


DAYS = numbers(1, 31) | st.sampled_from(["L", "LW", "1W", "15W", "31W"])
WEEKDAYS = numbers(1, 7, "SUN", "WED", "SAT") | st.sampled_from(["L", "6L", "FRIL", "2#1", "TUE#5"])
ONE_DAY_FIELD = st.tuples(DAYS, st.just("?")) | st.tuples(st.just("?"), WEEKDAYS)
YEARS = st.sampled_from(["*", "2027", "2026-2030", "2026/2", "1970,2199", "2026-2199/7"])


@settings(max_examples=40)  # a rare date takes long to find
@given(
    numbers(0, 59),
    numbers(0, 23),
    ONE_DAY_FIELD,
    numbers(1, 12, "JAN", "DEC"),
    YEARS,
)
def test_every_form_that_aws_documents_is_taken_and_its_times_are_told(
    minute: str, hour: str, days: tuple[str, str], month: str, year: str
) -> None:
    text = f"{minute} {hour} {days[0]} {month} {days[1]} {year}"
    schedule = cron(text)
    assert schedule.expression == f"cron({text})"
    for when in islice(occurrences(schedule.expression, "Europe/Berlin", since=NOW), 2):
        assert when >= NOW


FIELD = st.text("0123456789*,-/?LW#MONFRI ", max_size=8)


@given(st.lists(FIELD, min_size=5, max_size=7).map(" ".join) | st.text(max_size=20))
@example("cron(0 8 * * ? *)")
def test_any_cron_expression_is_accepted_or_refused_with_a_typed_error(text: str) -> None:
    made = outcome(lambda: cron(text))
    if isinstance(made, Schedule):
        check_expression(made.expression)
        list(islice(occurrences(made.expression, made.timezone, since=NOW), 1))


ODD: st.SearchStrategy[object] = st.one_of(
    odd_values.ODD,
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.sampled_from([FIRST, LAST, FIRST.replace(tzinfo=None), LAST.replace(tzinfo=None)]),
    st.timedeltas(),
    st.sampled_from([timedelta.max, timedelta.min, timedelta.resolution, timedelta(0)]),
)


@given(ODD)
@example(timedelta(minutes=1, microseconds=1))
@example(15)
def test_whatever_a_rate_is_it_is_taken_or_refused_by_a_typed_error(every: Any) -> None:
    made = outcome(lambda: Schedule.rate(every))
    if isinstance(made, Schedule):
        assert duration("every", every) % timedelta(minutes=1) == timedelta(0)
        told(made)


@given(ODD)
@example(datetime(2026, 3, 1, 8, 0, 0, 1, tzinfo=UTC))
@example(datetime(2199, 12, 31, 23, 59, 59, 1, tzinfo=UTC))
def test_whatever_a_time_is_it_is_taken_or_refused_by_a_typed_error(moment: Any) -> None:
    made = outcome(lambda: Schedule.at(moment))
    if isinstance(made, Schedule):
        [due] = occurrences(made.expression, made.timezone, since=FIRST)
        instant = moment.astimezone(UTC)  # local sums would lose which of two equal hours it is
        assert instant <= due < instant + timedelta(seconds=1)


@given(
    expression=ODD
    | st.sampled_from(["cron(0 8 * * ? *)", "rate(1 minute)", "rate(999999999 days)"])
    | st.text("crontae()0123456789-T: ", max_size=24),
    timezone=ODD | st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Apia"]),
    flexible_window=ODD,
    start=ODD,
    end=ODD,
)
def test_any_schedule_is_accepted_or_refused_with_a_typed_error(
    **fields: Any,
) -> None:
    made = outcome(lambda: Schedule(**fields))
    if isinstance(made, Schedule):
        told(made)


@pytest.mark.parametrize("now", [NOW, FIRST, LAST])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Niue"])
@pytest.mark.parametrize(
    "when",
    [
        cron("0 0 1 1 ? 1970,2199"),
        cron("59 23 31 12 ? 1970,2199"),
        Schedule.rate(timedelta(minutes=1)),
        Schedule.rate(timedelta(days=999_999_999)),
        Schedule.at(NOW),
    ],
)
def test_the_next_times_can_be_told_at_any_time(when: Schedule, zone: str, now: datetime) -> None:
    zoned = Schedule(expression=when.expression, timezone=zone)
    assert all(1969 <= each.year <= 2200 for each in told(zoned, now))


class Nowhere(tzinfo):
    """A time zone without any information."""

    def utcoffset(self, _when: datetime | None) -> timedelta | None:
        return None

    def dst(self, _when: datetime | None) -> timedelta | None:
        return None

    def tzname(self, _when: datetime | None) -> str | None:
        return None


untyped: Any = schedules
"""The module as code without a type checker uses it."""


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: untyped.cron(5), "the expression must be a string"),
        (lambda: Schedule(expression="every day"), "is not a schedule expression"),
        (lambda: Schedule(expression="at(2026-03-01)"), "is not a time"),
        (lambda: Schedule(expression="at(2026-02-30T08:00:00)"), "at.2026-02-30T08:00:00."),
        (lambda: Schedule(expression="at(2026-03-01T08:00:00+02:00)"), "is not a time"),
        (lambda: Schedule(expression="rate(0 minutes)"), "is not a rate"),
        (lambda: Schedule(expression="rate(1 week)"), "is not a rate"),
        (lambda: Schedule.rate(90), "1 or more whole minutes, .* got 0:01:30"),
        (lambda: untyped.Schedule.rate("15m"), "must be a timedelta or a number of seconds"),
        (lambda: Schedule.rate(timedelta(minutes=1, microseconds=1)), "1 or more whole minutes"),
        (
            lambda: Schedule.at(NOW.replace(tzinfo=Nowhere())),
            "the time must be a datetime with a time zone",
        ),
        (lambda: Schedule.at(LAST), "the time must lie in the years 1970 to 2199"),
        (lambda: cron("0 8 * * ? *", start=FIRST), "start must lie in the years 1970 to 2199"),
        (lambda: cron("0 8 * * ? *", end=LAST), "end must lie in the years 1970 to 2199"),
        (
            lambda: untyped.cron("0 8 * * ? *", end="2027"),
            "end must be a datetime",
        ),
        (lambda: untyped.cron("0 8 * * ? *", timezone=5), "timezone must be the name of one"),
        (lambda: untyped.cron("0 8 * * ? *", timezone=UTC), "timezone must be the name of one"),
        (
            lambda: untyped.cron("0 8 * * ? *", flexible_window=15),
            "flexible_window must be 1 to 1440",
        ),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused_by_its_name(
    make: Callable[[], Schedule], fault: str
) -> None:
    with pytest.raises(SettingsInvalid, match=fault):
        make()


def test_a_time_with_a_fraction_of_a_second_never_fires_before_it() -> None:
    assert Schedule.at(NOW.replace(microsecond=1)).expression == "at(2026-03-01T12:00:01)"


def outcome(make: Callable[[], Schedule]) -> Schedule | SettingsInvalid:
    """Return the schedule, or the error that refuses it."""
    try:
        return make()
    except SettingsInvalid as error:
        return error


def told(when: Schedule, now: datetime = NOW) -> list[datetime]:
    """Return the next times of a schedule."""
    info = ScheduleInfo(
        name="n", job_type="t", when=when, enabled=True, declared=False, created_at=None
    )
    return info.next_times(2, now)
