"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headgate.ops.console.figures.charts import curve
from headgate.ops.console.words import clock_time, exact, number, plural, shown, span


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "?"), (0, "0"), (9_999, "9,999"), (12_345, "12.3k"), (999_999, "1000k")),
        *((4_100_000, "4.1M"), (2.5, "2.5"), (120.4, "120")),
    ],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0s"), (0.34, "340ms"), (0.0001, "1ms"), (9.99, "9.9s"), (59.4, "59s")),
        *((59.6, "1m"), (3_600, "1h"), (7_500, "2h 5m"), (90_000, "1d 1h"), (86_460, "1d")),
        *((-5, "-5s"), (None, "?")),
    ],
)
def test_spans_have_two_units(seconds: float | None, text: str) -> None:
    assert span(seconds) == text
    assert span(None if seconds is None else timedelta(seconds=seconds)) == text


def test_counts_have_their_nouns_and_exact_numbers_are_whole() -> None:
    assert (plural(1, "job"), plural(1_200, "job")) == ("1 job", "1,200 jobs")
    assert plural(2, "entry", "entries") == "2 entries"
    assert (exact(1_234_567), exact(0.5), exact(None)) == ("1,234,567", "0.50", "unknown")


def test_a_time_of_another_day_has_its_date() -> None:
    now = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
    assert clock_time(now - timedelta(hours=1), now) == "08:00:00"
    assert clock_time(now - timedelta(hours=10), now) == "Nov 01 23:00"


def test_nothing_shown_can_turn_text_round() -> None:
    assert shown("a\u202eb\x00") == "a\\u202eb\\x00"
    assert (shown(None), shown(7)) == ("", 7)


def test_a_curve_spans_the_box() -> None:
    drawn = curve([0, 1, 2], [0, 5, 10])
    assert drawn.points == "0.0,46.0 150.0,24.0 300.0,2.0"
    assert (drawn.last, drawn.most) == (10, 10)
    assert curve([], []).points == ""
    assert curve([3], [0]).points == "0.0,46.0"
