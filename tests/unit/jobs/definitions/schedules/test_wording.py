"""Schedules in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.definitions.schedules.occurrences import check_expression
from headgate.jobs.definitions.schedules.wording import in_words

WORDS = {
    "rate(1 day)": "Every day",
    "rate(15 minutes)": "Every 15 minutes",
    "at(2026-03-01T08:00:00)": "Once, at 2026-03-01 08:00:00",
    "cron(15 10 * * ? *)": "At 10:15",
    "cron(0 9,17 ? * MON-FRI *)": "At 09:00 and 17:00, Monday to Friday",
    "cron(0 9 ? * 2-6 *)": "At 09:00, Monday to Friday",
    "cron(0 9 ? * SUN,WED *)": "At 09:00, Sunday and Wednesday",
    "cron(* * * * ? *)": "Every minute",
    "cron(0/5 8-17 ? * 2-6 *)": "Every 5 minutes from 08:00 to 17:55, Monday to Friday",
    "cron(2/15 * * * ? *)": "Every 15 minutes, from minute 2 on",
    "cron(30 * * * ? *)": "Every hour, at minute 30",
    "cron(0 0/2 * * ? *)": "Every 2 hours",
    "cron(0 1/2 * * ? *)": "Every 2 hours from 01:00",
    "cron(0 0 L * ? *)": "At 00:00, on the last day of the month",
    "cron(0 0 LW * ? *)": "At 00:00, on the last weekday of the month",
    "cron(0 8 1W * ? *)": "At 08:00, on the weekday nearest to day 1 of the month",
    "cron(0 8 1,15 JAN,JUL ? *)": "At 08:00, on days 1 and 15 of the month, in January and July",
    "cron(0 8 3 * ? 2026)": "At 08:00, on day 3 of the month, in 2026",
    "cron(0 18 ? * 6#3 2027-2029)": ("At 18:00, on the third Friday of the month, in 2027 to 2029"),
    "cron(0 9 ? * 6L *)": "At 09:00, on the last Friday of the month",
    "cron(1,2,4,8,16,32 7 * * ? *)": "",
}

NEW_TO_US = ("cron(0 9 ? * 6M *)", "cron(0 8 * * ?)", "cron(99 8 * * ? *)", "")
"""Expressions that AWS may accept one day."""


@pytest.mark.parametrize("expression", WORDS)
def test_a_schedule_is_said_as_people_say_it(expression: str) -> None:
    check_expression(expression)
    assert in_words(expression) == WORDS[expression]


@pytest.mark.parametrize("expression", NEW_TO_US)
def test_nothing_is_said_of_an_expression_that_cannot_be_read(expression: str) -> None:
    assert in_words(expression) == ""


def fields(*texts: str) -> st.SearchStrategy[str]:
    """Return lists of one or two of these texts, and each alone."""
    return st.lists(st.sampled_from(texts), min_size=1, max_size=2).map(",".join)


DAYS = st.one_of(
    st.tuples(fields("*", "1", "31", "5-9", "L", "LW", "15W", "1/10"), st.just("?")),
    st.tuples(st.just("?"), fields("*", "2", "SUN", "FRI-MON", "6L", "L", "2/2")),
    st.tuples(st.just("?"), st.sampled_from(["1#1", "SAT#5"])),
)


@given(
    minute=fields("*", "0", "59", "0/7", "5-9"),
    hour=fields("*", "0", "23", "*/2", "22-4"),
    days=DAYS,
    month=fields("*", "1", "DEC", "NOV-FEB", "1/3"),
    year=fields("*", "2026", "2026-2030", "2026/50"),
)
def test_whatever_can_fire_is_said_or_left_to_its_expression(
    minute: str, hour: str, days: tuple[str, str], month: str, year: str
) -> None:
    expression = f"cron({minute} {hour} {days[0]} {month} {days[1]} {year})"
    check_expression(expression)
    assert isinstance(in_words(expression), str)
    assert in_words(expression.lower()) == in_words(expression)
