"""The bytes that `headgate cost` assumes cover what is really written."""

from __future__ import annotations

import io
import logging
import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from headgate import App
from headgate.jobs.aws.dynamo.attributes import encode
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import (
    Event,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobRetryScheduled,
    JobStarted,
)
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.retention import DEFAULT_KEEP
from headgate.jobs.core.topology import Priority
from headgate.jobs.deployment.metric_lines import MetricLines
from headgate.jobs.deployment.metric_names import MOST_VALUES
from headgate.jobs.records.fleet.worker_status import status_item
from headgate.jobs.records.items import Mark, Scribe
from headgate.jobs.testing import Harness
from headgate.ops.costing import records, sqs, watching
from headgate.ops.costing.load import Load, Stream
from headgate.workers import logs
from tests.support.statuses import STATUS
from tests.unit.workers.rig import Note

NOW = datetime(2026, 11, 1, 12, 30, 15, 123456, tzinfo=UTC)
JOB_TYPE, QUEUE = "abandoned-cart-reminder", "notifications"
TRIED: dict[str, Any] = {
    "at": NOW,
    "job_id": str(uuid4()),
    "job_type": JOB_TYPE,
    "queue": QUEUE,
    "priority": Priority.HIGH,
    "attempt": 1,
    "max_attempts": 3,
}
ERROR: dict[str, Any] = {
    "error_type": "requests.exceptions.ConnectionError",
    "error_message": "HTTPSConnectionPool(host='api.example.com', port=443): Read timed out.",
}
TRACEBACK = "x" * 1024
"""A kilobyte, as in the model."""

RNG = random.Random(1)  # noqa: S311 - makes up durations

LEAST = 0.6
"""Minimum ratio of real to assumed sizes."""


def bytes_of(item: Item) -> int:
    """Return an item's size as DynamoDB counts it: names, values, at most 21 a number, others 1."""

    def size(value: Mapping[str, Any]) -> int:
        [(kind, inner)] = value.items()
        match kind:
            case "M":
                return 3 + sum(len(name) + 1 + size(each) for name, each in inner.items())
            case "L":
                return 3 + sum(1 + size(each) for each in inner)
            case "S":
                return len(inner)
            case "N":
                return min(21, len(inner) // 2 + 2)
            case _:
                return 1

    return sum(len(name) + size(value) for name, value in encode(item).items())


def marked(kind: Mark, **data: Any) -> Item:
    """Return a mark as a worker on ECS writes it."""
    scribe = Scribe(
        job_id=str(uuid4()),
        message_id=str(uuid4()),
        receive=1,
        job_type=JOB_TYPE,
        queue=QUEUE,
        worker=f"ip-10-0-123-123.ec2.internal-{uuid4()}",
        level="outcomes",
        keep=DEFAULT_KEEP,
        retention=timedelta(days=4),
        submission={
            "submitted_at": NOW.isoformat(),
            "priority": "normal",
            "tenant": {"org": "org-12345"},
        },
    )
    return scribe.mark(kind, NOW, {"attempt": 1, **data})


@pytest.mark.parametrize(
    ("item", "most"),
    [
        (marked(Mark.STARTED), records.STARTED_BYTES + 150),
        (marked(Mark.COMPLETED, ran_s=1.2345678), records.COMPLETED_BYTES),
        (
            marked(Mark.FAILED, ran_s=1.2345678, **ERROR, traceback=TRACEBACK, retry_in_s=3),
            records.FAILED_BYTES + records.INDEXED_BYTES,
        ),
        (
            marked(Mark.DEAD, reason="attempts-exhausted", **ERROR),
            records.DEAD_BYTES + records.INDEXED_BYTES,
        ),
    ],
    ids=["started", "completed", "failed", "dead"],
)
def test_an_item_has_about_as_many_bytes_as_the_model_says(item: Item, most: int) -> None:
    assert LEAST * most <= bytes_of(item) <= most


def test_a_worker_s_status_has_about_as_many_bytes_as_the_model_says() -> None:
    idle = replace(STATUS, busy=0, running=())
    assert LEAST * records.STATUS_BYTES <= bytes_of(status_item(idle)) <= records.STATUS_BYTES
    busy = replace(idle, busy=10, running=[*STATUS.running] * 10)
    more = bytes_of(status_item(busy)) - bytes_of(status_item(idle))
    assert LEAST * records.RUNNING_BYTES <= more / 10 <= records.RUNNING_BYTES


@pytest.mark.parametrize(
    ("event", "most"),
    [
        (JobCompleted(**TRIED, ran_s=1.2345678), watching.COMPLETED_LINE),
        (JobFailed(**TRIED, ran_s=1.2, **ERROR, traceback=TRACEBACK), watching.FAILED_LINE),
        (JobRetryScheduled(**TRIED, delay_s=3), watching.RETRIED_LINE),
        (JobDeadLettered(**TRIED, reason="attempts-exhausted", **ERROR), watching.DEAD_LINE),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_line_of_the_log_has_about_as_many_bytes_as_the_model_says(
    event: Event, most: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logs.json_formatter())
    logger = logging.getLogger("headgate.worker")
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "propagate", False)

    # Not by setattr: a logger remembers for which levels it is enabled until setLevel is called.
    with caplog.at_level(logging.INFO, logger.name):
        log_event(event)

    assert LEAST * most <= len(written.getvalue()) <= most


@pytest.mark.parametrize("jobs", [1, 50, 99, 1000])
def test_a_line_of_metrics_has_about_as_many_bytes_as_the_model_says(jobs: int) -> None:
    lines: list[str] = []
    emf = MetricLines("ecommerce-prod", rng=RNG, write=lines.append)
    for _ in range(jobs):
        emf(JobStarted(**TRIED, is_first=True, waited_s=RNG.random()))
        emf(JobCompleted(**TRIED, ran_s=RNG.random()))
    emf.flush()

    most = len(lines) * (watching.EMF_LINE + min(jobs, MOST_VALUES) * watching.EMF_VALUE)
    assert LEAST * most <= sum(map(len, lines)) <= most


def test_a_message_has_as_many_bytes_as_the_model_says() -> None:
    app = App("shop")
    job = app.define("send-email", Note)
    text = "x" * 500
    stream = Stream(
        job=job,
        queue=app.topology.queue(job.queue, job.priority),
        submitted=1,
        fired=0,
        scheduled=0,
        delayed=0,
        attempts=1,
        dead=0,
    )
    harness = Harness(app)
    harness.client.submit(job, Note(text=text))
    [sent] = harness.sqs.messages(stream.queue.name)
    real = OutgoingMessage(body=sent.body, attributes=sent.attributes).size

    load = Load(jobs=1, payload_bytes=len(f'{{"text":"{text}"}}'))
    assert sqs.message_bytes(stream, load, app.max_message_bytes) == pytest.approx(real, abs=8)
