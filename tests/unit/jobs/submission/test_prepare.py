from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headgate import App, JobType, Priority, RateLimit, Retry, Tenant
from headgate.jobs.core.batching import EntryRejected, in_batches
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.core.tenant import Tenant as ContextTenant
from headgate.jobs.core.topology import MAX_BATCH, MAX_MESSAGE_BYTES
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.errors import (
    AccessDenied,
    ConfigurationError,
    CostInvalid,
    DelayInvalid,
    OptionInvalid,
    PartlySubmitted,
    PayloadInvalid,
    ServiceUnavailable,
    SubmissionError,
    TransportError,
    UnknownJobType,
    UnknownQueue,
)
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.submission.prepare import Submission, prepare, prepare_many
from headgate.jobs.submission.refused import raise_refused
from headgate.jobs.testing.memory import sqs_limits as rules

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Email(BaseModel):
    to: str = "ada@example.com"
    body: str = ""


APP = App("shop", stage="test", priorities="all")
SEND: JobType[Email, None] = APP.define(
    "send-email", Email, priority=Priority.HIGH, retry=Retry(max_attempts=5)
)
CAPTURE: JobType[dict[str, Any], None] = APP.queue(
    "payments", priorities=[Priority.CRITICAL, Priority.HIGH]
).define("capture", dict[str, Any], priority=Priority.CRITICAL)
ANYTHING: JobType[Any, None] = APP.define("anything", cast("type[Any]", Any))


def submission(job: JobType[Any, Any] = SEND, payload: Any = None, **overrides: Any) -> Submission:
    return prepare(
        APP,
        APP.topology,
        job,
        Email() if payload is None else payload,
        cast("SubmitOptions", overrides),
        now=NOW,
        job_id=new_job_id(NOW),
    )


# --- sent messages -------------------------------------------------------------------------------


def test_a_submission_goes_to_its_types_queue_with_routing_attributes() -> None:
    sent = submission()
    assert sent.queue.name == "shop-test-jobs-high"
    assert sent.message.attributes == {
        "JobType": "send-email",
        "Priority": "high",
        "Source": "sdk",
    }
    assert (sent.message.delay_s, sent.message.group) == (0, None)
    envelope = parse(sent.message.body)
    assert envelope == sent.envelope
    assert (envelope.type, envelope.submitted_at, envelope.options) == ("send-email", NOW, None)


def test_overrides_decide_for_one_submission_only() -> None:
    sent = submission(
        priority=Priority.LOW,
        delay=timedelta(minutes=3),
        max_attempts=7,
        timeout=timedelta(seconds=1.5),
        tenant=Tenant(org="org-1", workspace="eu"),
    )
    assert sent.queue.name == "shop-test-jobs-low"
    assert sent.message.attributes["Priority"] == "low"
    assert (sent.message.delay_s, sent.message.group) == (180, "org-1")
    envelope = sent.envelope
    assert envelope.options is not None
    assert (envelope.options.attempts, envelope.options.timeout_s) == (7, 1.5)
    assert envelope.not_before == NOW + timedelta(minutes=3)
    assert envelope.tenant == Tenant(org="org-1", workspace="eu")
    assert submission().envelope.options is None


def test_an_override_of_none_is_as_if_left_out() -> None:
    nothing: dict[str, Any] = dict.fromkeys(SubmitOptions.__annotations__)
    explicit, left_out = submission(**nothing), submission()
    assert explicit.message.body.replace(explicit.id, left_out.id) == left_out.message.body
    assert (explicit.message.delay_s, explicit.message.group) == (0, None)


def test_a_priority_may_be_given_by_its_name() -> None:
    assert submission(priority="low").queue.priority is Priority.LOW


def test_what_was_submitted_is_reported_without_its_payload() -> None:
    sent = submission(payload=Email(to="the-secret"), tenant="org-1")
    event = sent.event(NOW)
    assert (event.job_id, event.job_type, event.queue) == (sent.id, "send-email", "jobs")
    assert event.tenant == ContextTenant(org="org-1")
    assert "the-secret" not in repr(event)


# --- delays --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "delay_s"),
    [
        ({"delay": timedelta(0)}, 0),
        ({"delay": timedelta(milliseconds=1)}, 1),
        ({"delay": 0}, 0),
        ({"delay": 59.2}, 60),
        ({"delay": timedelta(minutes=15)}, 900),
        ({"at": NOW - timedelta(days=1)}, 0),
        ({"at": NOW + timedelta(seconds=59.2)}, 60),
        ({"at": NOW + timedelta(minutes=15)}, 900),
        ({"at": (NOW + timedelta(minutes=1)).astimezone(timezone(timedelta(hours=-5)))}, 60),
    ],
)
def test_a_delay_is_rounded_up_so_that_no_job_starts_before_its_time(
    overrides: dict[str, Any], delay_s: int
) -> None:
    assert submission(**overrides).message.delay_s == delay_s


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ({"delay": timedelta(seconds=-1)}, "delay must not be negative"),
        ({"delay": timedelta.max}, "a delay of .* ends after the year 9999"),
        ({"delay": "1m"}, r"delay must be a timedelta or a number of seconds, got '1m': write"),
        ({"delay": float("inf")}, "delay is out of range"),
        ({"at": datetime(2026, 1, 2)}, "at=2026-01-02T00:00:00 has no time zone"),  # noqa: DTZ001 - the point
        ({"at": "2026-01-02"}, "at must be a datetime, got '2026-01-02'"),
        ({"at": NOW, "delay": timedelta(0)}, "give delay or at, not both"),
    ],
)
def test_a_faulty_delay_is_refused_with_type_and_field(
    overrides: dict[str, Any], fault: str
) -> None:
    with pytest.raises(DelayInvalid, match=f"'send-email': {fault}"):
        submission(**overrides)


# --- other options -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ({"prioriy": Priority.LOW}, "no option 'prioriy': did you mean 'priority'"),
        (
            {"eta": 1},
            "no option 'eta': known are: at, backoff, delay, expires, group, keep",
        ),
        (
            {"priority": "urgent"},
            "'urgent' is not a priority; there are critical, high, normal, low",
        ),
        ({"max_attempts": 0}, "max_attempts must lie between 1 and 999, got 0"),
        ({"max_attempts": 1000}, "max_attempts must lie between 1 and 999, got 1000: SQS itself"),
        ({"max_attempts": "3"}, "max_attempts must be a whole number, got '3'"),
        ({"max_attempts": True}, "max_attempts must be a whole number, got True"),
        ({"timeout": timedelta(0)}, "timeout must be positive"),
        ({"timeout": timedelta(hours=12)}, "timeout must be at most 11:50:00"),
        ({"timeout": "30s"}, "timeout must be a timedelta or a number of seconds, got '30s'"),
        ({"tenant": "my org"}, "tenant must be 1 to 128 ASCII characters without spaces"),
        ({"tenant": Tenant(org="my org")}, "tenant must be 1 to 128 ASCII characters"),
        ({"tenant": ""}, "tenant must be 1 to 128 ASCII characters"),
        ({"tenant": "büro"}, "tenant must be 1 to 128 ASCII characters"),
        ({"tenant": "o" * 129}, "tenant must be 1 to 128 ASCII characters"),
        ({"tenant": 42}, "tenant must be 1 to 128 ASCII characters .*, got 42"),
    ],
)
def test_a_faulty_option_is_refused_with_type_and_field(
    overrides: dict[str, Any], fault: str
) -> None:
    with pytest.raises(OptionInvalid, match=f"'send-email': .*{fault}"):
        submission(**overrides)


def test_a_priority_that_the_queue_lacks_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        UnknownQueue, match=r"'capture': .*'payments' has no priority 'low': .*high"
    ):
        submission(CAPTURE, {}, priority=Priority.LOW)


def test_a_type_of_another_app_is_refused_even_under_a_known_name() -> None:
    stranger: JobType[Email, None] = App("other", stage="test").define("send-email", Email)
    with pytest.raises(UnknownJobType, match=r"send-email .*not declared on the app 'shop'"):
        submission(stranger)


# --- size ----------------------------------------------------------------------------------------


def test_a_message_that_sqs_would_not_take_is_prepared_whole() -> None:
    """The sender has to separate it from its payload."""
    whole = submission(payload=Email(body="x" * MAX_MESSAGE_BYTES))
    assert whole.message.size > MAX_MESSAGE_BYTES


def test_one_invalid_payload_refuses_the_whole_call() -> None:
    def payloads() -> Iterator[Email]:
        yield Email()
        model: Any = Email  # like code without a type checker
        yield model.model_construct(body=5)

    with pytest.raises(SubmissionError):
        prepare_many(APP, APP.topology, SEND, payloads(), {}, NOW)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_payload_is_refused_that_is_nested_deeper_than_a_reader_can_follow() -> None:
    deepest = submission(ANYTHING, nested(199))
    assert parse(deepest.message.body).payload == nested(199)
    for levels in (200, 201, 1000):
        with pytest.raises(PayloadInvalid, match="the payload of 'anything' is not valid"):
            submission(ANYTHING, nested(levels))


# --- properties ----------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\ufffe\uffff\x00\x7f"))
PAYLOADS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@given(payload=PAYLOADS)
def test_any_json_payload_arrives_as_it_was_in_characters_that_sqs_takes(payload: Any) -> None:
    sent = prepare(
        APP, APP.topology, ANYTHING, payload, {}, now=NOW, job_id=new_job_id(NOW)
    ).message
    assert ANYTHING.load(parse(sent.body).payload) == payload
    assert not re.search("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", sent.body)


@given(
    body=TEXT,
    attributes=st.dictionaries(st.from_regex(r"[A-Za-z0-9_.-]{1,20}", fullmatch=True), TEXT),
)
def test_the_size_is_never_below_what_sqs_counts(body: str, attributes: dict[str, str]) -> None:
    message = OutgoingMessage(body=body, attributes=attributes)
    counted = len(body.encode()) + sum(
        len(name.encode()) + len(b"String") + len(value.encode())
        for name, value in attributes.items()
    )
    assert message.size == counted
    assert message.size >= rules._message_bytes(message)


def test_a_changed_copy_of_a_message_is_measured_anew() -> None:
    message = OutgoingMessage(body="abc")
    measured = message.size
    assert (measured, replace(message, body="äbc").size) == (3, 4)
    assert message == OutgoingMessage(body="abc"), "its size is no part of its value"


@given(sizes=st.lists(st.integers(min_value=1, max_value=MAX_MESSAGE_BYTES)))
def test_batches_keep_the_order_and_are_as_full_as_sqs_allows(
    sizes: list[int],
) -> None:
    batches = list(in_batches(sizes, lambda size: size))
    assert [size for batch in batches for size in batch] == sizes
    assert all(1 <= len(batch) <= MAX_BATCH for batch in batches)
    assert all(sum(batch) <= MAX_MESSAGE_BYTES for batch in batches)
    for batch, following in pairwise(batches):
        assert len(batch) == MAX_BATCH or sum(batch) + following[0] > MAX_MESSAGE_BYTES


# --- refusals by SQS -----------------------------------------------------------------------------


def refused(code: str = "InternalError", *, sender_fault: bool = False) -> EntryRejected:
    return EntryRejected(
        EntryFailure(index=0, code=code, message="said SQS", sender_fault=sender_fault)
    )


def results(*outcomes: TransportError | None) -> tuple[list[Submission], list[Any]]:
    return [submission() for _ in outcomes], list(outcomes)


def test_nothing_is_raised_when_all_was_taken() -> None:
    raise_refused(*results(None, None))
    raise_refused([], [])


def test_an_error_that_kept_all_from_being_sent_is_raised_as_itself() -> None:
    error = AccessDenied("no")
    with pytest.raises(AccessDenied) as raised:
        raise_refused(*results(error, error))
    assert raised.value is error


def test_entries_that_were_refused_are_listed_by_index_and_id() -> None:
    submissions, outcomes = results(None, refused("TooBig", sender_fault=True), None)
    with pytest.raises(PartlySubmitted) as raised:
        raise_refused(submissions, outcomes)
    [refusal] = raised.value.refusals
    assert (refusal.index, refusal.id) == (1, submissions[1].id)
    assert (refusal.code, refusal.message, refusal.sender_fault) == ("TooBig", "said SQS", True)
    assert raised.value.submitted == 3


def test_an_error_after_others_were_taken_lists_what_it_kept_from_being_sent() -> None:
    submissions, outcomes = results(None, ServiceUnavailable("gone"), AccessDenied("no"))
    with pytest.raises(PartlySubmitted) as raised:
        raise_refused(submissions, outcomes)
    said = [
        (refusal.index, refusal.code, refusal.sender_fault) for refusal in raised.value.refusals
    ]
    assert said == [(1, "ServiceUnavailable", False), (2, "AccessDenied", True)]


# --- costs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["app", "queue", "type"])
def test_a_job_that_costs_more_than_a_rate_limit_has_is_refused(on: str) -> None:
    limit: dict[str, Any] = {"rate_limit": RateLimit(10, cost=lambda email: len(email.body))}
    app = App("shop", **(limit if on == "app" else {}))
    mail = app.queue("mail", **(limit if on == "queue" else {}))
    send: JobType[Email, None] = mail.define("send", Email, **(limit if on == "type" else {}))

    def sent(body: str) -> Submission:
        given: Any = {"body": body}  # the function gets the model nevertheless
        return prepare(app, app.topology, send, given, {}, now=NOW, job_id=new_job_id(NOW))

    assert sent("x" * 10).envelope.payload["body"] == "x" * 10
    with pytest.raises(
        CostInvalid, match=r"'send': this job costs 11, and the rate limit of .* 10"
    ):
        sent("x" * 11)


def test_a_cost_function_that_fails_refuses_the_submission() -> None:
    def cost(email: Email) -> float:
        return 1 / len(email.body)

    app = App("shop", rate_limit=RateLimit(10, cost=cost))
    send = app.define("send", Email)
    with pytest.raises(CostInvalid, match=r"cost function of .* raised ZeroDivisionError"):
        prepare(app, app.topology, send, Email(), {}, now=NOW, job_id=new_job_id(NOW))


# --- expiry --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expires_at"),
    [
        ({"expires": 60}, NOW + timedelta(minutes=1)),
        ({"expires": timedelta(minutes=1), "delay": 90}, NOW + timedelta(seconds=150)),
        ({"expires": NOW + timedelta(hours=1), "delay": 90}, NOW + timedelta(hours=1)),
        ({}, None),
    ],
)
def test_a_job_expires_so_long_after_it_is_due(
    options: dict[str, Any], expires_at: datetime | None
) -> None:
    sent = submission(**options)
    assert sent.envelope.expires_at == expires_at
    assert parse(sent.message.body).expires_at == expires_at


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"expires": 0}, "expires must be positive"),
        ({"expires": "1m"}, "expires must be"),
        ({"expires": timedelta(days=367)}, "at most 366 days"),
        ({"expires": NOW.replace(tzinfo=None)}, "has no time zone"),
        ({"expires": NOW}, "is not after .*, when the job is due"),
        ({"expires": NOW + timedelta(seconds=30), "delay": 60}, "write a later time, or a shorter"),
        ({"expires": timedelta(days=9), "at": datetime(9999, 12, 30, tzinfo=UTC)}, "year 9999"),
    ],
)
def test_an_expiry_that_can_not_be_is_refused(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(OptionInvalid, match=f"'send-email': .*{fault}"):
        submission(**options)


@pytest.mark.parametrize("expires", [0, timedelta(days=367), "1m"])
def test_a_type_with_such_a_time_is_refused(expires: Any) -> None:
    with pytest.raises(ConfigurationError, match="the type 'x': expires"):
        App("shop").define("x", expires=expires)
