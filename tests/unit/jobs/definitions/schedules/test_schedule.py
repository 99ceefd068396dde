from __future__ import annotations

import zoneinfo
from datetime import timedelta

import pytest

from headgate import Schedule, cron
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.values.durations import Duration


@pytest.mark.parametrize(
    "expression",
    ["0 8 * * ? *", "0/15 8-17 ? * MON-FRI *", "0 0 L * ? 2027-2030", "30 6 ? 1,7 2#1 *"],
)
def test_a_cron_expression_becomes_eventbridge_s(expression: str) -> None:
    assert cron(expression).expression == f"cron({expression})"


def test_extra_blanks_are_taken_out_of_a_cron_expression() -> None:
    assert cron("  0  8 * * ? *\n").expression == "cron(0 8 * * ? *)"


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("", "has 0 fields; EventBridge takes six: minute, hour"),
        ("0 8 * * *", "has 5 fields.*From crontab's five: put .? for one of the day fields"),
        ("0 8 * * ? * *", "has 7 fields"),
        ("cron(0 8 * * ? *)", r"the minute 'cron\(0' is not a cron field"),
        ("0 8h! * * ? *", "the hour '8h!' is not a cron field"),
        ("0 8 * * * *", r"exactly one of day of month \(\*\) and day of week \(\*\) must be \?"),
        ("0 8 ? * ? *", r"exactly one of day of month \(\?\) and day of week \(\?\) must be \?"),
        ("0 8 1 * MON *", r"exactly one of day of month \(1\) and day of week \(MON\) must be \?"),
    ],
)
def test_a_faulty_cron_expression_is_refused_with_the_field(expression: str, fault: str) -> None:
    with pytest.raises(SettingsInvalid, match=fault):
        cron(expression)


@pytest.mark.parametrize(
    ("every", "expression"),
    [
        (timedelta(minutes=1), "rate(1 minute)"),
        (timedelta(minutes=15), "rate(15 minutes)"),
        (timedelta(minutes=90), "rate(90 minutes)"),
        (timedelta(hours=1), "rate(1 hour)"),
        (timedelta(hours=36), "rate(36 hours)"),
        (timedelta(days=1), "rate(1 day)"),
        (timedelta(weeks=2), "rate(14 days)"),
    ],
)
def test_a_rate_is_written_in_the_largest_unit_that_fits(every: timedelta, expression: str) -> None:
    assert Schedule.rate(every).expression == expression


@pytest.mark.parametrize(
    "every",
    [timedelta(0), timedelta(seconds=30), timedelta(seconds=90), 90, 0.5],
)
def test_a_rate_that_is_no_whole_number_of_minutes_is_refused(every: Duration) -> None:
    with pytest.raises(SettingsInvalid, match=r"rate\(every\) must be 1 or more whole minutes"):
        Schedule.rate(every)


@pytest.mark.parametrize("every", [timedelta(minutes=-5), -60])
def test_a_negative_rate_is_refused(every: Duration) -> None:
    with pytest.raises(SettingsInvalid, match=r"rate\(every\) must not be negative"):
        Schedule.rate(every)


def test_a_cron_expression_is_read_in_utc_unless_it_names_a_zone() -> None:
    assert cron("0 8 * * ? *").timezone == "UTC"
    assert cron("0 8 * * ? *", timezone="Europe/Berlin").timezone == "Europe/Berlin"


@pytest.mark.parametrize("zone", ["", "Berlin", "Mars/Olympus", "../etc/passwd", "Europe", "CEST"])
def test_an_unknown_time_zone_is_refused_with_the_expression(zone: str) -> None:
    with pytest.raises(SettingsInvalid, match=rf"cron\(0 8 .*'{zone}' is not an IANA time zone"):
        cron("0 8 * * ? *", timezone=zone)


def test_utc_needs_no_time_zone_data_and_other_zones_say_that_it_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_data(name: str) -> None:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", no_data)
    assert cron("0 8 * * ? *").timezone == "UTC"
    with pytest.raises(SettingsInvalid, match="pip install tzdata"):
        cron("0 8 * * ? *", timezone="Europe/Berlin")


@pytest.mark.parametrize(
    "window",
    [timedelta(0), timedelta(seconds=90), timedelta(minutes=-1), timedelta(minutes=1441), 90],
)
def test_a_flexible_window_is_1_to_1440_whole_minutes(window: Duration) -> None:
    with pytest.raises(SettingsInvalid, match=r"flexible_window must (be 1 to 1440 whole|not be)"):
        Schedule.rate(timedelta(hours=1), flexible_window=window)
    fitting = timedelta(minutes=15)
    assert cron("0 8 * * ? *", flexible_window=fitting).flexible_window == fitting


def test_a_schedule_is_a_value() -> None:
    assert cron("0 8 * * ? *") == Schedule(expression="cron(0 8 * * ? *)")
