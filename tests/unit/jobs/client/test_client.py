from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Client, Events, JobType, Priority
from headgate.jobs.core.events import Event, JobSubmitted
from headgate.jobs.core.ports import EntryFailure, OutgoingMessage, Sender
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.errors import (
    AccessDenied,
    CredentialsMissing,
    DelayInvalid,
    OptionInvalid,
    PartlySubmitted,
    PayloadInvalid,
    QueueMissing,
    RegionMissing,
    ServiceUnavailable,
    SubmissionError,
    Throttled,
    TransportError,
    UnknownJobType,
    UnknownQueue,
)
from headgate.jobs.messages.envelope import parse
from headgate.jobs.testing import MemorySqs, VirtualClock
from tests.support.backends import over
from tests.support.environment import REGION, without_aws

QUEUE = "shop-test-jobs-normal"


class Email(BaseModel):
    to: str
    body: str = ""


class Unrelated(BaseModel):
    name: str


@pytest.fixture
def app() -> App:
    app = App("shop", stage="test")
    app.define("send-email", Email)
    app.queue("payments", priorities=[Priority.CRITICAL]).define("capture", Email)
    return app


@pytest.fixture
def send_email(app: App) -> JobType[Email, None]:
    declared: JobType[Email, None] = app.find_type("send-email")
    return declared


class Bench:
    """A client on in-memory SQS, with the events that it emitted and the pauses that it made."""

    def __init__(self, app: App) -> None:
        self.clock = VirtualClock()
        self.sqs = MemorySqs(self.clock)
        self.sqs.provision(app.topology)
        self.events: list[Event] = []
        self.pauses: list[float] = []
        self.client = Client(
            app,
            events=Events(self.events.append),
            backend=over(self.sqs.sync, clock=self.clock, sleep=self.pauses.append),
        )

    def sent(self, queue: str = QUEUE) -> list[str]:
        """Return the ids of the jobs that SQS has."""
        return [str(parse(message.body).id) for message in self.sqs.messages(queue)]

    def entries(self) -> list[int]:
        """Return the number of messages in each send."""
        return [call.entries for call in self.sqs.calls if call.action == "send"]

    def reported(self) -> list[str]:
        return [event.job_id for event in self.events if isinstance(event, JobSubmitted)]


@pytest.fixture
def bench(app: App) -> Bench:
    return Bench(app)


EMAIL = Email(to="ada@example.com")


# --- sending -------------------------------------------------------------------------------------


def test_when_submit_returns_sqs_has_the_job_and_the_event_was_emitted(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    handle = bench.client.submit(send_email, EMAIL)
    assert bench.sent() == bench.reported() == [handle.id]
    assert handle.type == "send-email"


def test_many_jobs_go_ten_to_a_request_and_in_order(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    handles = bench.client.submit_many(send_email, (EMAIL for _ in range(23)))
    assert bench.sent() == bench.reported() == [handle.id for handle in handles]
    assert bench.entries() == [10, 10, 3]


def test_big_jobs_are_batched_by_their_bytes(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    big = Email(to="a", body="x" * (MAX_MESSAGE_BYTES // 2 - 1000))
    bench.client.submit_many(send_email, [big] * 5)
    assert bench.entries() == [2, 2, 1]


def test_nothing_to_submit_is_no_request(bench: Bench, send_email: JobType[Email, None]) -> None:
    assert bench.client.submit_many(send_email, []) == []
    assert bench.sqs.calls == []


def test_a_client_made_before_a_type_was_declared_submits_it_all_the_same(app: App) -> None:
    early = Bench(app)
    late = app.queue("late").define("late", Email)
    early.sqs.provision(app.topology)
    handle = early.client.submit(late, EMAIL)
    assert early.sent("shop-test-late-normal") == [handle.id]


# --- refused before anything is sent -------------------------------------------------------------


def _constructed() -> Any:
    model: Any = Email  # like code without a type checker
    return model.model_construct(body="x")


def _mutated() -> Email:
    email = Email(to="a")
    email.to = 5  # type: ignore[assignment]  # the point
    return email


@pytest.mark.parametrize(
    ("payload", "overrides", "error", "named"),
    [
        ({"body": "x"}, {}, PayloadInvalid, "to: Field required"),
        (Unrelated(name="x"), {}, PayloadInvalid, "payload: "),
        (_constructed(), {}, PayloadInvalid, "to: Field required"),
        (_mutated(), {}, PayloadInvalid, "to: Input should be a valid string"),
        (EMAIL, {"delay": timedelta(seconds=-1)}, DelayInvalid, "delay must not be negative"),
        (EMAIL, {"delay": timedelta.max}, DelayInvalid, "ends after the year 9999"),
        (EMAIL, {"at": datetime(2026, 1, 1)}, DelayInvalid, "at=.*no time zone"),  # noqa: DTZ001 - the point
        (EMAIL, {"max_attempts": 0}, OptionInvalid, "max_attempts must lie"),
        (EMAIL, {"tenant": "my org"}, OptionInvalid, "tenant must be"),
        (EMAIL, {"priority": "urgent"}, OptionInvalid, "'urgent' is no priority"),
        (EMAIL, {"tennant": "org"}, OptionInvalid, "did you mean 'tenant'"),
    ],
)
def test_a_submission_at_fault_is_refused_with_type_and_field_and_nothing_is_sent(
    bench: Bench,
    send_email: JobType[Email, None],
    payload: Any,
    overrides: dict[str, Any],
    error: type[SubmissionError],
    named: str,
) -> None:
    with pytest.raises(error, match=f"'send-email'.*{named}"):
        bench.client.submit_many(send_email, [EMAIL, payload], **overrides)
    assert bench.sqs.calls == []
    assert bench.events == []


def test_an_unknown_queue_or_type_is_refused_and_nothing_is_sent(bench: Bench, app: App) -> None:
    capture = app.find_type("capture")
    with pytest.raises(UnknownQueue, match=r"'capture': .*'payments' has no priority 'low'"):
        bench.client.submit(capture, EMAIL, priority=Priority.LOW)
    stranger = App("other", stage="test").define("capture", Email)
    with pytest.raises(UnknownJobType, match="capture"):
        bench.client.submit(stranger, EMAIL)
    assert bench.sqs.calls == []


# --- refusals by SQS -----------------------------------------------------------------------------


def test_an_entry_that_failed_through_no_fault_of_its_own_is_sent_again_after_a_pause(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.fail_entries("send", indexes=[1])
    handles = bench.client.submit_many(send_email, [EMAIL] * 3)
    assert sorted(bench.sent()) == sorted(handle.id for handle in handles)
    assert bench.entries() == [3, 1]
    assert len(bench.pauses) == 1


def test_an_entry_that_sqs_keeps_refusing_is_given_up_after_four_tries_and_listed(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.fail_entries("send", indexes=[0], times=4)
    with pytest.raises(PartlySubmitted, match="did not take 1 of 3 jobs") as raised:
        bench.client.submit_many(send_email, [EMAIL] * 3)
    assert bench.entries() == [3, 1, 1, 1]
    assert len(bench.pauses) == 3
    assert [refusal.index for refusal in raised.value.refusals] == [0]
    assert raised.value.refusals[0].id not in bench.sent()
    assert bench.reported() == bench.sent()


def test_an_entry_that_is_itself_at_fault_is_not_sent_again(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.fail_entries("send", sender_fault=True)
    with pytest.raises(PartlySubmitted):
        bench.client.submit(send_email, EMAIL)
    assert bench.entries() == [1]
    assert bench.events == []


def test_an_error_of_the_whole_call_is_raised_as_itself(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.raise_on("send", ServiceUnavailable("gone"))
    with pytest.raises(ServiceUnavailable, match="gone"):
        bench.client.submit_many(send_email, [EMAIL] * 7)
    assert bench.entries() == [7]
    assert bench.events == []


def test_a_request_that_fails_keeps_no_other_from_being_sent(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.raise_on("send", ServiceUnavailable("gone"))
    with pytest.raises(PartlySubmitted, match="did not take 10 of 33") as raised:
        bench.client.submit_many(send_email, [EMAIL] * 33)
    assert [refusal.index for refusal in raised.value.refusals] == list(range(10))
    assert list(raised.value.sent) == bench.sent() == bench.reported()
    assert len(bench.sent()) == 23
    assert bench.entries() == [10, 10, 10, 3]
    assert all(pause <= 0.05 for pause in bench.pauses)


def test_after_three_requests_in_a_row_that_failed_the_rest_is_given_up(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.raise_on("send", ServiceUnavailable("gone"), times=3)
    with pytest.raises(ServiceUnavailable, match="gone"):
        bench.client.submit_many(send_email, [EMAIL] * 1000)
    assert bench.entries() == [10] * 3
    assert len(bench.pauses) == 2
    assert bench.pauses[0] < bench.pauses[1]


def test_after_an_error_that_no_waiting_mends_nothing_more_is_sent(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.raise_on("send", AccessDenied("no"))
    with pytest.raises(AccessDenied):
        bench.client.submit_many(send_email, [EMAIL] * 23)
    assert bench.entries() == [10]
    assert bench.pauses == []


def test_entries_that_fail_are_sent_again_behind_the_others_without_a_pause(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.fail_entries("send", indexes=[2, 5, 9], times=2)
    handles = bench.client.submit_many(send_email, [EMAIL] * 25)
    assert sorted(bench.sent()) == sorted(handle.id for handle in handles)
    assert bench.entries() == [10, 10, 10, 1]
    assert len(bench.pauses) == 1, "only before what has nothing new beside it"


class FailsAfter:
    """A transport that accepts a number of sends, and fails from then on."""

    def __init__(self, transport: Sender, sends: int, error: TransportError) -> None:
        self._transport = transport
        self._left = sends
        self._error = error

    def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        if self._left == 0:
            raise self._error
        self._left -= 1
        return self._transport.send(queue, messages)


def test_an_error_in_mid_way_says_what_was_taken_and_what_was_not(
    app: App, bench: Bench, send_email: JobType[Email, None]
) -> None:
    outage = ServiceUnavailable("gone")
    client = Client(
        app,
        events=Events(bench.events.append),
        backend=over(FailsAfter(bench.sqs.sync, sends=1, error=outage), clock=bench.clock),
    )
    with pytest.raises(PartlySubmitted, match="did not take 13 of 23") as raised:
        client.submit_many(send_email, [EMAIL] * 23)
    assert [refusal.index for refusal in raised.value.refusals] == list(range(10, 23))
    assert raised.value.__cause__ is outage
    assert len(bench.sent()) == 10
    assert bench.reported() == bench.sent()


def test_a_queue_that_does_not_exist_is_named_with_the_command_that_makes_it(
    app: App, send_email: JobType[Email, None]
) -> None:
    client = Client(app, backend=over(MemorySqs(VirtualClock()).sync))
    with pytest.raises(QueueMissing, match=f"{QUEUE}.*cdk deploy"):
        client.submit(send_email, EMAIL)


# --- AWS's settings ------------------------------------------------------------------------------


def test_without_a_region_the_first_submission_says_what_to_set(
    app: App,
    send_email: JobType[Email, None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    without_aws(monkeypatch, tmp_path)
    with Client(app) as client, pytest.raises(RegionMissing, match="set AWS_REGION"):
        client.submit(send_email, EMAIL)


def test_without_credentials_the_first_submission_says_where_to_get_them(
    app: App,
    send_email: JobType[Email, None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    without_aws(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_REGION", REGION)
    with Client(app) as client, pytest.raises(CredentialsMissing, match="aws configure"):
        client.submit(send_email, EMAIL)


def test_a_faulty_submission_is_refused_even_without_aws(
    app: App,
    send_email: JobType[Email, None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    without_aws(monkeypatch, tmp_path)
    with Client(app) as client, pytest.raises(DelayInvalid):
        client.submit(send_email, EMAIL, delay=timedelta(days=-1))


def test_a_client_may_be_closed_unused_and_twice(app: App) -> None:
    client = Client(app)
    client.close()
    client.close()


def test_what_was_taken_before_a_resend_broke_off_is_not_reported_as_refused(
    app: App, send_email: JobType[Email, None]
) -> None:
    sqs = MemorySqs(VirtualClock())
    sqs.provision(app.topology)
    events: list[Event] = []
    sqs.faults.fail_entries("send", indexes=[3])
    client = Client(
        app,
        events=Events(events.append),
        backend=over(sqs.sync, sleep=lambda _seconds: broken()),
    )

    def broken() -> None:
        sqs.faults.raise_on("send", Throttled("slow down"))

    with pytest.raises(PartlySubmitted) as failed:
        client.submit_many(send_email, [Email(to=str(number)) for number in range(10)])
    assert [refusal.index for refusal in failed.value.refusals] == [3]
    assert len(events) == 9
