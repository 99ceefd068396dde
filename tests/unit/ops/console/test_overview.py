"""The overview."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headgate import App, Client, Schedule
from headgate.jobs.client.overview.queue_metrics import QueueMetrics, QueuePast
from headgate.jobs.client.overview.queues import QueueList
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.errors import ServiceUnavailable
from headgate.ops.console.access.rules import LOOPBACK_HOSTS, everybody
from headgate.ops.console.app import console as console_app
from headgate.ops.console.context import Console
from headgate.ops.console.figures.charts import Curve
from headgate.ops.console.figures.failures import Failures
from headgate.ops.console.pages.month import month, month_so_far
from headgate.ops.console.pages.overview import charts
from tests.support.backends import over
from tests.support.console import Browser
from tests.support.statuses import STATUS
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


def test_queues_that_can_not_be_read_cost_no_other_part_of_the_page(
    shop: Shop, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.client.submit_many(shop.send_email, [Email(to="bad")] * 3)
    shop.harness.drain()

    def down() -> None:
        raise ServiceUnavailable("SQS is down")

    monkeypatch.setattr(shop.client.queues, "list", down)
    text = browser.get("/").text
    assert "SQS is down" in text
    assert 'href="/dead?reason=do-not-retry&amp;error=DoNotRetry"' in text
    assert "None is about to run." in text


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


def test_a_bundle_counts_as_one_job_of_the_month_and_is_not_divided_again(shop: Shop) -> None:
    def usd(*, bundle: bool) -> float:
        app = App("shop", stage="test")
        app.define("tick", Email, bundle=bundle)
        console = Console(
            app=app, client=shop.client, clock=shop.harness.clock, deployment=Deployment()
        )
        found = month(console, _rates(shop, 10_000))
        assert found is not None
        return found.bill.usd

    assert usd(bundle=True) == pytest.approx(usd(bundle=False), rel=0.01)


def test_of_types_with_bundles_the_month_is_said_to_be_the_least(shop: Shop) -> None:
    def page() -> str:
        shop.metrics.put("shop-test-jobs-normal", "NumberOfMessagesSent", *[60] * 5)
        shop.later(1_000)
        served = console_app(
            shop.app,
            access=everybody("ada@laptop"),
            hosts=LOOPBACK_HOSTS,
            client=shop.client,
            clock=shop.harness.clock,
            deployment=Deployment(),
        )
        return Browser(served).get("/").text

    assert "Month at this rate" in page()
    assert "a bundle counts as one job" not in page()
    shop.app.define("tick", Email, bundle=True)
    assert "at least that much, since a bundle counts as one job" in page()


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


def _minutes(*values: float) -> dict[datetime, float]:
    """Return values by the minutes up to noon."""
    noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    return {noon - timedelta(minutes=len(values) - at): each for at, each in enumerate(values)}


def _past(shop: Shop, *pasts: QueuePast) -> QueueList:
    """Return the queues, the first of which have these pasts."""
    listed = shop.client.queues.list()
    told = [
        replace(queue, metrics=QueueMetrics(past=past))
        for queue, past in zip(listed.queues, pasts, strict=False)
    ]
    return replace(listed, queues=[*told, *listed.queues[len(told) :]])


def _hour(shop: Shop, found: QueueList) -> dict[str, Curve]:
    console = Console(app=shop.app, client=shop.client, clock=shop.harness.clock)
    return {each.title: each.curve for each in charts(console, found)}


def test_the_last_hour_is_charted_from_the_first_look_on(shop: Shop) -> None:
    payments = QueuePast(
        sent=_minutes(1, 2, 3), deleted=_minutes(1, 1, 1), oldest_s=_minutes(30, 90, 60)
    )
    jobs = QueuePast(sent=_minutes(10, 20, 30), oldest_s=_minutes(60, 30))
    found = _past(shop, jobs, payments)
    drawn = _hour(shop, found)
    assert drawn.keys() == {"Submitted", "Finished", "Oldest"}
    assert (drawn["Submitted"].last, drawn["Submitted"].most) == (33, 33)
    assert (drawn["Oldest"].last, drawn["Oldest"].most) == (60, 90)
    console = Console(app=shop.app, client=shop.client, clock=shop.harness.clock)
    group = found.queues[-1].queue
    assert [each.title for each in charts(console, found, group)] == []


def test_failed_attempts_are_charted_where_workers_count_them(shop: Shop) -> None:
    found = _past(shop, QueuePast(failed=_minutes(0, 12, 4)))
    assert (_hour(shop, found)["Failed attempts"].last, found.unknown) == (4, {})
    assert "Failed attempts" not in _hour(shop, _past(shop, QueuePast(sent=_minutes(1, 2))))


def test_failed_attempts_that_only_statuses_count_are_charted_by_the_minute_before_each_look(
    shop: Shop,
) -> None:
    console = Console(app=shop.app, client=shop.client, clock=shop.harness.clock)
    listed = shop.client.queues.list()
    began = shop.harness.clock.now()

    def look(after_s: float, **failed: int) -> None:
        at = began + timedelta(seconds=after_s)
        workers = [
            replace(STATUS, name=name, started_at=began, polls={"jobs": []}, failed={"jobs": count})
            for name, count in failed.items()
        ]
        console.samples.add(at, replace(listed, workers=workers))

    look(0, old=70)  # an unknown time ago
    assert console.samples.failed_attempts() is None
    look(30, old=73)
    look(60, old=73, new=5)  # began after the first look, but before the last: unknown
    look(90, old=74, new=7)
    found = console.samples.failed_attempts()
    assert found is not None
    assert (found.last, found.most, found.length_s) == (3, 3, 90)
    look(95, old=2, new=7)  # its counter never goes back; one that does adds nothing
    look(200, new=7)
    later = console.samples.failed_attempts()
    assert later is not None
    assert (later.last, later.most) == (0, 3)
    drawn = {each.title: each.source for each in charts(console, listed)}
    assert drawn["Failed attempts"] == "As workers counted them while this console looked"
    assert console.samples.failed_attempts("payments") is None


def test_a_worker_that_began_since_the_last_look_has_all_its_failures_counted() -> None:
    failures = Failures()
    worker = replace(STATUS, started_at=STATUS.seen_at, failed={"mail": 4, "money": 1})
    for second, workers in enumerate(([], [worker], [])):
        failures.add(worker.started_at + timedelta(seconds=second), workers)
    [(_, all_queues)], [(_, mail)] = failures.per_minute(), failures.per_minute("mail")
    assert (all_queues, mail) == (5, 4)
    failures.forget(before=worker.started_at + timedelta(seconds=3))
    assert failures.per_minute() == []


def test_minutes_that_a_queue_has_not_told_yet_bend_no_sum(shop: Shop) -> None:
    early, late = _minutes(5, 5, 5), _minutes(7, 7, 7)
    last = max(late)
    found = _past(shop, QueuePast(sent=early | {last: 5}), QueuePast(sent=late))
    assert _hour(shop, found)["Submitted"].last == 12
    del late[last]
    assert _hour(shop, found)["Submitted"].last == 12


def test_a_minute_in_which_nothing_was_told_is_one_in_which_nothing_happened(shop: Shop) -> None:
    rare = _minutes(6, 0, 0, 6)
    whole = _hour(shop, _past(shop, QueuePast(failed=rare)))["Failed attempts"]
    told = {at: value for at, value in rare.items() if value}
    assert _hour(shop, _past(shop, QueuePast(failed=told)))["Failed attempts"] == whole


def test_each_chart_says_how_long_it_looks_back(shop: Shop) -> None:
    shop.metrics.put("shop-test-jobs-normal", "JobsStarted", 40, 40, 40)
    shop.metrics.put("shop-test-jobs-normal", "JobsFailed", 3, 2, 1)
    browser = shop.browser()
    first = browser.get("/").text
    assert "Failed attempts over 2m: 1 /min now, 3 at most" in first
    assert "Waiting over" not in first
    shop.later(20)
    assert "Waiting over 20s: 0 jobs now" in browser.get("/").text
    assert "Failed attempts" in browser.get("/queues/jobs").text
    assert "Failed attempts" not in browser.get("/queues/payments").text


def test_dead_letters_of_all_lanes_are_charted_as_one_sum(shop: Shop) -> None:
    console = Console(app=shop.app, client=shop.client, clock=shop.harness.clock)
    listed = shop.client.queues.list()
    told = [replace(each, dead=2) for each in listed.queues]
    for minute in range(2):
        at = shop.harness.clock.now() + timedelta(minutes=minute)
        console.samples.add(at, replace(listed, queues=told))
    drawn = {each.title: each.curve.last for each in charts(console, None)}
    assert drawn.keys() == {"Waiting", "In flight", "Dead"}
    assert drawn["Dead"] == 2 * len(told)


def test_what_nobody_told_is_not_charted_as_none(shop: Shop) -> None:
    console = Console(app=shop.app, client=shop.client, clock=shop.harness.clock)
    listed = shop.client.queues.list()
    unknown = [replace(each, waiting=None) for each in listed.queues]
    for queues in (unknown, unknown):
        shop.later()
        console.samples.add(shop.harness.clock.now(), replace(listed, queues=queues))
    drawn = charts(console, replace(listed, queues=unknown))
    assert [each.title for each in drawn] == ["In flight", "Dead"]


def test_a_month_is_not_estimated_without_a_deployment_or_for_another_app(shop: Shop) -> None:
    listed = shop.client.queues.list()
    rates = [replace(each, metrics=QueueMetrics(sent_per_minute=30)) for each in listed.queues]
    elsewhere = Deployment(workers=(WorkerGroup(queues=("none",)),))
    for deployment in (None, elsewhere):
        console = Console(
            app=shop.app, client=shop.client, clock=shop.harness.clock, deployment=deployment
        )
        assert month(console, replace(listed, queues=rates)) is None
