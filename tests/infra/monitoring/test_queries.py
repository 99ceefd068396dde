"""The saved queries name fields that the logs have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import App, Priority, Schedule
from headgate.infra.monitoring.queries import OF_JOBS, OF_THE_BRIDGE
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import (
    Event,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobInterrupted,
    JobQuarantined,
    JobRetryScheduled,
    MessageUnrunnable,
)
from headgate.jobs.definitions.event_rules.event_rule import event_input
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.schedules.firing import schedule_input
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.testing import MemorySqs, VirtualClock
from headgate.lambdas import bridge
from headgate.lambdas.consume import consumer
from headgate.workers.logs import configure
from tests.infra.conftest import Params
from tests.infra.templates import resources
from tests.support.backends import async_over
from tests.support.lambda_context import lambda_context
from tests.support.loggers import restored

NOW = datetime(2026, 5, 4, tzinfo=UTC)
ATTEMPT: dict[str, Any] = {
    "at": NOW,
    "job_id": "0197",
    "job_type": "send-email",
    "queue": "jobs",
    "priority": Priority.HIGH,
    "attempt": 1,
    "max_attempts": 3,
}
ERROR: dict[str, Any] = {"error_type": "TimeoutError", "error_message": "no answer"}
EVENTS: Sequence[Event] = (
    JobCompleted(ran_s=0.5, **ATTEMPT),
    JobFailed(ran_s=0.5, traceback="", **ERROR, **ATTEMPT),
    JobRetryScheduled(delay_s=2, **ATTEMPT),
    JobDeadLettered(reason="attempts", **ERROR, **ATTEMPT),
    JobQuarantined(detail="three crashes", **ATTEMPT),
    JobInterrupted(reason="shutdown", **ATTEMPT),
    MessageUnrunnable(
        at=NOW,
        queue="shop-jobs-high",
        message_id="m",
        job_id=None,
        job_type="nobody-knows",
        reason="unknown-type",
        detail="no such type",
        receives=9,
        retry_in_s=None,
    ),
)

LINES_ABOUT: Mapping[str, set[str]] = {
    "failures by type and error": {"job.failed"},
    "slowest jobs": {"job.completed", "job.failed"},
    "retries": {"job.retry_scheduled"},
    "dead letters by reason": {"job.dead_lettered", "job.quarantined", "message.unrunnable"},
    "what a deploy interrupted": {"job.interrupted"},
}

Line = Mapping[str, Any]


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Restore the loggers."""
    with restored(None, bare=True), restored(bare=True):
        yield


@pytest.fixture(params=["worker", "consumer"])
def lines(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Sequence[Line]:
    """Return the log lines of a worker, or of a function that runs jobs, for these events."""
    if request.param == "worker":
        configure(json=True)
    else:
        consumer(App("shop"), backend=async_over(MemorySqs(VirtualClock()))).close()
    for event in EVENTS:
        log_event(event)
    read = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(read) == len(EVENTS)
    return read


def fields_of(query: str) -> set[str]:
    """Return the fields that a query reads: all its words but commands, functions and aliases."""
    text = re.sub(r'/(?:[^/\\]|\\.)*/|"[^"]*"', "", query)
    named = set(re.findall(r"\bas (\w+)", text))
    words = set(re.findall(r"(?<![@\w])[a-z_]\w*(?!\w*\()", text))
    commands = {"filter", "fields", "stats", "sort", "limit", "by", "as", "like", "in", "desc"}
    return words - named - commands - {"asc", "and", "not", "or"}


def filtered(query: str, lines: Sequence[Line]) -> set[str]:
    """Return the messages of the lines that a query's filter chooses.

    The filter is one pattern, or several of which one has to match, or all that share brackets.
    """
    found = re.search(r"^\s*filter ((?:.|\n\s+or )*)", query)
    assert found, query
    chosen = set[str]()
    for choice in re.split(r"\s+or\s+", found.group(1)):
        conditions = re.findall(r"(@?message) (not )?like /(.*?)/(?=\s|\)|$)", choice)
        assert conditions, choice
        chosen |= {
            line["message"]
            for line in lines
            if all(
                bool(re.search(pattern, json.dumps(line) if field[0] == "@" else line["message"]))
                is not bool(negated)
                for field, negated, pattern in conditions
            )
        }
    return chosen


@pytest.mark.parametrize("name", LINES_ABOUT)
def test_a_query_reads_the_lines_that_it_is_about(name: str, lines: Sequence[Line]) -> None:
    assert filtered(OF_JOBS[name], lines) == LINES_ABOUT[name]


@pytest.mark.parametrize("name", OF_JOBS)
def test_the_fields_of_a_query_are_logged(name: str, lines: Sequence[Line]) -> None:
    logged = {field for line in lines for field in line}
    assert fields_of(OF_JOBS[name])
    assert fields_of(OF_JOBS[name]) <= logged


def test_a_message_that_is_given_back_is_no_dead_letter(capsys: pytest.CaptureFixture[str]) -> None:
    [parked] = [each for each in EVENTS if isinstance(each, MessageUnrunnable)]
    configure(json=True)
    log_event(replace(parked, retry_in_s=30))
    line = json.loads(capsys.readouterr().err)

    assert line["message"] == "message.unrunnable"
    assert filtered(OF_JOBS["dead letters by reason"], [line]) == set()


FIRED = {
    "<aws.scheduler.schedule-arn>": "arn:aws:scheduler:::schedule/shop/report",
    "<aws.scheduler.scheduled-time>": "2026-03-01T08:00:00Z",
    "<aws.scheduler.execution-id>": "d32c5kddcf5bb8c3",
    "<aws.scheduler.attempt-number>": "1",
}
HAPPENED = {
    "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
    "detail-type": "OrderPlaced",
    "source": "shop",
    "time": "2026-03-01T08:00:00Z",
    "detail": {},
}


@pytest.fixture
def bridged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sequence[Line]:
    """Return the bridge's log of a schedule, an event and a delayed job."""
    app = App("shop")
    report = app.define("report", Params, schedule=Schedule.rate(timedelta(days=1)))
    app.event_rule("placed", pattern={"source": ["shop"]}, job=report)
    queue = app.topology.queue("jobs", Priority.NORMAL).name
    delayed = DelayedJob(
        delayed_until=NOW,
        job_id="1",
        type="report",
        queue_name=queue,
        body='{"type": "report"}',
        attributes={},
    )
    fired = json.dumps(schedule_input(app, report))
    for variable, value in FIRED.items():
        fired = fired.replace(variable, value)
    happened = event_input(app.topology, app.event_rules["placed"]).replace(
        "<aws.events.event.json>", json.dumps(HAPPENED)
    )
    sqs = MemorySqs(VirtualClock())
    sqs.provision(app.topology)
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "shop-bridge")
    submitting = Bridge(sqs.sync, None, lambda: NOW, routes=Routes.of(app))
    monkeypatch.setattr(bridge, "_bridge", lambda: submitting)
    bridge._logger.cache_clear()
    for text in (fired, happened, delayed.to_input()):
        bridge.handler(json.loads(text), lambda_context("1"))
    bridge._logger.cache_clear()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_bridge_logs_the_messages_and_the_fields_that_its_query_reads(
    bridged: Sequence[Line],
) -> None:
    [query] = OF_THE_BRIDGE.values()
    messages = set(re.findall(r'"([^"]+)"', query))

    assert {line["message"] for line in bridged} == messages
    assert fields_of(query) <= {field for line in bridged for field in line}


def test_the_queries_are_saved_in_the_app_s_folder_with_the_bridge_s_log(
    template: Mapping[str, Any],
) -> None:
    definitions = resources(template, "AWS::Logs::QueryDefinition").values()
    saved = {each["Name"]: each for each in definitions}
    assert saved.keys() == {f"shop-test/{name}" for name in (*OF_JOBS, *OF_THE_BRIDGE)}
    [log_group] = saved["shop-test/what the bridge submitted"]["LogGroupNames"]
    assert template["Resources"][log_group["Ref"]]["Type"] == "AWS::Logs::LogGroup"
    assert "LogGroupNames" not in saved["shop-test/retries"], "workers that run elsewhere"
