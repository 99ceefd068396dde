"""The overview."""

from __future__ import annotations

import pytest

from headgate import Schedule
from headgate.jobs.errors import ServiceUnavailable
from tests.support.console import Browser
from tests.unit.ops.console.conftest import Email, Shop


def test_the_verdict_has_its_reasons_and_lanes_lead_to_their_queues(
    shop: Shop, browser: Browser
) -> None:
    assert "Healthy" in browser.get("/").text
    shop.client.submit(shop.send_email, Email(to="bad"))
    shop.harness.drain()
    shop.client.submit(shop.capture, Email(to="ada"))
    shop.later()
    text = browser.get("/").text
    assert "Degraded" in text
    assert "1 job waits in shop-test-payments-critical" in text
    assert 'href="/queues/payments"' in text


def test_types_in_trouble_lead_to_their_jobs(shop: Shop, browser: Browser) -> None:
    shop.client.submit_many(shop.send_email, [Email(to="bad")] * 3)
    shop.harness.drain()
    text = browser.get("/").text
    assert 'href="/jobs?type=send-email&amp;since=1d"' in text
    assert "In trouble" in text


def test_schedules_that_run_next_are_listed_and_paused_ones_are_not(
    shop: Shop, browser: Browser
) -> None:
    for name in ("nightly", "sleeping"):
        shop.client.schedules.create(
            name, shop.send_email, Email(to="a"), schedule=Schedule.rate(3600)
        )
    shop.client.schedules.pause("sleeping")
    text = browser.get("/").text
    assert "nightly" in text
    assert "sleeping" not in text


def test_schedules_that_can_not_be_read_cost_no_other_part_of_the_page(
    shop: Shop, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down() -> None:
        raise ServiceUnavailable("EventBridge is down")

    monkeypatch.setattr(shop.client.schedules, "list", down)
    text = browser.get("/").text
    assert "EventBridge is down" in text
    assert "Healthy" in text
