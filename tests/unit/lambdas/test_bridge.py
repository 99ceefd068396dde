"""The bridge: a schedule that fires becomes one job that a worker can run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, JobContext, Priority, Schedule, cron
from headgate.jobs.aws.dynamo.table import DynamoTable
from headgate.jobs.core.batching import EntryRejected
from headgate.jobs.core.events import Event, Events, JobCompleted
from headgate.jobs.core.naming import MAX_SCHEDULER_NAME
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import (
    ConfigurationError,
    MessageQueueWrong,
    MessageUnreadable,
    QueueMissing,
)
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.actions import Ack
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.job_ids import derived_job_id
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.firing import Firing, schedule_input, schedule_name
from headgate.jobs.schedules.inputs import parse_input
from headgate.jobs.schedules.routes import FILE, Routes
from headgate.jobs.submission.prepare import Origin, prepare
from headgate.jobs.testing import MemorySqs, VirtualClock
from headgate.lambdas import bridge
from tests.support.lambda_context import lambda_context

DUE = datetime(2026, 3, 1, 8, tzinfo=UTC)
FIRED = {
    "<aws.scheduler.schedule-arn>": "arn:aws:scheduler:eu-central-1:1:schedule/shop/report",
    "<aws.scheduler.scheduled-time>": "2026-03-01T08:00:00Z",
    "<aws.scheduler.execution-id>": "d32c5kddcf5bb8c3",
    "<aws.scheduler.attempt-number>": "1",
}


class Report(BaseModel):
    title: str = "daily"
    secret: str = "hunter2"  # noqa: S105 - a payload that must not be logged


@dataclass
class Shop:
    app: App
    report: JobType[Report, None]
    ran: list[tuple[Report, str]]

    def fired(self, **changed: str) -> dict[str, Any]:
        """Return the bridge's input when the report's schedule fires."""
        text = json.dumps(schedule_input(self.app, self.report))
        for attribute, value in FIRED.items():
            text = text.replace(attribute, value)
        event: dict[str, Any] = json.loads(text)
        return event | changed

    @property
    def queue(self) -> str:
        return self.app.topology.queue("jobs", Priority.HIGH).name


@pytest.fixture
def shop() -> Shop:
    app = App("shop", stage="test")
    ran: list[tuple[Report, str]] = []

    @app.job("report", priority=Priority.HIGH, schema=3, schedule=cron("0 8 * * ? *"))
    async def report(report: Report, ctx: JobContext) -> None:
        ran.append((report, ctx.id))

    return Shop(app=app, report=report, ran=ran)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(DUE + timedelta(seconds=7))


@pytest.fixture
def sqs(shop: Shop, clock: VirtualClock) -> MemorySqs:
    sqs = MemorySqs(clock)
    sqs.provision(shop.app.topology)
    return sqs


@pytest.fixture
def on_lambda(shop: Shop, monkeypatch: pytest.MonkeyPatch, sqs: MemorySqs) -> Iterator[None]:
    """Set the function's environment, with SQS in memory."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "shop-test-bridge")
    submitting = Bridge(sqs.sync, None, lambda: datetime.now(UTC), routes=Routes.of(shop.app))
    monkeypatch.setattr(bridge, "_bridge", lambda: submitting)
    bridge._logger.cache_clear()
    yield
    bridge._logger.cache_clear()


def submit(shop: Shop, firing: Firing, sqs: MemorySqs, clock: VirtualClock) -> str:
    """Submit as a bridge without a table does; return the job's id."""
    routes = Routes.of(shop.app)
    assert Bridge(sqs.sync, None, clock.now, routes=routes).submit(firing)
    return str(firing.job_id)


def test_a_fired_schedule_becomes_the_message_that_a_submitted_job_would_be(
    shop: Shop, sqs: MemorySqs, clock: VirtualClock
) -> None:
    firing = Firing.model_validate(shop.fired())
    job_id = submit(shop, firing, sqs, clock)

    [stored] = sqs.messages(shop.queue)
    submitted = prepare(
        shop.app,
        shop.app.topology,
        shop.report,
        Report(),
        {},
        now=clock.now(),
        job_id=derived_job_id(DUE, firing.schedule_arn),
        origin=Origin(source="schedule:report"),
    )
    assert job_id == submitted.id
    assert parse(stored.body) == submitted.envelope.model_copy(update={"payload": {}})
    assert stored.attributes == submitted.message.attributes


async def test_a_worker_runs_a_scheduled_job_with_the_defaults_of_its_model(
    shop: Shop, sqs: MemorySqs, clock: VirtualClock
) -> None:
    job_id = submit(shop, Firing.model_validate(shop.fired()), sqs, clock)
    events: list[Event] = []
    executor = Executor(Means(app=shop.app, clock=clock, events=Events(events.append)))

    [message] = await sqs.receive(shop.queue, limit=1, wait_s=0)
    delivery = Delivery(
        message=message,
        queue=shop.app.topology.queue("jobs", Priority.HIGH),
        received_at=clock.monotonic(),
    )
    verdict = await Run(executor, delivery).verdict()

    assert verdict.action == Ack()
    assert shop.ran == [(Report(), job_id)]
    assert any(isinstance(event, JobCompleted) for event in events)


def test_an_occurrence_that_is_invoked_again_submits_the_same_job_id(
    shop: Shop, sqs: MemorySqs, clock: VirtualClock
) -> None:
    first = submit(shop, Firing.model_validate(shop.fired()), sqs, clock)
    clock.advance(timedelta(minutes=2))
    again = Firing.model_validate(shop.fired(execution_id="other", attempt_number="2"))

    assert submit(shop, again, sqs, clock) == first


def test_the_same_moment_in_another_time_zone_is_the_same_occurrence(shop: Shop) -> None:
    utc = Firing.model_validate(shop.fired())
    berlin = Firing.model_validate(shop.fired(scheduled_time="2026-03-01T09:00:00+01:00"))

    assert utc.job_id == berlin.job_id


@pytest.mark.parametrize(
    "other",
    [{"scheduled_time": "2026-03-01T08:01:00Z"}, {"schedule_arn": "arn:aws:scheduler:::other"}],
)
def test_another_occurrence_or_schedule_is_another_job(shop: Shop, other: dict[str, str]) -> None:
    assert (
        Firing.model_validate(shop.fired()).job_id
        != Firing.model_validate(shop.fired(**other)).job_id
    )


def test_a_message_that_sqs_does_not_take_fails_the_invocation(
    shop: Shop, sqs: MemorySqs, clock: VirtualClock
) -> None:
    sqs.faults.fail_entries("send", code="InternalError")

    with pytest.raises(EntryRejected, match="InternalError"):
        submit(shop, Firing.model_validate(shop.fired()), sqs, clock)


def test_a_missing_queue_fails_the_invocation(shop: Shop, clock: VirtualClock) -> None:
    with pytest.raises(QueueMissing, match="shop-test-jobs-high"):
        submit(shop, Firing.model_validate(shop.fired()), MemorySqs(clock), clock)


@pytest.mark.usefixtures("on_lambda")
def test_the_handler_returns_and_logs_the_job_id_and_never_the_payload(
    shop: Shop, sqs: MemorySqs, capsys: pytest.CaptureFixture[str]
) -> None:
    event = shop.fired() | {"payload": {"title": "monthly", "secret": "hunter2"}}
    answer = bridge.handler(event, lambda_context())

    [stored] = sqs.messages(shop.queue)
    printed = capsys.readouterr().out
    line = json.loads(printed)
    assert answer == {"job_id": str(parse(stored.body).id)}
    assert line["job_id"] == answer["job_id"]
    assert line["service"] == "shop-test-bridge"
    assert line["schedule"] == line["job_type"] == "report"
    assert "hunter2" not in printed


@pytest.mark.usefixtures("on_lambda")
def test_what_a_schedule_fires_before_its_start_submits_nothing(shop: Shop, sqs: MemorySqs) -> None:
    early = shop.fired() | {"start": {"at": "2026-03-01T08:01:00Z"}}
    assert bridge.handler(early, lambda_context()) == {}
    assert sqs.messages(shop.queue) == []
    on_time = shop.fired() | {"start": {"at": "2026-03-01T08:00:00Z"}}
    assert bridge.handler(on_time, lambda_context())["job_id"]
    assert len(sqs.messages(shop.queue)) == 1


@pytest.mark.usefixtures("on_lambda")
def test_an_input_that_is_no_firing_is_refused_by_the_names_of_its_fields(
    shop: Shop, sqs: MemorySqs
) -> None:
    event = shop.fired(scheduled_time="hunter2")
    del event["queue_name"]

    with pytest.raises(MessageUnreadable) as refused:
        bridge.handler(event, lambda_context())

    assert "queue_name: " in str(refused.value)
    assert "scheduled_time: " in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None
    assert sqs.messages(shop.queue) == []


def test_context_attributes_that_nobody_filled_in_are_refused(shop: Shop) -> None:
    with pytest.raises(MessageUnreadable, match=r"scheduled_time: .*attempt_number: "):
        parse_input(schedule_input(shop.app, shop.report))


def test_a_schedules_input_has_every_field_of_a_firing(shop: Shop) -> None:
    fields = {field.alias or name for name, field in Firing.model_fields.items()}

    assert set(schedule_input(shop.app, shop.report)) == fields - {
        "fifo_group",
        "tenant",
        "options",
        "sealed",
        "start",
        "moved_from",
    }


def test_names_that_are_too_long_for_a_schedule_are_refused() -> None:
    long = App("a" * (MAX_SCHEDULER_NAME - 4), stage="test")
    hourly = Schedule.rate(timedelta(hours=1))
    fits = long.define("b" * MAX_SCHEDULER_NAME, Report, schedule=hourly)
    exceeds = long.define("c" * (MAX_SCHEDULER_NAME + 1), Report, schedule=hourly)

    assert schedule_name(*fits.schedules) == fits.name
    with pytest.raises(ConfigurationError, match="65 characters"):
        schedule_name(*exceeds.schedules)
    with pytest.raises(ConfigurationError, match="65 characters"):
        _ = App("a" * (MAX_SCHEDULER_NAME - 4), stage="test").topology.schedule_group


@pytest.mark.parametrize("table", ["shop-records", None])
def test_the_bridge_remembers_what_it_sent_where_it_is_told_of_a_table(
    table: str | None, shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_text(Routes.of(shop.app).to_text())
    monkeypatch.setattr(bridge, "_ROUTES", tmp_path / FILE)
    if table is not None:
        monkeypatch.setenv(bridge.TABLE, table)
    made = bridge._bridge.__wrapped__()
    assert isinstance(made._table, DynamoTable) is (table is not None)


def test_a_bridge_without_its_routes_sends_nothing() -> None:
    with pytest.raises(FileNotFoundError, match=FILE):
        bridge._bridge.__wrapped__()


def test_what_the_bridge_refuses_is_logged_with_the_reason_and_without_the_payload(
    shop: Shop,
    sqs: MemorySqs,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / FILE).write_text(Routes.of(shop.app).to_text())
    monkeypatch.setattr(bridge, "_ROUTES", tmp_path / FILE)
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "shop-test-bridge")
    made = bridge._bridge.__wrapped__()
    made._transport = sqs.sync
    monkeypatch.setattr(bridge, "_bridge", lambda: made)
    bridge._logger.cache_clear()
    elsewhere = shop.fired() | {"queue_name": "shop-test-quarantine", "payload": "a secret"}

    with pytest.raises(MessageQueueWrong, match="run from 'jobs'"):
        bridge.handler(elsewhere, lambda_context())

    bridge._logger.cache_clear()
    [told] = caplog.records
    fields = vars(told)
    assert (told.levelname, told.message) == ("ERROR", "firing.refused")
    assert (fields["job_type"], fields["queue"]) == ("report", "shop-test-quarantine")
    assert "run from 'jobs'" in fields["error"]
    assert "a secret" not in str(fields)
    assert not sqs.messages("shop-test-quarantine")


# --- delayed jobs --------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_lambda")
def test_a_delayed_job_is_sent_as_it_was_prepared_and_logged_without_its_payload(
    shop: Shop, sqs: MemorySqs, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    now = clock.now()
    submission = prepare(
        shop.app,
        shop.app.topology,
        shop.report,
        Report(),
        {"delay": timedelta(days=3)},
        now=now,
        job_id=derived_job_id(now, "delayed"),
    )
    event = json.loads(submission.delayed().to_input())

    answer = bridge.handler(event, lambda_context())

    [stored] = sqs.messages(shop.queue)
    [line] = [vars(record) for record in caplog.records]
    assert stored.body == submission.message.body
    assert stored.attributes == submission.message.attributes
    assert answer == {"job_id": submission.id}
    assert (line["job_id"], line["job_type"]) == (submission.id, "report")
    assert "hunter2" not in str(line)


@pytest.mark.usefixtures("on_lambda")
def test_a_delayed_job_that_sqs_does_not_take_fails_the_invocation(
    shop: Shop, sqs: MemorySqs, clock: VirtualClock
) -> None:
    sqs.faults.fail_entries("send", code="InternalError")
    submission = prepare(
        shop.app,
        shop.app.topology,
        shop.report,
        Report(),
        {"delay": timedelta(days=3)},
        now=clock.now(),
        job_id=derived_job_id(clock.now(), "delayed"),
    )
    with pytest.raises(EntryRejected, match="InternalError"):
        bridge.handler(json.loads(submission.delayed().to_input()), lambda_context())
