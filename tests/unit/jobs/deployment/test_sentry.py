"""Reports to Sentry, by its own SDK, with a transport that keeps them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import EventHandler, unignore_logger
from sentry_sdk.transport import Transport

from headgate import App, Backoff, Priority, Retry
from headgate.errors import ConfigurationError
from headgate.jobs.core.events import Event, JobDeadLettered, JobFailed, JobQuarantined
from headgate.sentry import Reporter, report_failures
from tests.unit.workers.rig import Note, Rig, one_lane

CARD = "4111-1111-1111-1111"
NOW = datetime(2026, 5, 4, tzinfo=UTC)


class Kept(Transport):
    """A transport that keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Envelope] = []
        self.flushed: list[int] = []
        """The number of what had been sent, at each flush."""

    def flush(self, timeout: float, callback: Any = None) -> None:
        del timeout, callback
        self.flushed.append(len(self.sent))

    def capture_envelope(self, envelope: Envelope) -> None:
        self.sent.append(envelope)

    @property
    def reports(self) -> list[Any]:
        """The reports, in order."""
        return [each.get_event() for each in self.sent if each.get_event() is not None]

    async def until(self, count: int) -> None:
        """Wait for that many reports; hooks run beside the jobs, in their order."""
        while len(self.reports) < count:  # noqa: ASYNC110 - its threads know no event loop
            await asyncio.sleep(0.01)

    def texts(self) -> str:
        return json.dumps(self.reports, default=str)


@pytest.fixture
def sentry() -> Iterator[Kept]:
    kept = Kept()
    scope = sentry_sdk.get_global_scope()
    before = scope.client
    scope.set_client(
        sentry_sdk.Client(dsn="http://key@127.0.0.1/1", transport=kept, default_integrations=False)
    )
    yield kept
    scope.set_client(before)
    unignore_logger("headgate.worker")


def event(cls: type[Event], **fields: Any) -> Event:
    named = {"at": NOW, "job_id": "j", "job_type": "send", "queue": "mail"}
    return cls(**{**named, "priority": Priority.NORMAL, "attempt": 3, "max_attempts": 3, **fields})


def failing(max_attempts: int) -> tuple[App, Any]:
    app, queue = one_lane(Retry(max_attempts=max_attempts, backoff=Backoff.fixed(1)))

    @queue.job("charge")
    async def charge(note: Note) -> None:
        card = note.text
        try:
            card.index("x")
        except ValueError as error:
            raise ConnectionError("the bank is away") from error

    return app, charge


@pytest.mark.looptime
async def test_a_worker_reports_the_last_failure_only_and_nothing_of_the_payload(
    sentry: Kept,
) -> None:
    app, charge = failing(max_attempts=3)
    report_failures(app)
    rig = Rig(app)
    [job_id] = await rig.submit(charge, CARD)
    async with rig.working():
        await sentry.until(1)
    assert len(rig.heard(JobFailed)) == 3
    [report] = sentry.reports
    assert report["tags"] == {
        "job.id": job_id,
        "job.type": "charge",
        "job.queue": "mail",
        "job.attempt": "3",
        "job.reason": "attempts-exhausted",
    }
    cause, error = report["exception"]["values"]
    assert (error["type"], error["value"]) == ("ConnectionError", "the bank is away")
    assert cause["type"] == "ValueError"
    last = error["stacktrace"]["frames"][-1]
    assert (last["function"], last["filename"]) == ("charge", __file__)
    assert "the bank is away" in last["context_line"]
    assert CARD not in sentry.texts()
    assert "vars" not in sentry.texts()


@pytest.mark.looptime
async def test_every_failure_is_reported_once_if_that_is_asked_for(sentry: Kept) -> None:
    app, charge = failing(max_attempts=2)
    report_failures(app, failures="every")
    rig = Rig(app)
    await rig.submit(charge, CARD)
    async with rig.working():
        await sentry.until(2)
        await rig.happens(JobDeadLettered)
    assert [each["tags"]["job.attempt"] for each in sentry.reports] == ["1", "2"]


def test_a_job_that_dies_without_a_failed_run_is_reported_by_its_reason(sentry: Kept) -> None:
    report = Reporter()
    report(event(JobQuarantined, detail="it killed three workers"))
    report(event(JobDeadLettered, reason="deferred-too-often", error_type="", error_message=""))
    report(event(JobDeadLettered, reason="x", error_type="shop.Refused", error_message="no"))
    assert [each.get("message") for each in sentry.reports] == [
        "send: it killed three workers",
        "send: deferred-too-often",
        None,
    ]
    assert sentry.reports[2]["exception"]["values"] == [{"type": "shop.Refused", "value": "no"}]


def test_failures_whose_end_never_comes_take_a_bounded_room(sentry: Kept) -> None:
    report = Reporter()
    named = {"ran_s": 1, "error_type": "E", "error_message": "m", "traceback": ""}
    for number in range(1_500):
        report(event(JobFailed, job_id=f"j{number}", **named))
    assert len(report._failed) == 1_000
    assert sentry.reports == []


def test_the_worker_s_log_is_not_reported_besides_and_other_logs_are(sentry: Kept) -> None:
    Reporter()
    handler = EventHandler(level=logging.ERROR)
    for name in ("headgate.worker", "headgate.job.charge"):
        handler.emit(logging.LogRecord(name, logging.ERROR, "", 1, name, (), None))
    assert [each["logger"] for each in sentry.reports] == ["headgate.job.charge"]


def test_failures_to_report_are_the_last_or_every_one() -> None:
    with pytest.raises(ConfigurationError, match="'last' or 'every'"):
        Reporter("first")  # type: ignore[arg-type]


@pytest.mark.parametrize(("function", "flushes"), [("shop-consumer", [1]), ("", [])])
def test_in_a_lambda_function_a_report_is_sent_before_the_function_is_frozen(
    sentry: Kept, monkeypatch: pytest.MonkeyPatch, function: str, flushes: list[int]
) -> None:
    if function:
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", function)
    Reporter()(event(JobQuarantined, detail="it killed three workers"))
    assert len(sentry.reports) == 1
    assert sentry.flushed == flushes
