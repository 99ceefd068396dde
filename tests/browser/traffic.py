"""The shop's load, and the metrics that SQS would report of it to CloudWatch."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import boto3

from headgate import Client, Priority
from headgate.jobs.core.events import (
    Event,
    JobCancelled,
    JobCompleted,
    JobDeadLettered,
    JobEvent,
    JobFailed,
    JobProgress,
    JobStarted,
    JobSubmitted,
)
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment import metric_names
from headgate.ops.demo.environment import REGION
from tests.browser.shop import (
    Campaign,
    Email,
    Image,
    Payment,
    app,
    notify_warehouse,
    pay_supplier,
    push_campaign,
    resize_image,
    send_email,
    send_sms,
)

_EVERY_S = 2.0
_REPORTED_EVERY_S = 10.0
_PAST_MINUTES = 60
_AT_ONCE = 500
"""Values of one request, which takes a thousand."""

_SENT, _RECEIVED, _DELETED = (f"NumberOfMessages{what}" for what in ("Sent", "Received", "Deleted"))
_STARTED, _FAILED = metric_names.STARTED, metric_names.FAILED
_OLDEST, _NOISY = "ApproximateAgeOfOldestMessage", "ApproximateNumberOfNoisyGroups"
_COUNTED = (_SENT, _RECEIVED, _DELETED, _STARTED, _FAILED)
_FLOODED = ("notifications", Priority.HIGH)
"""The lane in which one tenant's campaign delays the others."""


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
                    self._counts[queue, _SENT] += 1
                    self._waiting[queue][event.job_id] = time.monotonic()
                case JobStarted():
                    self._counts[queue, _RECEIVED] += 1
                    self._counts[queue, _STARTED] += 1
                case JobFailed():
                    self._counts[queue, _FAILED] += 1
                case JobCompleted() | JobDeadLettered() | JobCancelled():
                    self._counts[queue, _DELETED] += 1
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
        """Tell CloudWatch of the queues, as SQS and workers do; of a past hour at first."""
        cloudwatch = boto3.client("cloudwatch", region_name=REGION)
        await asyncio.to_thread(_put, cloudwatch, _past(datetime.now(UTC)))
        while True:
            await asyncio.sleep(_REPORTED_EVERY_S)
            await asyncio.to_thread(_put, cloudwatch, self._metrics())

    def _metrics(self) -> list[_Value]:
        at, now_s = datetime.now(UTC), time.monotonic()
        with self._lock:
            counts, self._counts = self._counts, Counter()
            oldest = {
                spec.name: max((now_s - at for at in self._waiting[spec.name].values()), default=0)
                for spec in app.topology.queues
            }
        found = list[_Value]()
        for spec in app.topology.queues:
            found += ((spec, name, at, float(counts[spec.name, name])) for name in _COUNTED)
            found.append((spec, _OLDEST, at, oldest[spec.name]))
            found.append((spec, _NOISY, at, float((spec.group, spec.priority) == _FLOODED)))
        return found


_Value = tuple[QueueSpec, str, datetime, float]


def _past(now: datetime) -> Iterator[_Value]:
    """Yield an hour of steady work, in which payments begin to fail minutes ago."""
    for ago in range(1, _PAST_MINUTES):
        at = now - timedelta(minutes=ago)
        wave = 1 + 0.3 * math.sin(ago / 5) + 0.1 * math.sin(ago * 1.7)
        for spec in app.topology.queues:
            jobs = wave * (40 if spec.priority is Priority.HIGH else 12)
            fails = spec.group == "payments" and ago < 9
            yield spec, _SENT, at, round(jobs)
            yield spec, _DELETED, at, round(jobs)
            yield spec, _STARTED, at, round(jobs)
            yield spec, _FAILED, at, round(jobs * (0.9 if fails else 0.03))
            yield spec, _OLDEST, at, 4 + 3 * wave + (20 * (9 - ago) if fails else 0)


def _put(cloudwatch: Any, values: Iterable[_Value]) -> None:
    """Put values under the namespaces that they have on AWS."""
    by_namespace: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for spec, name, at, value in values:
        is_ours = name in metric_names.NAMES
        by_namespace[metric_names.NAMESPACE if is_ours else "AWS/SQS"].append(
            {
                "MetricName": name,
                "Dimensions": _lane(spec) if is_ours else _dimensions(QueueName=spec.name),
                "Timestamp": at,
                "Value": value,
            }
        )
    for namespace, found in by_namespace.items():
        for start in range(0, len(found), _AT_ONCE):
            part = found[start : start + _AT_ONCE]
            cloudwatch.put_metric_data(Namespace=namespace, MetricData=part)


def _lane(spec: QueueSpec) -> list[dict[str, str]]:
    service = metric_names.service_name(app.name, app.stage)
    return _dimensions(service=service, queue=spec.group, priority=spec.priority.value)


def _dimensions(**values: str) -> list[dict[str, str]]:
    return [{"Name": name, "Value": value} for name, value in values.items()]


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
    campaigner = tenant if number % 4 == 0 else "org-5"
    client.submit_many(
        push_campaign, [Campaign(name=f"sale-{number}-{n}") for n in range(3)], tenant=campaigner
    )
    if number % 5 == 0:
        client.submit(send_email, Email(to=f"nobody-{number}@shop.example"), tenant=tenant)
        client.submit(notify_warehouse, Payment(order_id=f"order-{number}"), tenant=tenant)
        client.submit(send_sms, Email(to=f"+49 30 {number}"), tenant=tenant)
