"""The pages of queues: what they hold, and their pauses."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from headgate.jobs.core.topology import Priority
from headgate.jobs.records.fleet.worker_status import LimitState, TenantHeld, status_item
from tests.support.console import MARKUP, Browser
from tests.support.statuses import STATUS
from tests.unit.ops.console.conftest import Email, Shop


def test_lanes_tell_what_waits_and_why_they_are_not_well(shop: Shop, browser: Browser) -> None:
    shop.client.submit_many(shop.capture, [Email(to="a@b.example")] * 12)
    text = browser.get("/queues").text
    assert 'title="12">12</span>' in text
    assert "no live worker polls it" in text
    assert 'class="badge idle"' in text


def test_a_queue_is_paused_with_reason_and_end_and_resumed(
    shop: Shop, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    browser.get("/queues/payments")
    form = {"reason": "the bank is down", "lasts": "1h30m", "priority": "critical"}
    assert browser.post("/queues/payments/pause", form).headers["location"] == "/queues/payments"
    [pause] = shop.client.pauses.list()
    assert (pause.reason, pause.actor) == ("the bank is down", "ada@laptop")
    assert pause.until - pause.at == timedelta(minutes=90)
    assert pause.target.priority is Priority.CRITICAL
    text = browser.get("/queues/payments").text
    assert "the bank is down" in text
    assert "Resume payments critical" in text
    browser.post("/queues/payments/resume", {"priority": "critical"})
    assert shop.client.pauses.list() == []
    assert "Resume" not in browser.get("/queues/payments").text
    assert [each.message for each in caplog.records] == [
        "ada@laptop: pause queue payments/critical: done",
        "ada@laptop: resume queue payments/critical: done",
    ]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"lasts": "soon"}, "is no length of time"),
        ({"lasts": "900d"}, "can be paused for at most"),
        ({"lasts": "0s"}, "must be positive"),
        ({"priority": "urgent"}, "has no priority"),
        ({"reason": "x" * 301}, "at most 300 characters"),
        ({"reason": ["a", "b"]}, "give it once"),
    ],
)
def test_a_form_with_a_mistake_is_told_so(
    shop: Shop, browser: Browser, form: dict[str, str], said: str
) -> None:
    answer = browser.post("/queues/payments/pause", form)
    assert answer.status == 400
    assert said in answer.text
    assert shop.client.pauses.list() == []


def test_limits_are_shown_as_declared_and_as_they_stand(shop: Shop, browser: Browser) -> None:
    shop.harness.clock.advance(STATUS.seen_at - shop.harness.clock.now())
    held = replace(STATUS, limits={"rate:queue:payments": LimitState.HOLDING})
    shop.harness.table.sync.put([status_item(held)])
    text = browser.get("/queues/payments").text
    assert "20 per 1s, all workers together" in text
    assert "holding" in text
    assert "breaker:type:capture" in text


def test_charts_are_drawn_from_the_second_look_on(shop: Shop, browser: Browser) -> None:
    assert "<polyline" not in browser.get("/queues/payments").text
    shop.client.submit(shop.capture, Email(to="a@b.example"))
    shop.later(5)
    text = browser.get("/queues/payments").text
    assert "Waiting over 5s: 1 jobs now, 1 at most" in text
    assert "Dead over 5s: 0 letters now" in text


def _holding(shop: Shop, *tenants: tuple[str, int]) -> None:
    """Have a live worker hold messages of tenants, out of the payments that are critical."""
    shop.harness.clock.advance(STATUS.seen_at - shop.harness.clock.now())
    held = [
        TenantHeld(tenant=name, queue="payments", priority=Priority.CRITICAL, held=count)
        for name, count in tenants
    ]
    shop.harness.table.sync.put([status_item(replace(STATUS, tenants=held))])


def test_noisy_tenants_are_counted_by_sqs_and_named_by_what_workers_hold(
    shop: Shop, browser: Browser
) -> None:
    name = "shop-test-payments-critical"
    shop.metrics.put(name, "ApproximateNumberOfNoisyGroups", 2)
    text = browser.get("/queues/payments").text
    assert "2 tenants of critical delay the others." in text
    assert "No live worker names a tenant" in text
    _holding(shop, ("org-1", 40), (MARKUP, 3))
    shop.client.submit_many(shop.capture, [Email(to="a@b.example")] * 60)
    shop.later(61)
    for _ in range(6):
        shop.harness.sqs.sync.receive(name, limit=10, wait_s=0)
    text = browser.get("/queues/payments").text
    assert "Below are those of which workers hold most." in text
    assert 'href="/jobs?queue=payments&amp;tenant=org-1"' in text
    assert "67%" in text
    assert text.count("noisy?") == 1
    assert "<script>alert" not in text
    assert "\u202e" not in text


def test_without_tenants_none_are_listed(shop: Shop, browser: Browser) -> None:
    _holding(shop)
    assert "Tenants in flight" not in browser.get("/queues/payments").text
