"""Submissions by both kinds of client. Each test runs with either, unless it is of only one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, AsyncJobHandle, Client, Events, JobType, Priority
from headgate.jobs.core.events import Event, JobSubmitted
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.errors import (
    AccessDenied,
    ConfigurationError,
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
from headgate.jobs.testing import LoopClock, MemorySqs
from tests.support.clients import Kind, client_of, connected
from tests.support.environment import REGION, without_aws

pytestmark = pytest.mark.looptime

QUEUE = "shop-test-jobs-normal"

Mail = JobType[Any, None]


class Email(BaseModel):
    to: str
    body: str = ""


EMAIL = Email(to="ada@example.com")


class Unrelated(BaseModel):
    name: str


@pytest.fixture
def app() -> App:
    app = App("shop", stage="test")
    app.define("send-email", Email)
    app.queue("payments", priorities=[Priority.CRITICAL]).define("capture", Email)
    return app


@pytest.fixture
def send_email(app: App) -> Mail:
    return app.find_type("send-email")


class Bench:
    """A client on in-memory SQS, with the events that it emitted and the pauses that it made."""

    def __init__(self, kind: Kind, app: App) -> None:
        clock = LoopClock()
        self.sqs = MemorySqs(clock)
        self.sqs.provision(app.topology)
        self.events: list[Event] = []
        self.pauses: list[float] = []
        """Between requests; those in an asynchronous client's batches are not noted."""
        self.whenever_it_waits: Callable[[], None] = lambda: None
        self.client = client_of(
            kind,
            app,
            self.sqs,
            clock=clock,
            sleep=self._sleep,
            events=Events(self.events.append),
        )

    def sent(self, queue: str = QUEUE) -> list[str]:
        """Return the ids of the jobs that SQS has."""
        return [str(parse(message.body).id) for message in self.sqs.messages(queue)]

    def entries(self) -> list[int]:
        """Return the number of messages in each send."""
        return [call.entries for call in self.sqs.calls if call.action == "send"]

    def reported(self) -> list[str]:
        return [event.job_id for event in self.events if isinstance(event, JobSubmitted)]

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.whenever_it_waits()


@pytest.fixture
async def bench(kind: Kind, app: App) -> Bench:
    return Bench(kind, app)


@pytest.fixture
async def of_client(app: App) -> Bench:
    return Bench("Client", app)


@pytest.fixture
async def of_async_client(app: App) -> Bench:
    return Bench("AsyncClient", app)


# --- sending -------------------------------------------------------------------------------------


async def test_when_submit_returns_sqs_has_the_job_and_the_event_was_emitted(
    bench: Bench, send_email: Mail
) -> None:
    async with bench.client as client:
        handle = await client.submit(send_email, EMAIL)
        assert bench.sent() == bench.reported() == [handle.id]
    assert handle.type == "send-email"


async def test_many_jobs_go_ten_to_a_request_and_in_order(bench: Bench, send_email: Mail) -> None:
    async with bench.client as client:
        handles = await client.submit_many(send_email, (EMAIL for _ in range(23)))
    assert bench.sent() == bench.reported() == [handle.id for handle in handles]
    assert bench.entries() == [10, 10, 3]


async def test_big_jobs_are_batched_by_their_bytes(bench: Bench, send_email: Mail) -> None:
    big = Email(to="a", body="x" * (MAX_MESSAGE_BYTES // 2 - 1000))
    async with bench.client as client:
        await client.submit_many(send_email, [big] * 5)
    assert sorted(bench.entries()) == [1, 2, 2]


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_a_client_says_what_to_write_in_place_of_an_app_s_path(client: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"got a str: write load_app\('shop.app:app'\)"):
        client("shop.app:app")
    with pytest.raises(ConfigurationError, match=r"takes an App, got a JobType: pass what App"):
        client(App("shop").define("send-email", Email))


async def test_nothing_to_submit_is_no_request(bench: Bench, send_email: Mail) -> None:
    async with bench.client as client:
        assert await client.submit_many(send_email, []) == []
    assert bench.sqs.calls == []


async def test_a_client_made_before_a_type_was_declared_submits_it_all_the_same(
    app: App, bench: Bench
) -> None:
    late = app.queue("late").define("late", Email)
    bench.sqs.provision(app.topology)
    async with bench.client as client:
        handle = await client.submit(late, EMAIL)
    assert bench.sent("shop-test-late-normal") == [handle.id]


async def test_concurrent_submits_share_requests(of_async_client: Bench, send_email: Mail) -> None:
    bench = of_async_client
    async with bench.client as client:
        handles = await asyncio.gather(*(client.submit(send_email, EMAIL) for _ in range(25)))
    assert {handle.id for handle in handles} == set(bench.sent()) == set(bench.reported())
    assert sorted(bench.entries()) == [5, 10, 10]


async def test_what_still_waits_when_the_client_closes_is_sent(
    of_async_client: Bench, send_email: Mail
) -> None:
    bench = of_async_client
    async with bench.client as client:
        submits = [asyncio.create_task(client.submit(send_email, EMAIL)) for _ in range(3)]
        await asyncio.sleep(0)  # each has put its message
    assert len(bench.sent()) == 3
    await asyncio.gather(*submits)


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
        (EMAIL, {"priority": "urgent"}, OptionInvalid, "'urgent' is not a priority"),
        (EMAIL, {"tennant": "org"}, OptionInvalid, "did you mean 'tenant'"),
    ],
)
async def test_an_invalid_submission_is_refused_with_its_type_and_field(
    bench: Bench,
    send_email: Mail,
    payload: Any,
    overrides: dict[str, Any],
    error: type[SubmissionError],
    named: str,
) -> None:
    async with bench.client as client:
        with pytest.raises(error, match=f"'send-email'.*{named}"):
            await client.submit_many(send_email, [EMAIL, payload], **overrides)
    assert bench.sqs.calls == []
    assert bench.events == []


async def test_an_unknown_queue_or_type_is_refused_and_nothing_is_sent(
    bench: Bench, app: App
) -> None:
    stranger = App("other", stage="test").define("capture", Email)
    async with bench.client as client:
        with pytest.raises(UnknownQueue, match=r"'capture': .*'payments' has no priority 'low'"):
            await client.submit(app.find_type("capture"), EMAIL, priority=Priority.LOW)
        with pytest.raises(UnknownJobType, match="capture"):
            await client.submit(stranger, EMAIL)
    assert bench.sqs.calls == []


# --- refusals by SQS -----------------------------------------------------------------------------


async def test_an_entry_that_failed_on_sqs_side_is_sent_again_after_a_pause(
    kind: Kind, bench: Bench, send_email: Mail
) -> None:
    bench.sqs.faults.fail_entries("send", indexes=[1])
    async with bench.client as client:
        handles = await client.submit_many(send_email, [EMAIL] * 3)
    assert sorted(bench.sent()) == sorted(handle.id for handle in handles)
    assert bench.entries() == [3, 1]
    assert len(bench.pauses) == 1 or kind == "AsyncClient"


async def test_an_entry_refused_four_times_is_given_up_and_listed(
    kind: Kind, bench: Bench, send_email: Mail
) -> None:
    bench.sqs.faults.fail_entries("send", indexes=[0], times=4)
    async with bench.client as client:
        with pytest.raises(PartlySubmitted, match="did not take 1 of 3 jobs") as raised:
            await client.submit_many(send_email, [EMAIL] * 3)
    assert bench.entries() == [3, 1, 1, 1]
    assert len(bench.pauses) == 3 or kind == "AsyncClient"
    assert [refusal.index for refusal in raised.value.refusals] == [0]
    assert raised.value.refusals[0].id not in bench.sent()
    assert bench.reported() == bench.sent()


async def test_an_entry_that_is_itself_at_fault_is_not_sent_again(
    bench: Bench, send_email: Mail
) -> None:
    bench.sqs.faults.fail_entries("send", sender_fault=True)
    async with bench.client as client:
        with pytest.raises(TransportError, match=f"did not take the job .* for {QUEUE}: Inter"):
            await client.submit(send_email, EMAIL)
    assert bench.entries() == [1]
    assert bench.events == []


async def test_a_single_job_that_sqs_refuses_raises_an_error_of_aws_as_an_outage_does(
    bench: Bench, send_email: Mail
) -> None:
    bench.sqs.faults.fail_entries("send", times=4)
    async with bench.client as client:
        with pytest.raises(TransportError) as raised:
            await client.submit(send_email, EMAIL)
    assert raised.value.transient
    assert bench.sent() == bench.reported() == []


async def test_an_outage_that_stays_is_raised_as_itself_and_nothing_is_reported(
    bench: Bench, send_email: Mail
) -> None:
    bench.sqs.faults.raise_on("send", ServiceUnavailable("gone"), times=100)
    async with bench.client as client:
        with pytest.raises(ServiceUnavailable, match="gone"):
            await client.submit_many(send_email, [EMAIL] * 7)
    assert bench.sent() == bench.reported() == []


async def test_a_request_that_keeps_failing_keeps_no_other_from_being_sent(
    bench: Bench, send_email: Mail, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = bench.sqs.send_now

    def fails_for_ada(queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        if any('"ada"' in message.body for message in messages):
            raise ServiceUnavailable("gone")
        return send(queue, messages)

    monkeypatch.setattr(bench.sqs, "send_now", fails_for_ada)
    emails = [Email(to="ada" if number == 12 else "bob") for number in range(33)]
    async with bench.client as client:
        with pytest.raises(PartlySubmitted, match="did not take 10 of 33") as raised:
            await client.submit_many(send_email, emails)
    assert [refusal.index for refusal in raised.value.refusals] == list(range(10, 20))
    assert list(raised.value.sent) == bench.sent()
    assert sorted(bench.reported()) == sorted(bench.sent())
    assert len(bench.sent()) == 23
    assert all(pause <= 0.05 for pause in bench.pauses)


async def test_an_error_in_mid_way_says_what_was_taken_and_what_was_not(
    bench: Bench, send_email: Mail, monkeypatch: pytest.MonkeyPatch
) -> None:
    outage, send = ServiceUnavailable("gone"), bench.sqs.send_now

    def once(queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        if bench.sent():
            raise outage
        return send(queue, messages)

    monkeypatch.setattr(bench.sqs, "send_now", once)
    async with bench.client as client:
        with pytest.raises(PartlySubmitted, match="did not take 13 of 23") as raised:
            await client.submit_many(send_email, [EMAIL] * 23)
    assert [refusal.index for refusal in raised.value.refusals] == list(range(10, 23))
    assert raised.value.__cause__ is outage
    assert len(bench.sent()) == 10
    assert bench.reported() == bench.sent()


async def test_a_queue_that_does_not_exist_is_named_with_the_command_that_makes_it(
    kind: Kind, app: App, send_email: Mail
) -> None:
    async with client_of(kind, app, MemorySqs(LoopClock())) as client:
        with pytest.raises(QueueMissing, match=f"{QUEUE}.*cdk deploy"):
            await client.submit(send_email, EMAIL)


# --- refusals by SQS, to a synchronous client ----------------------------------------------------


async def test_a_failed_request_is_not_repeated_by_a_synchronous_client(
    of_client: Bench, send_email: Mail
) -> None:
    of_client.sqs.faults.raise_on("send", ServiceUnavailable("gone"))
    with pytest.raises(ServiceUnavailable, match="gone"):
        await of_client.client.submit_many(send_email, [EMAIL] * 7)
    assert of_client.entries() == [7]


async def test_after_three_requests_in_a_row_that_failed_the_rest_is_given_up(
    of_client: Bench, send_email: Mail
) -> None:
    of_client.sqs.faults.raise_on("send", ServiceUnavailable("gone"), times=3)
    with pytest.raises(ServiceUnavailable, match="gone"):
        await of_client.client.submit_many(send_email, [EMAIL] * 1000)
    assert of_client.entries() == [10] * 3
    first, second = of_client.pauses
    assert first < second


async def test_after_a_permanent_error_nothing_more_is_sent(
    of_client: Bench, send_email: Mail
) -> None:
    of_client.sqs.faults.raise_on("send", AccessDenied("no"))
    with pytest.raises(AccessDenied):
        await of_client.client.submit_many(send_email, [EMAIL] * 23)
    assert of_client.entries() == [10]
    assert of_client.pauses == []


async def test_entries_that_fail_are_sent_again_behind_the_others_without_a_pause(
    of_client: Bench, send_email: Mail
) -> None:
    of_client.sqs.faults.fail_entries("send", indexes=[2, 5, 9], times=2)
    handles = await of_client.client.submit_many(send_email, [EMAIL] * 25)
    assert sorted(of_client.sent()) == sorted(handle.id for handle in handles)
    assert of_client.entries() == [10, 10, 10, 1]
    assert len(of_client.pauses) == 1, "only before what has nothing new beside it"


async def test_entries_taken_before_a_failed_resend_are_not_reported_as_refused(
    of_client: Bench, send_email: Mail
) -> None:
    faults = of_client.sqs.faults
    faults.fail_entries("send", indexes=[3])
    of_client.whenever_it_waits = lambda: faults.raise_on("send", Throttled("slow down"))
    with pytest.raises(PartlySubmitted) as failed:
        await of_client.client.submit_many(send_email, [EMAIL] * 10)
    assert [refusal.index for refusal in failed.value.refusals] == [3]
    assert len(of_client.events) == 9


# --- refusals by SQS, to an asynchronous client --------------------------------------------------


async def test_an_outage_that_passes_is_not_noticed(
    of_async_client: Bench, send_email: Mail
) -> None:
    bench = of_async_client
    bench.sqs.faults.raise_on("send", ServiceUnavailable("gone"), times=3)
    async with bench.client as client:
        handle = await client.submit(send_email, EMAIL)
    assert bench.sent() == bench.reported() == [handle.id]


async def test_of_concurrent_submits_only_the_refused_one_hears_of_it(
    of_async_client: Bench, send_email: Mail
) -> None:
    bench = of_async_client
    bench.sqs.faults.fail_entries("send", indexes=[1], sender_fault=True)
    async with bench.client as client:
        first, second, third = await asyncio.gather(
            *(client.submit(send_email, EMAIL) for _ in range(3)), return_exceptions=True
        )
    assert isinstance(first, AsyncJobHandle)
    assert isinstance(third, AsyncJobHandle)
    assert isinstance(second, TransportError)
    assert bench.sent() == bench.reported() == [first.id, third.id]


# --- AWS's settings ------------------------------------------------------------------------------


async def test_without_a_region_the_client_says_what_to_set_before_it_sends(
    kind: Kind,
    app: App,
    send_email: Mail,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    without_aws(monkeypatch, tmp_path)
    client = connected(kind, app)
    if kind == "Client":  # an asynchronous one says so when it is opened
        await client.__aenter__()
    with pytest.raises(RegionMissing, match="set AWS_REGION"):
        await (client.__aenter__() if kind == "AsyncClient" else client.submit(send_email, EMAIL))


async def test_without_credentials_the_first_submission_says_where_to_get_them(
    kind: Kind,
    app: App,
    send_email: Mail,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    without_aws(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_REGION", REGION)
    async with connected(kind, app) as client:
        with pytest.raises(CredentialsMissing, match="aws configure"):
            await client.submit(send_email, EMAIL)


async def test_a_faulty_submission_is_refused_even_without_aws(
    kind: Kind,
    app: App,
    send_email: Mail,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    without_aws(monkeypatch, tmp_path)
    with pytest.raises(DelayInvalid):
        await connected(kind, app).submit(send_email, EMAIL, delay=timedelta(days=-1))


async def test_a_client_may_be_closed_unused_and_twice(kind: Kind, app: App) -> None:
    client = connected(kind, app)
    await client.close()
    await client.close()


async def test_an_asynchronous_client_that_is_not_open_says_so(app: App, send_email: Mail) -> None:
    with pytest.raises(ConfigurationError, match="not open: use it in `async with`"):
        await AsyncClient(app).submit(send_email, EMAIL)
