"""The depths of queues among a worker's metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate import App, Priority
from headgate.jobs.core.ports.transport import OutgoingMessage, QueueDepth
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.errors import AccessDenied
from headgate.jobs.testing import MemorySqs, VirtualClock
from headgate.workers.observability.prometheus import Metrics
from headgate.workers.observability.queue_depths import QueueDepths
from headgate.workers.observability.worker_gauges import WorkerGauges
from tests.unit.workers.rig import Note

KNOWN = {"waiting", "delayed", "in_flight", "dead", "quarantined"}


class Counting(MemorySqs):
    """SQS in memory that counts the requests for depths."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.asked: list[str] = []

    async def depth(self, queue: str) -> QueueDepth:
        self.asked.append(queue)
        return await super().depth(queue)


class Scraped:
    """A queue with messages, and the metrics of a worker that serves it."""

    def __init__(self) -> None:
        self.app = App("shop")
        self.app.queue("mail", priorities=(Priority.NORMAL,)).define("send", Note)
        [self.queue] = self.app.topology.queues
        self.clock = VirtualClock()
        self.sqs = Counting(self.clock)
        self.sqs.provision(self.app.topology)
        self.quarantine = self.app.topology.quarantine_name
        self.depths = QueueDepths([self.queue], self.quarantine, self.sqs, clock=self.clock)
        self.metrics = Metrics(self.app)
        gauges = WorkerGauges(active=list, budgets=dict, depths=self.depths, slots=1)
        self.metrics.watch(gauges)

    async def scrape(self) -> dict[str, float]:
        """Return the number of jobs by state, as a scrape shows them."""
        await self.depths.refresh()
        return dict(self._shown())

    def _shown(self) -> Iterator[tuple[str, float]]:
        for family in text_string_to_metric_families(self.metrics.text().decode()):
            for sample in family.samples:
                if sample.name == "headgate_queue_jobs":
                    assert sample.labels["queue"] == "mail"
                    assert sample.labels["priority"] == "normal"
                    yield sample.labels["state"], sample.value
                elif sample.name == "headgate_quarantined_jobs":
                    yield "quarantined", sample.value


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def messages(count: int, delay_s: int = 0) -> Sequence[OutgoingMessage]:
    return [OutgoingMessage(body="{}", delay_s=delay_s) for _ in range(count)]


async def test_a_scrape_shows_what_waits_is_delayed_in_flight_and_dead(scraped: Scraped) -> None:
    queue: QueueSpec = scraped.queue
    await scraped.sqs.send(queue.name, messages(5))
    await scraped.sqs.send(queue.name, messages(2, delay_s=60))
    await scraped.sqs.receive(queue.name, limit=1, wait_s=0, visibility_s=30)
    await scraped.sqs.send(queue.dlq_name, messages(3))
    await scraped.sqs.receive(queue.dlq_name, limit=1, wait_s=0, visibility_s=30)
    await scraped.sqs.send(scraped.quarantine, messages(1))
    of_queue = {"waiting": 4, "delayed": 2, "in_flight": 1, "dead": 3}
    assert await scraped.scrape() == {**of_queue, "quarantined": 1}


async def test_depths_are_read_only_for_scrapes_and_every_30_s_at_most(scraped: Scraped) -> None:
    names = [scraped.queue.name, scraped.queue.dlq_name, scraped.quarantine]
    assert scraped.sqs.asked == []
    await asyncio.gather(*(scraped.scrape() for _ in range(5)))
    assert scraped.sqs.asked == names
    scraped.clock.advance(29)
    await scraped.scrape()
    assert scraped.sqs.asked == names
    scraped.clock.advance(1)
    await scraped.scrape()
    assert scraped.sqs.asked == names * 2


async def test_a_depth_that_sqs_does_not_tell_is_left_out_and_logged_once(
    scraped: Scraped, caplog: pytest.LogCaptureFixture
) -> None:
    await scraped.scrape()
    caplog.set_level(logging.WARNING, "headgate.worker")
    denied = AccessDenied("sqs:GetQueueAttributes")
    scraped.sqs.faults.raise_on("depth", denied, queue=scraped.queue.dlq_name, times=2)
    for _ in range(2):
        scraped.clock.advance(30)
        assert (await scraped.scrape()).keys() == KNOWN - {"dead"}
    [line] = caplog.messages
    assert scraped.queue.dlq_name in line
    scraped.clock.advance(30)
    assert (await scraped.scrape())["dead"] == 0
