"""The bridge's sending: no invocation repeats what another has sent."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import App, Client, Priority
from headgate.jobs.core.batching import EntryRejected
from headgate.jobs.core.ports.table import Item
from headgate.jobs.definitions.options.job_options import LONGEST_TIMEOUT
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.execution.delivery import Delivery, load
from headgate.jobs.schedules.bridging import KEEP, SENT, Bridge, place_of
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.schedules.firing import schedule_input
from headgate.jobs.schedules.inputs import Input, read_input
from headgate.jobs.testing import MemoryScheduler, MemorySqs, MemoryTable, VirtualClock
from tests.support.backends import over
from tests.support.bridge import DeployedBridge

QUEUE = "shop-jobs-normal"
JOB = "0198f000-0000-7000-8000-000000000001"


class Bench:
    """An app whose one schedule fires every hour, and its bridge."""

    def __init__(self) -> None:
        self.app = App("shop")
        self.report = self.app.define(
            "report", dict[str, Any], schedule=Schedule.rate(timedelta(hours=1))
        )
        self.clock = VirtualClock()
        self.sqs, self.table = MemorySqs(self.clock), MemoryTable(self.clock)
        self.sqs.provision(self.app.topology)
        self.bridge = DeployedBridge(self.app, self.sqs, self.table, self.clock)

    def firing(self, scheduled_time: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
        return schedule_input(self.app, self.report) | {
            "schedule_arn": "arn:aws:scheduler:eu-central-1:1:schedule/shop/report",
            "scheduled_time": scheduled_time,
            "execution_id": "d32c5kddcf5bb8c3",
            "attempt_number": "1",
        }

    def held(self, due: datetime, token: str = "", job_id: str = JOB) -> dict[str, Any]:
        """Return the input that a one-time schedule passes on."""
        job = DelayedJob(
            delayed_until=due,
            job_id=job_id,
            type="report",
            queue_name=QUEUE,
            body='{"type": "report"}',
            attributes={},
            token=token,
        )
        event: dict[str, Any] = json.loads(job.to_input())
        return event

    @property
    def sent(self) -> int:
        return len(self.sqs.messages(QUEUE))


def test_what_has_been_sent_is_not_sent_again_by_a_later_invocation() -> None:
    bench = Bench()
    for _ in range(3):
        bench.bridge.handle(bench.firing())
        bench.clock.advance(timedelta(hours=15))
    assert bench.sent == 1
    assert bench.table.calls == ["replace"] * 4, "two for a job, and one for each repetition"
    assert timedelta(hours=30) < KEEP


def test_what_a_bridge_died_of_marking_is_sent_again_under_the_same_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, firing = Bench(), json.dumps(Bench().firing())
    mark = Bridge._replace

    def dies(self: Bridge, standing: Item, *, sent: bool) -> Item:
        if sent:
            raise SystemExit
        return mark(self, standing, sent=sent)

    monkeypatch.setattr(Bridge, "_replace", dies)
    with pytest.raises(SystemExit):
        bench.bridge(firing)
    monkeypatch.undo()
    bench.bridge(firing)

    first, second = (json.loads(each.body)["id"] for each in bench.sqs.messages(QUEUE))
    assert first == second


def test_each_sending_of_one_job_is_claimed_by_itself() -> None:
    bench = Bench()
    due = bench.clock.now()
    fired = bench.firing()
    job_id = bench.bridge.handle(fired)["job_id"]
    later = due + timedelta(days=1)
    handed_over = [
        bench.held(later, "message-1", job_id),
        bench.held(later + timedelta(days=1), "message-2", job_id),
        bench.held(later, "message-3", job_id),
    ]
    for event in [*handed_over, *handed_over, fired]:
        bench.bridge.handle(event)
    assert bench.sent == 4


def test_a_schedule_from_before_tokens_is_sent_once_by_its_due_time() -> None:
    bench = Bench()
    due = bench.clock.now() + timedelta(days=1)
    old = bench.held(due)
    assert "token" not in old
    for event in (old, old, bench.held(due.astimezone(UTC)), bench.held(due + timedelta(days=1))):
        bench.bridge.handle(event)
    assert bench.sent == 2


def test_an_event_that_is_delivered_twice_is_one_sending() -> None:
    bench = Bench()
    event = {
        "kind": "event",
        "job": {
            "rule": "placed",
            "type": "report",
            "schema": 1,
            "queue": "jobs",
            "priority": "normal",
            "queue_name": QUEUE,
        },
        "event": {"id": "6a7e8feb", "time": "2026-03-01T08:00:00Z", "detail": {}},
    }
    bench.bridge.handle(event)
    bench.bridge.handle(event)
    assert bench.sent == 1


@pytest.mark.parametrize("delayed", [False, True])
def test_an_invocation_that_failed_is_made_up_for(delayed: bool) -> None:
    bench = Bench()
    event = bench.held(bench.clock.now()) if delayed else bench.firing()
    bench.sqs.faults.raise_on("send", ServiceUnavailable("gone"))
    with pytest.raises(ServiceUnavailable):
        bench.bridge.handle(event)
    bench.sqs.faults.fail_entries("send")
    with pytest.raises(EntryRejected):
        bench.bridge.handle(event)
    assert bench.sent == 0
    bench.bridge.handle(event)
    bench.bridge.handle(event)
    assert bench.sent == 1


@pytest.mark.parametrize("applied", [False, True])
def test_a_table_that_does_not_answer_keeps_no_job_back(applied: bool) -> None:
    bench = Bench()
    fault = ServiceUnavailable("away")
    bench.table.faults.raise_on("replace", fault, times=2, applied=applied)
    bench.bridge.handle(bench.firing())
    assert bench.sent == 1


def test_a_delayed_submission_whose_invocation_is_repeated_is_sent_once() -> None:
    bench = Bench()
    scheduler = MemoryScheduler(bench.clock, fire=bench.bridge)
    client = Client(
        bench.app, backend=over(bench.sqs.sync, scheduler=scheduler.sync, clock=bench.clock)
    )
    client.submit(bench.report, {}, delay=timedelta(days=3))
    bench.clock.advance(timedelta(days=3))
    bench.bridge.repeat()
    assert bench.sent == 1


def test_the_mark_stands_under_the_job_the_sending_and_the_very_message() -> None:
    bench = Bench()
    event = bench.held(datetime(2026, 1, 2, tzinfo=UTC), "message-00001")
    given: Input = read_input(event)
    bench.bridge.handle(event)
    [mark] = bench.table.sync.query(f"{SENT}{JOB}")
    assert given.sending == "delayed#2026-01-02T00:00:00+00:00#message-00001"
    assert mark.sk == place_of(given)
    assert mark.sk.startswith(f"{given.sending}#")
    assert mark.data == {"sent": True}


def test_a_timeout_beyond_all_bounds_is_bounded_where_the_job_runs() -> None:
    bench = Bench()
    bench.report.handler(_read)
    bench.bridge.handle(bench.firing() | {"options": {"timeout_s": 1e300}})
    [message] = asyncio.run(bench.sqs.receive(QUEUE, limit=1, wait_s=0))
    queue = bench.app.topology.queue("jobs", Priority.NORMAL)
    job = load(bench.app, Delivery(message=message, queue=queue, received_at=0.0))
    assert job.envelope.options is not None
    assert job.timeout_s == LONGEST_TIMEOUT.total_seconds()


async def _read(_report: dict[str, Any]) -> None: ...
