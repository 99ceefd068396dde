from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import App, Client, Schedule
from headgate.jobs.core.events import FiringRefused
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import (
    MessageError,
    MessageQueueWrong,
    MessageTypeUnknown,
    MessageUnreadable,
)
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.schedules.firing import schedule_input
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.testing import MemoryBackend, MemorySqs, MemoryTable, VirtualClock
from tests.support.bridge import DeployedBridge

DUE = datetime(2026, 1, 2, tzinfo=UTC)
VICTIM = "019b76da-a800-7000-8000-000000000001"
FIRED = {
    "schedule_arn": "arn:aws:scheduler:eu-central-1:1:schedule/shop/payout",
    "scheduled_time": "2026-01-02T08:00:00Z",
    "execution_id": "d32c5kddcf5bb8c3",
    "attempt_number": "1",
}


class Bench:
    """An app with a queue for money, one for all else, and its bridge as deployed."""

    def __init__(self) -> None:
        self.app = App("shop")
        self.letter = self.app.define("letter", dict[str, Any])
        money = self.app.queue("money", priorities=["critical"])
        self.payout: JobType[dict[str, Any], None] = money.define(
            "payout",
            dict[str, Any],
            schedule=Schedule.rate(timedelta(days=1)),
            accepts_from=["till"],
        )
        self.app.queue("till", priorities=["normal"])
        self.clock = VirtualClock()
        self.sqs, self.table = MemorySqs(self.clock), MemoryTable(self.clock)
        self.sqs.provision(self.app.topology)
        self.bridge = DeployedBridge(self.app, self.sqs, self.table, self.clock)

    def fired(self, **changed: Any) -> dict[str, Any]:
        return schedule_input(self.app, self.payout) | FIRED | changed

    def bodies(self, queue: str) -> list[dict[str, Any]]:
        return [json.loads(message.body) for message in self.sqs.messages(queue)]

    def refused(self, event: dict[str, Any], why: type[MessageError], match: str) -> None:
        """Check that an input is refused and told of, and that nothing is sent for it."""
        with pytest.raises(why, match=match):
            self.bridge.handle(event)
        told = self.bridge.told[-1]
        assert isinstance(told, FiringRefused)
        assert told.queue == event["queue_name"]
        assert match in told.error
        assert not any(self.sqs.messages(spec.name) for spec in self.app.topology.queues)


def held(*, type: str, queue_name: str, body: object, job_id: str = VICTIM) -> dict[str, Any]:  # noqa: A002 - the input's own name
    """Return the input of a one-time schedule."""
    job = DelayedJob(
        delayed_until=DUE,
        job_id=job_id,
        type=type,
        queue_name=queue_name,
        body=json.dumps(body),
        attributes={},
    )
    made: dict[str, Any] = json.loads(job.to_input())
    return made


def test_a_type_is_sent_to_its_own_queue_and_to_those_it_accepts_from() -> None:
    bench = Bench()
    bench.bridge.handle(bench.fired())
    bench.bridge.handle(held(type="payout", queue_name="shop-till-normal", body={"type": "payout"}))
    assert len(bench.bodies("shop-money-critical")) == len(bench.bodies("shop-till-normal")) == 1
    assert not bench.bridge.told


@pytest.mark.parametrize("queue", ["shop-jobs-normal", "shop-quarantine", "elsewhere", "x" * 300])
def test_a_schedule_that_names_another_queue_is_refused_and_told_of(queue: str) -> None:
    bench = Bench()
    bench.refused(bench.fired(queue_name=queue), MessageQueueWrong, "run from 'money' or 'till'")


def test_a_held_message_for_another_queue_than_its_type_s_is_refused() -> None:
    bench = Bench()
    event = held(type="letter", queue_name="shop-money-critical", body={"type": "letter"})
    bench.refused(event, MessageQueueWrong, "run from 'jobs'")


@pytest.mark.parametrize("body", [{"type": "letter"}, {}, [], "payout", None, {"type": ["payout"]}])
def test_a_held_message_is_a_job_of_the_type_that_its_input_names(body: object) -> None:
    bench = Bench()
    event = held(type="payout", queue_name="shop-money-critical", body=body)
    bench.refused(event, MessageUnreadable, "not a job of the type 'payout'")


def test_a_type_of_a_newer_app_is_kept_by_lambda_and_sent_once_that_app_is_deployed() -> None:
    bench = Bench()
    event = held(type="refund", queue_name="shop-money-critical", body={"type": "refund"})
    bench.refused(event, MessageTypeUnknown, "no job type 'refund'")

    bench.app.queues["money"].define("refund", dict[str, Any])
    bench.bridge.handle(event)

    [sent] = bench.bodies("shop-money-critical")
    assert sent["type"] == "refund"


def test_a_refused_firing_leaves_no_mark_that_would_hold_back_the_true_one() -> None:
    bench = Bench()
    bench.refused(bench.fired(queue_name="elsewhere"), MessageQueueWrong, "run from")
    bench.bridge.handle(bench.fired())
    assert len(bench.bodies("shop-money-critical")) == 1


def test_a_forged_firing_of_tomorrow_s_job_does_not_have_the_true_one_taken_as_sent() -> None:
    bench = Bench()
    bench.bridge.handle(bench.fired(payload={"to": "a stranger"}))
    bench.bridge.handle(bench.fired())
    bench.bridge.handle(bench.fired())  # a repeated invocation
    payloads = [body["payload"] for body in bench.bodies("shop-money-critical")]
    assert payloads == [{"to": "a stranger"}, {}]


def test_a_forged_hand_over_of_a_job_does_not_have_the_true_one_taken_as_sent() -> None:
    bench = Bench()
    queue = "shop-money-critical"
    for text in ("forged", "true", "true"):
        bench.bridge.handle(
            held(type="payout", queue_name=queue, body={"type": "payout", "payload": text})
        )
    assert [body["payload"] for body in bench.bodies(queue)] == ["forged", "true"]


def test_an_event_s_job_goes_where_its_type_runs_alone() -> None:
    bench = Bench()
    job = {"rule": "r", "type": "payout", "schema": 1, "queue": "money", "priority": "critical"}
    event = {"id": "1", "time": "2026-01-01T00:00:00Z", "detail": {}}
    given = {"kind": "event", "event": event, "job": job | {"queue_name": "shop-jobs-normal"}}
    with pytest.raises(MessageQueueWrong):
        bench.bridge.handle(given)
    bench.bridge.handle(given | {"job": job | {"queue_name": "shop-money-critical"}})
    assert len(bench.bodies("shop-money-critical")) == 1


def test_the_test_kit_s_bridge_checks_what_fires_as_the_deployed_one_does() -> None:
    bench = Bench()
    backend = MemoryBackend(bench.app)
    with Client(bench.app, backend=backend) as client:
        client.submit(bench.letter, {}, delay=timedelta(days=1))
    [spec] = backend.scheduler.schedules
    elsewhere = spec.input.replace("shop-jobs-normal", "shop-money-critical")
    assert backend.scheduler.sync.update(replace(spec, input=elsewhere))
    with pytest.raises(MessageQueueWrong, match="run from 'jobs'"):
        backend.clock.advance(timedelta(days=2))


def test_routes_are_read_from_their_file_as_they_were_written() -> None:
    app = Bench().app
    routes = Routes.of(app)
    assert Routes.from_text(routes.to_text()) == routes
    assert Routes.of(Bench().app).to_text() == routes.to_text()
