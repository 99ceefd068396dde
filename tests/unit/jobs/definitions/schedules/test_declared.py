"""A job type has as many schedules as are declared, each with a payload of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Schedule, cron
from headgate.errors import ConfigurationError, ScheduleDeclared
from headgate.jobs.deployment.checks.check import check
from headgate.testing import Harness

ZONES = {"berlin": "Europe/Berlin", "tokyo": "Asia/Tokyo"}
AT_EIGHT = cron("0 8 * * ? *")


class Report(BaseModel):
    region: str = "all"


class Shop:
    """An app with a report of all regions, and one of each at eight by its own clock."""

    def __init__(self) -> None:
        self.app = App("shop")
        self.ran: list[str] = []

        @self.app.job("daily-report", schedule=cron("0 0 * * ? *"))
        def daily_report(report: Report) -> None:
            self.ran.append(report.region)

        for region, zone in ZONES.items():
            when = cron("0 8 * * ? *", timezone=zone)
            daily_report.add_schedule(region, Report(region=region), schedule=when)
        self.report = daily_report
        self.jobs = Harness(self.app)


def test_each_schedule_fires_at_its_times_with_its_payload() -> None:
    shop = Shop()
    shop.jobs.clock.advance(timedelta(days=1))
    shop.jobs.drain()
    assert shop.ran == ["berlin", "tokyo", "all"]  # 07:00, 23:00 and 24:00 in UTC
    assert {job.source for job in shop.jobs.completed(shop.report)} == {
        "schedule:daily-report",
        "schedule:daily-report.berlin",
        "schedule:daily-report.tokyo",
    }


def test_each_is_paused_moved_and_run_by_its_own_name() -> None:
    shop = Shop()
    schedules = shop.jobs.client.schedules
    assert [each.name for each in schedules.list()] == [
        "daily-report",
        "daily-report.berlin",
        "daily-report.tokyo",
    ]
    schedules.pause("daily-report.tokyo")
    schedules.reschedule("daily-report.berlin", schedule=cron("0 12 * * ? *"))
    shop.jobs.clock.advance(timedelta(hours=23, minutes=30))
    schedules.run_now("daily-report.tokyo")
    shop.jobs.drain()
    assert shop.ran == ["berlin", "tokyo"]
    moved = schedules.get("daily-report.berlin")
    assert (moved.moved, moved.in_code) == (True, cron("0 8 * * ? *", timezone="Europe/Berlin"))
    schedules.reset("daily-report.berlin")
    assert not schedules.get("daily-report.berlin").moved
    with pytest.raises(ScheduleDeclared):
        schedules.remove("daily-report.berlin")


def test_one_made_at_run_time_never_takes_the_place_of_a_declared_one() -> None:
    shop = Shop()
    schedules = shop.jobs.client.schedules
    schedules.create("daily-report.oslo", shop.report, Report(region="oslo"), schedule=AT_EIGHT)
    assert not schedules.get("daily-report.oslo").declared
    assert schedules.get("daily-report.tokyo").declared


@pytest.mark.parametrize(
    ("name", "payload", "schedule", "fault"),
    [
        ("berlin", Report(), AT_EIGHT, "has a schedule 'berlin' already"),
        ("Berlin", Report(), AT_EIGHT, "lower-case words joined by hyphens"),
        ("a.b", Report(), AT_EIGHT, "lower-case words joined by hyphens"),
        ("oslo", 7, AT_EIGHT, "'daily-report.oslo', which submits the payload given with it"),
        ("oslo", Report(), "0 8 * * *", r"must be made by cron\(\.\.\.\)"),
    ],
)
def test_a_wrong_one_is_refused_where_it_is_declared(
    name: str, payload: Any, schedule: Any, fault: str
) -> None:
    shop = Shop()
    with pytest.raises(ConfigurationError, match=fault):
        shop.report.add_schedule(name, payload, schedule=schedule)
    assert len(shop.report.schedules) == 3


@pytest.mark.parametrize("reserved", ["dynamic", "delay"])
def test_a_type_whose_schedules_would_be_taken_for_others_is_refused(reserved: str) -> None:
    job = App("shop").define(reserved)
    with pytest.raises(ConfigurationError, match="rename the type"):
        job.add_schedule("hourly", schedule=Schedule.rate(timedelta(hours=1)))


def test_the_check_names_the_schedule_that_never_fires() -> None:
    shop = Shop()
    shop.report.add_schedule("never", schedule=cron("0 0 31 2 ? *"))
    [fault] = [
        each
        for each in check(shop.app, shop.jobs.clock.now())
        if each.rule == "schedule-never-fires"
    ]
    assert fault.where.endswith("daily-report, schedule daily-report.never")
