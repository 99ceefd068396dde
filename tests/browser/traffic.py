"""The shop's load, and the metrics that SQS would report of it to CloudWatch."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any, NoReturn

import boto3

from headgate import Client
from headgate.jobs.core.events import (
    Event,
    JobCancelled,
    JobCompleted,
    JobDeadLettered,
    JobEvent,
    JobProgress,
    JobStarted,
    JobSubmitted,
)
from headgate.ops.demo.environment import REGION
from tests.browser.shop import (
    Email,
    Image,
    Payment,
    app,
    notify_warehouse,
    pay_supplier,
    resize_image,
    send_email,
    send_sms,
)

_EVERY_S = 2.0
_REPORTED_EVERY_S = 10.0


class Traffic:
    """The events of the shop's jobs: a subscriber to those of clients and workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._seen: Counter[tuple[type[Event], str]] = Counter()

    def __call__(self, event: Event) -> None:
        """Take note of an event, from any thread."""
        if not isinstance(event, JobEvent):
            return
        queue = app.topology.queue(event.queue, event.priority).name
        with self._lock:
            self._seen[type(event), event.job_type] += 1
            match event:
                case JobSubmitted():
                    self._counts[queue, "NumberOfMessagesSent"] += 1
                    self._waiting[queue][event.job_id] = time.monotonic()
                case JobStarted():
                    self._counts[queue, "NumberOfMessagesReceived"] += 1
                case JobCompleted() | JobDeadLettered() | JobCancelled():
                    self._counts[queue, "NumberOfMessagesDeleted"] += 1
                    self._waiting[queue].pop(event.job_id, None)

    async def until_dead(self, job_type: str, jobs: int) -> None:
        """Wait until so many jobs of a type are dead letters."""
        await self._until(JobDeadLettered, job_type, jobs)

    async def until_progress(self, job_type: str, reports: int) -> None:
        """Wait until jobs of a type have reported their progress so often."""
        await self._until(JobProgress, job_type, reports)

    async def _until(self, kind: type[Event], job_type: str, times: int) -> None:
        async with asyncio.timeout(120):
            while self._seen[kind, job_type] < times:  # noqa: ASYNC110 - other threads count, too
                await asyncio.sleep(0.1)

    async def report(self) -> NoReturn:
        """Tell CloudWatch of the queues, as SQS does."""
        cloudwatch = boto3.client("cloudwatch", region_name=REGION)
        while True:
            await asyncio.sleep(_REPORTED_EVERY_S)
            await asyncio.to_thread(
                cloudwatch.put_metric_data, Namespace="AWS/SQS", MetricData=self._metrics()
            )

    def _metrics(self) -> list[dict[str, Any]]:
        now_s = time.monotonic()
        with self._lock:
            counts, self._counts = self._counts, Counter()
            oldest = {
                spec.name: max((now_s - at for at in self._waiting[spec.name].values()), default=0)
                for spec in app.topology.queues
            }
        names = ("NumberOfMessagesSent", "NumberOfMessagesReceived", "NumberOfMessagesDeleted")
        values = {(queue, name): float(counts[queue, name]) for queue in oldest for name in names}
        values |= {(queue, "ApproximateAgeOfOldestMessage"): age for queue, age in oldest.items()}
        return [
            {
                "MetricName": name,
                "Dimensions": [{"Name": "QueueName", "Value": queue}],
                "Timestamp": datetime.now(UTC),
                "Value": value,
            }
            for (queue, name), value in values.items()
        ]


async def load(client: Client) -> NoReturn:
    """Submit some jobs each second, for ever."""
    number = 0
    while True:
        number += 1
        await asyncio.to_thread(_submit, client, number)
        await asyncio.sleep(_EVERY_S)


def _submit(client: Client, number: int) -> None:
    tenant = f"org-{number % 7}"
    client.submit_many(
        send_email, [Email(to=f"ada-{number}-{n}@shop.example") for n in range(4)], tenant=tenant
    )
    client.submit(resize_image, Image(sku=f"sku-{number}"), tenant=tenant)
    client.submit(pay_supplier, Payment(order_id=f"bill-{number}"), tenant=tenant)
    if number % 5 == 0:
        client.submit(send_email, Email(to=f"nobody-{number}@shop.example"), tenant=tenant)
        client.submit(notify_warehouse, Payment(order_id=f"order-{number}"), tenant=tenant)
        client.submit(send_sms, Email(to=f"+49 30 {number}"), tenant=tenant)
