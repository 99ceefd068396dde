"""The overview."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate import Schedule
from headgate.jobs.client.overview.queue_metrics import QueueMetrics
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups import WorkerGroup
from headgate.jobs.errors import ServiceUnavailable
from headgate.ops.console.context import Console
from headgate.ops.console.pages.month import month
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


def test_reasons_of_death_lead_to_their_letters(shop: Shop, browser: Browser) -> None:
    shop.client.submit_many(shop.send_email, [Email(to="bad")] * 3)
    shop.harness.drain()
    text = browser.get("/").text
    assert 'href="/dead?reason=do-not-retry&amp;error=DoNotRetry"' in text


def test_a_month_is_estimated_by_the_present_rate(shop: Shop) -> None:
    console = Console(
        app=shop.app, client=shop.client, clock=shop.harness.clock, deployment=Deployment()
    )
    listed = shop.client.queues.list()
    assert month(console, listed) is None
    rates = [replace(each, metrics=QueueMetrics(sent_per_minute=30)) for each in listed.queues]
    found = month(console, replace(listed, queues=rates))
    assert found is not None
    assert found.load.jobs == pytest.approx(30 * len(rates) * 60 * 730)
    assert found.bill.usd > 0


def test_a_month_is_not_estimated_without_a_deployment_or_for_another_app(shop: Shop) -> None:
    listed = shop.client.queues.list()
    rates = [replace(each, metrics=QueueMetrics(sent_per_minute=30)) for each in listed.queues]
    elsewhere = Deployment(workers=(WorkerGroup(queues=("none",)),))
    for deployment in (None, elsewhere):
        console = Console(
            app=shop.app, client=shop.client, clock=shop.harness.clock, deployment=deployment
        )
        assert month(console, replace(listed, queues=rates)) is None
