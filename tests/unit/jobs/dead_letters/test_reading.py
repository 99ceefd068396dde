"""Any message in a dead-letter queue can be read, with all the information that it has."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import App
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import Priority
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.reading import NOT_SUBMITTED, REDRIVEN, read_letter
from headgate.jobs.deployment.sweep_plan import parking_queues
from headgate.jobs.execution.outcome import Attempt, Reason
from headgate.jobs.execution.settling import actions
from headgate.jobs.execution.settling.actions import Quarantine
from headgate.jobs.execution.settling.dead_letter import dead_letter
from headgate.jobs.messages.envelope import VERSION, Envelope
from headgate.jobs.messages.job_ids import derived_job_id, new_job_id
from headgate.jobs.messages.outgoing import message_of

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ENVELOPE = Envelope(
    v=VERSION,
    id=new_job_id(NOW),
    type="send-email",
    payload={},
    queue="jobs",
    priority=Priority.HIGH,
    submitted_at=NOW,
)
SUBMITTED = message_of(ENVELOPE)
APP = App("shop", priorities="all")
APP.define("send-email", dict[str, str])
TOPOLOGY = APP.topology
QUEUES = {queue.name: queue for queue in parking_queues(TOPOLOGY, has_bridge=True)}
HIGH_DLQ = QUEUES["shop-jobs-high-dlq"]
QUARANTINE = QUEUES["shop-quarantine"]
FIRINGS = QUEUES["shop-schedules-dlq"]
SCHEDULE = "arn:aws:scheduler:::schedule/shop/report"
FIRING = {
    "schedule": "report",
    "type": "report",
    "schema": 1,
    "payload": {},
    "queue": "jobs",
    "priority": "high",
    "queue_name": "shop-jobs-high",
    "schedule_arn": SCHEDULE,
    "scheduled_time": "2026-11-21T08:00:00Z",
    "execution_id": "1",
    "attempt_number": "1",
}
EVENT = {
    "kind": "event",
    "job": {
        "rule": "placed",
        "type": "confirm",
        "schema": 1,
        "queue": "jobs",
        "priority": "high",
        "queue_name": "shop-jobs-high",
    },
    "event": {"id": "e-1", "time": "2026-11-21T08:00:00Z", "detail": {}},
}


def received(body: str, **attributes: str) -> ReceivedMessage:
    return ReceivedMessage(
        message_id="m-1",
        receipt="r-1",
        body=body,
        receive_count=1,
        sent_at=NOW,
        attributes=attributes,
    )


def read_parked(message: ReceivedMessage) -> DeadLetter:
    return read_letter(message, HIGH_DLQ, TOPOLOGY)


def read_unsubmitted(message: ReceivedMessage) -> DeadLetter:
    return read_letter(message, FIRINGS, TOPOLOGY)


def given_up(action: actions.DeadLetter | Quarantine) -> ReceivedMessage:
    attempt = Attempt(job_id=str(ENVELOPE.id), number=3, max_attempts=3, receives=3)
    original = received(SUBMITTED.body, **SUBMITTED.attributes)
    letter = dead_letter(original, action, attempt, ENVELOPE.type, NOW)
    return received(letter.body, **letter.attributes)


def test_what_the_worker_gave_up_says_all_that_the_worker_said() -> None:
    action = actions.DeadLetter(
        reason=Reason.PERMANENT_ERROR, error_type="CardError", error_message="refused"
    )
    assert read_parked(given_up(action)) == DeadLetter(
        message_id="m-1",
        job_id=str(ENVELOPE.id),
        job_type="send-email",
        reason="permanent-error",
        error_type="CardError",
        error_message="refused",
        attempts=3,
        failed_at=NOW,
        sent_at=NOW,
        queue="shop-jobs-high-dlq",
        origin="shop-jobs-high",
        group="jobs",
        priority=Priority.HIGH,
    )


def test_what_was_quarantined_says_so() -> None:
    read = read_parked(given_up(Quarantine(detail="killed by signal 9")))
    assert (read.reason, read.error_message) == ("quarantined", "killed by signal 9")


def test_what_sqs_moved_by_itself_is_read_from_its_body() -> None:
    read = read_parked(received(SUBMITTED.body, **SUBMITTED.attributes))
    assert (read.job_id, read.job_type, read.reason) == (
        str(ENVELOPE.id),
        "send-email",
        REDRIVEN,
    )


@pytest.mark.parametrize("body", ["", "not JSON", "[]", "null", '{"v": 1}', '{"v": 99}', "7"])
def test_anything_else_is_read_too(body: str) -> None:
    read = read_parked(received(body, JobType="theirs", Attempts="many", FailedAt="yesterday"))
    assert (read.job_id, read.job_type, read.reason) == (None, "theirs", REDRIVEN)
    assert (read.attempts, read.failed_at) == (None, None)
    assert (read.queue, read.origin, read.group) == (HIGH_DLQ.name, HIGH_DLQ.home, "jobs")
    assert read_unsubmitted(received(body)).job_type is None


def test_a_time_without_its_zone_is_none() -> None:
    assert read_parked(received("", FailedAt="2026-11-21T12:00:00")).failed_at is None


@pytest.mark.parametrize(
    ("given", "job_id", "job_type"),
    [
        (
            FIRING,
            str(derived_job_id(datetime(2026, 11, 21, 8, tzinfo=UTC), SCHEDULE)),
            "report",
        ),
        ({"job_id": "0190", "type": "remind", "body": "{}"}, "0190", "remind"),
        (
            EVENT,
            str(derived_job_id(datetime(2026, 11, 21, 8, tzinfo=UTC), "event", "placed", "e-1")),
            "confirm",
        ),
        ({**FIRING, "scheduled_time": "soon"}, None, "report"),
        ({"type": 7}, None, None),
        ({"kind": "event", "job": "none"}, None, None),
    ],
    ids=["schedule", "delay", "event", "damaged", "strange", "stranger"],
)
def test_what_became_no_job_says_which_it_was_to_be(
    given: dict[str, Any], job_id: str | None, job_type: str | None
) -> None:
    left = received(json.dumps(given), ERROR_CODE="AccessDenied", ERROR_MESSAGE="no")
    record = {
        "requestPayload": given,
        "responsePayload": {"errorType": "QueueMissing", "errorMessage": "gone"},
    }
    refused, raised = read_unsubmitted(left), read_unsubmitted(received(json.dumps(record)))
    for read in (refused, raised):
        assert (read.job_id, read.job_type, read.reason) == (job_id, job_type, NOT_SUBMITTED)
    assert (refused.error_type, refused.error_message) == ("AccessDenied", "no")
    assert (raised.error_type, raised.error_message) == ("QueueMissing", "gone")


OF_ACME = ENVELOPE.model_copy(update={"tenant": Tenant(org="acme")})


@pytest.mark.parametrize(
    ("given", "tenant"),
    [
        ({**FIRING, "tenant": {"org": "acme", "workspace": "w"}}, "acme"),
        ({"delayed_until": "2026-11-21T08:00:00Z", "body": OF_ACME.to_body()}, "acme"),
        ({"delayed_until": "2026-11-21T08:00:00Z", "body": ENVELOPE.to_body()}, None),
        ({"delayed_until": "2026-11-21T08:00:00Z", "body": 7}, None),
        (FIRING, None),
        (EVENT, None),
        ({"tenant": "acme"}, None),
        ({"tenant": {"org": 7}}, None),
    ],
)
def test_what_became_no_job_says_whose_it_was_to_be(
    given: dict[str, Any], tenant: str | None
) -> None:
    for body in (json.dumps(given), json.dumps({"requestPayload": given})):
        assert read_unsubmitted(received(body)).tenant == tenant


def test_its_end_is_counted_from_when_it_was_sent() -> None:
    assert read_parked(received("")).deleted_at(timedelta(days=14)) == NOW + timedelta(days=14)


def test_what_was_quarantined_goes_back_to_the_queue_that_its_body_names() -> None:
    read = read_letter(given_up(Quarantine(detail="killed")), QUARANTINE, TOPOLOGY)
    assert (read.queue, read.origin, read.group) == ("shop-quarantine", "shop-jobs-high", "jobs")
    elsewhere = ENVELOPE.model_copy(update={"queue": "theirs"})
    stranger = read_letter(received(message_of(elsewhere).body), QUARANTINE, TOPOLOGY)
    assert (stranger.origin, stranger.group) == (None, "theirs")
    assert read_letter(received(SUBMITTED.body), QUARANTINE).origin is None


def test_what_became_no_job_goes_to_the_queue_that_its_input_names() -> None:
    read = read_unsubmitted(received(json.dumps(EVENT)))
    assert (read.origin, read.group, read.priority) == ("shop-jobs-high", "jobs", Priority.HIGH)
    strange = read_unsubmitted(received(json.dumps({"queue": "jobs", "priority": "soon"})))
    assert (strange.origin, strange.group, strange.priority) == (None, "jobs", None)


def test_a_delayed_job_that_was_not_sent_names_the_queue_of_its_message() -> None:
    given = {
        "delayed_until": "2026-11-21T08:00:00Z",
        "job_id": "0190",
        "type": "remind",
        "body": SUBMITTED.body,
    }
    read = read_unsubmitted(received(json.dumps({"requestPayload": given})))
    assert (read.origin, read.group, read.priority) == ("shop-jobs-high", "jobs", Priority.HIGH)
    assert DeadLetterFilter(queues=("jobs",)).matches(read)
    assert (read.job_id, read.job_type) == ("0190", "remind")  # as its input says
    strange = read_unsubmitted(received(json.dumps({**given, "body": 7})))
    assert (strange.origin, strange.job_type) == (None, "remind")


def test_the_tenant_is_the_one_of_the_body() -> None:
    owned = ENVELOPE.model_copy(update={"tenant": Tenant(org="acme", workspace="eu")})
    assert read_parked(received(message_of(owned).body)).tenant == "acme"


@pytest.mark.parametrize(
    ("source", "attribute", "replays"),
    [
        ("sdk", None, 0),
        ("replay:1", None, 1),
        ("replay:1", "3", 3),
        ("sdk", "2", 2),
        ("sdk", "often", 0),
        ("sdk", "9" * 5_000, 0),
    ],
)
def test_it_says_how_often_it_was_replayed(
    source: str, attribute: str | None, replays: int
) -> None:
    body = message_of(ENVELOPE.model_copy(update={"source": source})).body
    told = {"Replays": attribute} if attribute else {}
    assert read_parked(received(body, **told)).replays == replays


def test_its_repr_shows_neither_its_message_nor_its_errors_text() -> None:
    read = read_parked(received('{"card": "4111"}', ErrorMessage="card 4111", Other="4111"))
    assert read.content is not None
    assert read.content.attributes["Other"] == "4111"
    assert "4111" not in repr(read)
    assert read.without_content().content is None
    assert read.without_content() == read


def test_texts_of_strangers_are_cut_and_made_legible() -> None:
    record = {"responsePayload": {"errorType": int("9" * 4_000), "errorMessage": "x\x1b" * 5_000}}
    names = dict.fromkeys(("JobId", "JobType", "Reason", "ErrorType"), "n\x1b" * 5000)
    parked = read_parked(received("{}", ErrorMessage="m" * 5_000, **names))
    for read in (read_unsubmitted(received(json.dumps(record))), parked):
        assert len(repr(read)) < 2_500
        assert len(read.error_message) <= 1_024
        assert "\x1b" not in read.error_message + repr(read)


def test_a_number_too_long_to_print_is_read_too() -> None:
    body = '{"responsePayload": {"errorType": %s}}' % ("9" * 5_000)
    assert read_unsubmitted(received(body)).reason == NOT_SUBMITTED
