"""Any input of the bridge is sent, or refused by the one error that makes Lambda keep it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import App, cron
from headgate.jobs.definitions.event_rules.event_rule import event_input
from headgate.jobs.errors import MessageUnreadable
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.firing import schedule_input
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.submission.prepare import prepare
from headgate.jobs.testing import MemorySqs, VirtualClock
from headgate.lambdas import bridge
from tests.support.lambda_context import lambda_context

AT = datetime(2026, 3, 1, 8, tzinfo=UTC)

APP = App("shop", stage="test")
REPORT = APP.define("report", dict[str, Any], schedule=cron("0 8 * * ? *"))
BOOK = APP.queue("ledger", fifo=True).define("book", dict[str, Any], group_by=lambda _: "a")
APP.event_rule("placed", pattern={"source": ["shop"]}, job=REPORT)
APP.event_rule("booked", pattern={"source": ["shop"]}, job=BOOK, group="$.detail.account")


def fired() -> dict[str, Any]:
    """Return the input from a recurring schedule."""
    return schedule_input(APP, REPORT) | {
        "schedule_arn": "arn:aws:scheduler:eu-central-1:1:schedule/shop/report",
        "scheduled_time": "2026-03-01T08:00:00Z",
        "execution_id": "d32c5kddcf5bb8c3",
        "attempt_number": "1",
    }


def matched(rule: str) -> dict[str, Any]:
    """Return the input from an event rule."""
    event = {"id": "e-1", "time": "2026-03-01T08:00:00Z", "detail": {"account": "a-1"}}
    template = event_input(APP.topology, APP.event_rules[rule])
    filled: dict[str, Any] = json.loads(
        template.replace("<aws.events.event.json>", json.dumps(event))
    )
    return filled


def held() -> dict[str, Any]:
    """Return the input from a one-time schedule."""
    submission = prepare(
        APP,
        APP.topology,
        BOOK,
        {},
        {"delay": timedelta(days=3)},
        now=AT,
        job_id=new_job_id(AT),
    )
    event: dict[str, Any] = json.loads(submission.delayed().to_input())
    return event


INPUTS = [fired(), matched("placed"), matched("booked"), held()]


@pytest.fixture(autouse=True)
def on_lambda(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemorySqs]:
    """Set the function's environment, with SQS in memory."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "shop-test-input")
    sqs = MemorySqs(VirtualClock(AT))
    sqs.provision(APP.topology)
    submitting = Bridge(sqs.sync, None, lambda: AT, routes=Routes.of(APP))
    monkeypatch.setattr(bridge, "_bridge", lambda: submitting)
    bridge._logger.cache_clear()
    yield sqs
    bridge._logger.cache_clear()


def handle(event: object) -> dict[str, str]:
    """Invoke the function."""
    context = lambda_context()
    return bridge.handler(event, context)


@pytest.mark.parametrize("event", INPUTS, ids=["schedule", "event", "ordered event", "delayed"])
def test_each_kind_of_input_becomes_its_job(event: dict[str, Any]) -> None:
    assert handle(event).keys() == {"job_id"}


@pytest.mark.parametrize("event", [None, [], [1], "", "text", "delayed_until", b"", 0, 1.5, True])
def test_an_input_that_is_no_json_object_is_unreadable(event: object) -> None:
    kind = type(event).__name__
    with pytest.raises(MessageUnreadable, match=f"not a JSON object but an? {kind}"):
        handle(event)


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (fired() | {"scheduled_time": "1969-12-31T23:59:59Z"}, "scheduled_time: .*1970"),
        (fired() | {"scheduled_time": "0001-01-01T00:00:00+14:00"}, "scheduled_time"),
        (fired() | {"scheduled_time": "9999-12-31T23:59:59-12:00"}, "scheduled_time"),
        (fired() | {"scheduled_time": -1e300}, "scheduled_time"),
        (fired() | {"type": "x" * 129}, "type: .*128"),
        (fired() | {"queue": "x" * 129}, "queue: .*128"),
        (fired() | {"fifo_group": "a b"}, "fifo_group"),
        (fired() | {"payload": {"total": math.inf}}, "JSON can't hold the input"),
        (fired() | {"payload": [math.nan]}, "JSON can't hold the input"),
        (fired() | {"payload": "\ud800"}, "JSON can't hold the input"),
        (fired() | {"\ud800": 1}, "JSON can't hold the input"),
        (held() | {"delayed_until": "1969-12-31T23:59:59Z"}, "delayed_until"),
        (held() | {"group": "a b"}, "group"),
        (held() | {"attributes": {"JobType": 5}}, "attributes"),
        (held() | {"body": None}, "body"),
        (matched("placed") | {"event": None}, "event"),
        (matched("placed") | {"event": {"id": "e", "time": "1969-12-31T23:59:59Z"}}, "event.time"),
        (
            matched("booked")
            | {"event": {"id": "e", "time": AT.isoformat(), "detail": {"account": "a b"}}},
            r"\$\.detail\.account",
        ),
        (json.loads(json.dumps(matched("placed")).replace('"a-1"', "1e999")), "JSON can't hold"),
    ],
)
def test_an_input_that_makes_no_message_is_unreadable_by_the_field_s_name(
    event: dict[str, Any], field: str, on_lambda: MemorySqs
) -> None:
    with pytest.raises(MessageUnreadable, match=field) as refused:
        handle(event)
    assert refused.value.__cause__ is refused.value.__context__ is None
    assert on_lambda.calls == []
