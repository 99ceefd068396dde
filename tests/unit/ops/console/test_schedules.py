"""The pages of schedules."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from headgate import Schedule, cron
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.testing.deployed import deploy_schedules
from tests.support.console import MARKUP, Browser
from tests.unit.ops.console.conftest import Email, Shop

ADA = Email(to="ada@b.example")


@pytest.fixture
def reminder(shop: Shop) -> str:
    """A schedule that was made at run time."""
    when = Schedule.cron("0 9 ? * MON-FRI *", timezone="Europe/Paris")
    return shop.client.schedules.create("reminder", shop.send_email, ADA, schedule=when).name


def test_schedules_are_listed_in_words_with_their_next_time(
    shop: Shop, browser: Browser, reminder: str
) -> None:
    text = browser.get("/schedules").text
    assert f'href="/schedules/{reminder}"' in text
    assert "At 09:00, Monday to Friday" in text
    assert "cron(0 9 ? * MON-FRI *)" in text
    assert "Europe/Paris" in text
    shop.client.schedules.pause(reminder)
    shop.later()
    assert '<span class="badge held">paused</span>' in browser.get("/schedules").text


def test_a_schedule_shows_ten_times_in_both_time_zones(browser: Browser, reminder: str) -> None:
    text = browser.get(f"/schedules/{reminder}").text
    assert text.count("09:00 CE") == 10
    assert text.count("<tr><td><time") == 10


def test_a_schedule_shows_what_became_of_its_last_runs(shop: Shop, browser: Browser) -> None:
    for name, email in (("ok", ADA), ("fails", Email(to="bad"))):
        when = Schedule.rate(timedelta(hours=1))
        shop.client.schedules.create(name, shop.send_email, email, schedule=when)
    shop.later(2.5 * 3_600)
    shop.harness.drain()
    for name, state in (("ok", "completed"), ("fails", "dead")):
        [last, *_] = shop.client.schedules.get(name).last_runs(10, shop.harness.clock.now())
        text = browser.get(f"/schedules/{name}").text
        assert text.count(f">{state}</span>") == 3
        assert f'href="/jobs/{last.job_id}"' in text


def test_nothing_is_claimed_of_a_time_at_which_a_schedule_was_paused(
    shop: Shop, browser: Browser, reminder: str
) -> None:
    assert "It has not been due yet" in browser.get(f"/schedules/{reminder}").text
    shop.client.schedules.pause(reminder)
    shop.later(3 * 86_400)
    shop.harness.drain()
    text = browser.get(f"/schedules/{reminder}").text
    assert "nothing recorded" in text
    assert ">waiting</span>" not in text


def test_a_schedule_is_paused_moved_run_and_resumed(
    shop: Shop, browser: Browser, reminder: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    page = f"/schedules/{reminder}"
    assert "Resume reminder" not in browser.get(page).text
    paused = browser.post(f"{page}/pause", {"reason": "down"})
    assert paused.headers["location"] == page
    assert shop.client.audit.list().entries[0].reason == "down"
    assert not shop.client.schedules.get(reminder).enabled
    assert "Resume reminder" in browser.get(page).text
    browser.post(f"{page}/move", {"expression": "rate(2 hours)"})
    assert shop.client.schedules.get(reminder).when.expression == "rate(2 hours)"
    assert "Every 2 hours" in browser.get(page).text
    ran = browser.post(f"{page}/run").headers["location"]
    [job] = shop.harness.submitted(shop.send_email)
    assert ran == f"/jobs/{job.id}"
    browser.post(f"{page}/resume")
    assert shop.client.schedules.get(reminder).enabled
    assert [each.message for each in caplog.records] == [
        "ada@laptop: pause-schedule schedule reminder: done",
        "ada@laptop: change-schedule schedule reminder: done",
        "ada@laptop: run-schedule schedule reminder: done",
        "ada@laptop: resume-schedule schedule reminder: done",
    ]


def test_a_declared_schedule_is_moved_says_so_and_is_reset(shop: Shop, browser: Browser) -> None:
    declared = cron("0 6 ? * MON *")
    shop.app.define("weekly", Email, schedule=declared, schedule_payload=ADA)
    deploy_schedules(shop.app, shop.harness.scheduler)
    page = "/schedules/weekly"
    assert "Reset weekly" not in browser.get(page).text
    browser.post(f"{page}/move", {"expression": "rate(2 hours)"})
    text = browser.get(page).text
    assert "It was moved at run time" in text
    assert declared.expression in text
    assert '<span class="badge held">moved</span>' in browser.get("/schedules").text
    assert browser.post(f"{page}/reset").headers["location"] == page
    assert shop.client.schedules.get("weekly").when == declared


def test_moving_a_schedule_keeps_its_end_and_its_flexible_window(
    shop: Shop, browser: Browser
) -> None:
    end, window = shop.harness.clock.now() + timedelta(days=3), timedelta(minutes=10)
    when = cron("0 * * * ? *", end=end, flexible_window=window)
    shop.client.schedules.create("promo", shop.send_email, ADA, schedule=when)
    assert "Its start, end and flexible window stay" in browser.get("/schedules/promo").text
    browser.post("/schedules/promo/move", {"expression": "rate(2 hours)", "timezone": "UTC"})
    moved = shop.client.schedules.get("promo").when
    assert (moved.expression, moved.end, moved.flexible_window) == ("rate(2 hours)", end, window)


@pytest.mark.parametrize(
    "form",
    [
        {"expression": "99 99"},
        {"expression": "cron(0 8 * * ? *)", "timezone": "Mars/Base"},
        {"expression": MARKUP},
        {},
    ],
)
def test_times_that_cannot_be_are_refused(
    shop: Shop, browser: Browser, reminder: str, form: dict[str, str]
) -> None:
    answer = browser.post(f"/schedules/{reminder}/move", form)
    assert answer.status == 400
    assert "<script>" not in answer.text
    assert shop.client.schedules.get(reminder).when.timezone == "Europe/Paris"


def test_a_schedule_that_is_not_there_is_not_found(browser: Browser) -> None:
    for path in ("/schedules/none", f"/schedules/{'x' * 80}", "/schedules/%3Cscript%3E"):
        answer = browser.get(path)
        assert answer.status == 404
        assert "<script>" not in answer.text
    assert browser.post("/schedules/none/pause").status == 404


def test_without_aws_the_page_of_a_schedule_says_so(
    shop: Shop, browser: Browser, reminder: str
) -> None:
    shop.harness.scheduler.error = ServiceUnavailable(f"AWS is down {MARKUP}")
    answer = browser.get(f"/schedules/{reminder}")
    assert answer.status == 200
    assert "AWS is down &lt;script&gt;" in answer.text


def test_nobody_changes_a_schedule_of_a_console_that_is_read_only(
    shop: Shop, reminder: str
) -> None:
    browser = shop.browser(read_only=True)
    assert "Pause reminder" not in browser.get(f"/schedules/{reminder}").text
    for action in ("pause", "resume", "run", "move", "reset"):
        assert browser.post(f"/schedules/{reminder}/{action}").status == 403
    assert shop.harness.submitted(shop.send_email) == []
