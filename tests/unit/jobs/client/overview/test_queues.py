"""``client.queues``: what is known of each queue, and what is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from headgate import App, AsyncClient, Client, Priority
from headgate.jobs.client.overview.queue_metrics import (
    FRESH_S,
    UNKNOWN,
    QueueMetricsReader,
    QueuePast,
)
from headgate.jobs.client.overview.queues import AsyncQueueDesk, QueueStatus
from headgate.jobs.core.backend import MetricQuery
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.errors import AccessDenied, ServiceUnavailable, Throttled
from headgate.jobs.records.fleet.worker_status import TenantHeld, WorkerState, status_item
from headgate.testing import MemoryBackend, VirtualClock
from tests.support.clients import Kind, awaited
from tests.support.statuses import STATUS

HIGH = "shop-mail-high"


class Shop:
    """An app with two queues, and a client's view of them."""

    def __init__(
        self, kind: Kind, records: RecordsLevel = "outcomes", *, fifo: bool = False
    ) -> None:
        app = App("shop", records=records)
        mail = app.queue("mail", priorities=[Priority.HIGH, Priority.LOW], fifo=fifo)

        @mail.job("send", priority=Priority.HIGH)
        def send() -> None: ...

        self.backend = backend = MemoryBackend(app)
        client = AsyncClient(app, backend=backend)
        if kind == "Client":
            client = awaited(Client(app, backend=backend))
        self.client = client
        self.queues: AsyncQueueDesk = client.queues

    async def high(self) -> QueueStatus:
        high, _ = (await self.queues.list()).queues
        return high


@pytest.fixture
def shop(kind: Kind) -> Shop:
    return Shop(kind)


async def test_messages_are_counted_by_their_state(shop: Shop) -> None:
    sqs = shop.backend.sqs
    await sqs.send(HIGH, [OutgoingMessage(body="{}")] * 3)
    await sqs.receive(HIGH, limit=1, wait_s=0)
    await sqs.send(HIGH, [OutgoingMessage(body="{}", delay_s=60)])
    await sqs.send(f"{HIGH}-dlq", [OutgoingMessage(body="{}")] * 2)
    found = await shop.queues.list()
    high, low = found.queues
    assert (high.queue, high.priority, high.name, high.exists) == ("mail", "high", HIGH, True)
    assert (high.waiting, high.in_flight, high.delayed, high.dead) == (2, 1, 1, 2)
    assert (low.waiting, low.dead, found.quarantined) == (0, 0, 0)


class Accounts:
    """A CloudWatch that reads the metrics of its own account, and is refused those of others."""

    async def read(
        self, queries: Sequence[MetricQuery], *, since: datetime, until: datetime
    ) -> Mapping[MetricQuery, Mapping[datetime, float]]:
        if any(query.account for query in queries):
            raise AccessDenied("the account shares no metrics")
        return {query: {until - timedelta(minutes=1): 7.0} for query in queries if until > since}


async def test_an_account_that_shares_no_metrics_hides_no_others() -> None:
    clock, theirs = VirtualClock(), "arn:aws:sqs:eu-central-1:222222222222:jobs"
    app = App("shop")
    mail = app.queue("mail", priorities=[Priority.HIGH, Priority.LOW])
    mail.define("send", None, priority=Priority.HIGH)
    high, low = app.topology.queues
    reader = QueueMetricsReader(Accounts(), clock, "shop")
    found = await reader.read([replace(high, name=theirs), low])
    assert found[low.name].sent_per_minute == 7
    assert found[theirs].sent_per_minute is None
    assert reader.fault == "the account shares no metrics"


async def test_what_cloudwatch_knows_is_shown_and_the_rest_is_unknown_not_zero(shop: Shop) -> None:
    metrics = shop.backend.metrics
    metrics.put(HIGH, "ApproximateAgeOfOldestMessage", 600, 540)
    metrics.put(HIGH, "NumberOfMessagesSent", 30, 50)
    metrics.put(HIGH, "NumberOfMessagesDeleted", 0, 0)
    metrics.put(HIGH, "NumberOfEmptyReceives", 0, 3)
    metrics.put(HIGH, "ApproximateNumberOfNoisyGroups", 1)
    high, low = (await shop.queues.list()).queues
    assert high.metrics.oldest == timedelta(minutes=9)
    assert (high.metrics.sent_per_minute, high.metrics.deleted_per_minute) == (40, 0)
    assert (high.metrics.is_received_from, high.metrics.noisy_tenants) == (True, 1)
    assert low.metrics == UNKNOWN


async def test_what_was_sent_since_a_time_is_counted_by_queue(shop: Shop) -> None:
    metrics, since = shop.backend.metrics, shop.backend.clock.now() - timedelta(days=20)
    metrics.put(HIGH, "NumberOfMessagesSent", 1_000, 50)
    assert await shop.queues.sent(since) == {HIGH: 1_050}
    assert metrics.calls == 1
    metrics.fail(ServiceUnavailable("CloudWatch is down"))
    with pytest.raises(ServiceUnavailable):
        await shop.queues.sent(since)


async def test_cloudwatch_is_asked_once_a_minute_at_most_also_after_a_fault(shop: Shop) -> None:
    metrics = shop.backend.metrics
    metrics.fail(Throttled("Rate exceeded"))
    for _ in range(3):
        found = await shop.queues.list()
        assert found.unknown == {"metrics": "Rate exceeded"}
        assert found.queues[0].metrics == UNKNOWN
    assert metrics.calls == 1
    shop.backend.clock.advance(FRESH_S)
    metrics.put(HIGH, "NumberOfMessagesSent", 60)
    found = await shop.queues.list()
    assert (found.unknown, found.queues[0].metrics.sent_per_minute) == ({}, 60)
    assert metrics.calls == 2


async def test_of_a_fifo_queue_no_noisy_tenants_are_asked_for(kind: Kind) -> None:
    shop = Shop(kind, fifo=True)
    shop.backend.metrics.put(f"{HIGH}.fifo", "ApproximateNumberOfNoisyGroups", 3)
    assert (await shop.high()).metrics == UNKNOWN


async def test_live_workers_that_poll_a_queue_are_named_and_draining_ones_are_not(
    shop: Shop,
) -> None:
    now = shop.backend.clock.now()
    live = replace(STATUS, seen_at=now, polls={"mail": [Priority.HIGH]})
    draining = replace(live, name="draining", state=WorkerState.DRAINING)
    silent = replace(live, name="silent", seen_at=now - timedelta(minutes=5))
    await shop.backend.table.put([status_item(each) for each in (live, draining, silent)])
    high, low = (await shop.queues.list()).queues
    assert (high.workers, low.workers) == ([STATUS.name], [])


async def test_tenants_whose_messages_live_workers_hold_are_named_with_the_most_first(
    shop: Shop,
) -> None:
    now = shop.backend.clock.now()
    few, many = (
        TenantHeld(tenant=name, queue="mail", priority=Priority.HIGH, held=held)
        for name, held in (("few", 2), ("many", 30))
    )
    low = replace(few, priority=Priority.LOW)
    first = replace(STATUS, seen_at=now, tenants=[many, few, replace(few, queue="money")])
    second = replace(first, name="second", tenants=[replace(few, held=5), low])
    silent = replace(first, name="silent", seen_at=now - timedelta(minutes=5))
    await shop.backend.table.put([status_item(each) for each in (first, second, silent)])
    found = [each.tenants for each in (await shop.queues.list()).queues]
    assert found == [{"many": 30, "few": 7}, {"few": 2}]
    assert list(found[0] or ()) == ["many", "few"]


async def test_failures_are_told_by_what_workers_count_and_none_is_not_unknown(shop: Shop) -> None:
    metrics = shop.backend.metrics
    metrics.put(HIGH, "JobsStarted", *[20] * 60)
    high, low = (await shop.queues.list()).queues
    assert (high.metrics.failed_per_minute, low.metrics.failed_per_minute) == (0, None)
    assert list(high.metrics.past.failed.values()) == [0] * 60
    metrics.put(HIGH, "JobsFailed", 12, 0, 0, 0, 0, 0, 0)
    shop.backend.clock.advance(FRESH_S)
    high, _ = (await shop.queues.list()).queues
    assert high.metrics.failed_per_minute == 0  # of the last six minutes
    assert sum(high.metrics.past.failed.values()) == 12


async def test_the_past_of_a_queue_is_the_last_hour_by_minutes(shop: Shop) -> None:
    shop.backend.metrics.put(HIGH, "NumberOfMessagesSent", 60, *[0] * 8, 30)
    high, low = (await shop.queues.list()).queues
    assert list(high.metrics.past.sent.values()) == [60, *[0] * 8, 30]
    assert list(high.metrics.past.sent) == sorted(high.metrics.past.sent)
    assert high.metrics.sent_per_minute == 5
    assert low.metrics.past == QueuePast()


async def test_pauses_of_a_queue_are_shown_beside_it(shop: Shop) -> None:
    paused = await shop.client.pauses.create(queue="mail", priority="high")
    tenant = await shop.client.pauses.create(tenant="org-1")
    found = await shop.queues.list()
    high, low = found.queues
    assert (high.pauses, low.pauses) == ([paused], [])
    assert found.pauses == [paused, tenant]


async def test_a_queue_that_does_not_exist_is_missing_and_hides_no_other(shop: Shop) -> None:
    del shop.backend.sqs._queues[HIGH]
    found = await shop.queues.list()
    high, low = found.queues
    assert found.missing == [HIGH]
    assert (high.exists, high.waiting, high.dead) == (False, None, 0)
    assert (low.exists, low.waiting) == (True, 0)


async def test_without_a_table_workers_are_unknown_and_nothing_is_paused(kind: Kind) -> None:
    found = await Shop(kind, records="off").queues.list()
    assert list(found.unknown) == ["workers"]
    assert "records='failures'" in found.unknown["workers"]
    assert (found.queues[0].workers, found.workers, found.pauses) == (None, None, [])
    assert found.queues[0].tenants is None


async def test_a_table_that_is_away_hides_no_queue(shop: Shop) -> None:
    shop.backend.table.faults.raise_on(None, ServiceUnavailable("away"), times=2)
    found = await shop.queues.list()
    assert found.unknown == {"workers": "away", "pauses": "away"}
    assert (found.queues[0].workers, found.queues[0].pauses, found.pauses) == (None, None, None)
    assert found.queues[0].waiting == 0
