"""The overview."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from headgate import Client, Schedule
from headgate.jobs.client.overview.queue_metrics import QueueMetrics
from headgate.jobs.client.overview.queues import QueueList, QueueStatus
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.errors import ServiceUnavailable
from headgate.ops.console.context import Console
from headgate.ops.console.pages.month import month, month_so_far
from headgate.ops.console.pages.overview import charts
from tests.support.backends import over
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
    assert '<a href="/schedules/nightly">nightly</a>' in text
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


def test_what_the_month_has_cost_so_far_follows_from_what_was_sent_since_it_began(
    shop: Shop,
) -> None:
    console = Console(
        app=shop.app,
        client=Client(
            shop.app,
            backend=over(
                shop.harness.sqs.sync, metrics=shop.metrics.sync, clock=shop.harness.clock
            ),
        ),
        clock=shop.harness.clock,
        deployment=Deployment(),
    )
    now = shop.harness.clock.now()
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    tenth = (begin + timedelta(days=40)).replace(day=11)  # midnight: ten days have passed
    shop.later((tenth - now).total_seconds())
    assert month_so_far(console) is None  # CloudWatch knows of no message
    shop.metrics.put("shop-test-jobs-normal", "NumberOfMessagesSent", 400_000, 600_000)
    shop.later(1_000)
    few = month_so_far(console)
    shop.metrics.put("shop-test-jobs-normal", "NumberOfMessagesSent", 10_000_000)
    shop.later(1_000)
    many = month_so_far(console)
    assert few is not None
    assert many is not None
    assert (few.jobs, many.jobs) == (1_000_000, 10_000_000)
    whole = month(console, _rates(shop, 1_000_000 / (10 * 24 * 60)))
    assert whole is not None
    assert few.usd == pytest.approx(whole.bill.usd * 240 / 730, rel=0.01)
    assert many.usd > few.usd
    calls = shop.metrics.calls
    assert month_so_far(console) == many
    assert shop.metrics.calls == calls


def test_a_month_that_has_just_begun_has_no_cost_so_far(shop: Shop) -> None:
    console = Console(
        app=shop.app, client=shop.client, clock=shop.harness.clock, deployment=Deployment()
    )
    now = shop.harness.clock.now()
    following = (now.replace(day=1) + timedelta(days=32)).replace(
        day=1, hour=0, minute=30, second=0, microsecond=0
    )
    shop.later((following - now).total_seconds())
    assert month_so_far(console) is None


def _rates(shop: Shop, per_minute: float) -> QueueList:
    """Return the queues, of which one gets so many messages a minute."""
    listed = shop.client.queues.list()
    rate = QueueMetrics(sent_per_minute=per_minute)
    return replace(listed, queues=[replace(listed.queues[0], metrics=rate)])


def test_of_the_ages_of_lanes_the_oldest_is_charted_and_of_their_letters_the_sum(
    shop: Shop,
) -> None:
    console = Console(app=shop.app, client=shop.client, clock=shop.harness.clock)
    listed = shop.client.queues.list()
    told = [
        replace(each, dead=2, metrics=QueueMetrics(oldest=timedelta(seconds=30 * number)))
        for number, each in enumerate(listed.queues)
    ]
    for minute in range(2):
        at = shop.harness.clock.now() + timedelta(minutes=minute)
        console.samples.add(at, replace(listed, queues=told))
    drawn = {each.title: each.curve.last for each in charts(console)}
    assert drawn["Oldest"] == 30 * (len(told) - 1) > 30
    assert drawn["Dead"] == 2 * len(told)


def test_what_cloudwatch_has_not_told_is_not_charted_as_none(shop: Shop) -> None:
    console = Console(app=shop.app, client=shop.client, clock=shop.harness.clock)
    listed = shop.client.queues.list()
    unknown = [replace(each, metrics=QueueMetrics()) for each in listed.queues]
    rate = QueueMetrics(sent_per_minute=60.0)
    told = [replace(listed.queues[0], metrics=rate), *unknown[1:]]

    def drawn(*samples: Sequence[QueueStatus]) -> dict[str, float]:
        for queues in samples:
            shop.later()
            console.samples.add(shop.harness.clock.now(), replace(listed, queues=queues))
        return {each.title: each.curve.last for each in charts(console)}

    assert drawn(unknown, unknown).keys() == {"Waiting", "In flight", "Dead"}
    assert drawn(told, told)["Submitted"] == 60.0


def test_a_month_is_not_estimated_without_a_deployment_or_for_another_app(shop: Shop) -> None:
    listed = shop.client.queues.list()
    rates = [replace(each, metrics=QueueMetrics(sent_per_minute=30)) for each in listed.queues]
    elsewhere = Deployment(workers=(WorkerGroup(queues=("none",)),))
    for deployment in (None, elsewhere):
        console = Console(
            app=shop.app, client=shop.client, clock=shop.harness.clock, deployment=deployment
        )
        assert month(console, replace(listed, queues=rates)) is None
