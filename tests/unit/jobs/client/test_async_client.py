from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, AsyncJobHandle, Events, JobType, Priority
from headgate.jobs.core.events import Event, JobSubmitted
from headgate.jobs.core.ports import EntryFailure, OutgoingMessage
from headgate.jobs.errors import (
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
    UnknownQueue,
)
from headgate.jobs.messages.envelope import parse
from headgate.jobs.testing import LoopClock, MemorySqs
from tests.support.backends import async_over
from tests.support.environment import REGION, without_aws

QUEUE = "shop-test-jobs-normal"


class Email(BaseModel):
    to: str
    body: str = ""


EMAIL = Email(to="ada@example.com")


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
    """A client on in-memory SQS, with the events that it emitted."""

    def __init__(self, app: App) -> None:
        clock = LoopClock()
        self.sqs = MemorySqs(clock)
        self.events: list[Event] = []
        self.client = AsyncClient(
            app, events=Events(self.events.append), backend=async_over(self.sqs, clock=clock)
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
async def bench(app: App) -> Bench:
    bench = Bench(app)
    bench.sqs.provision(app.topology)
    return bench


pytestmark = pytest.mark.looptime


async def test_when_submit_returns_sqs_has_the_job_and_the_event_was_emitted(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    async with bench.client as client:
        handle = await client.submit(send_email, EMAIL)
        assert bench.sent() == bench.reported() == [handle.id]


async def test_concurrent_submits_share_requests(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    async with bench.client as client:
        handles = await asyncio.gather(*(client.submit(send_email, EMAIL) for _ in range(25)))
    assert {handle.id for handle in handles} == set(bench.sent()) == set(bench.reported())
    assert sorted(bench.entries()) == [5, 10, 10]


async def test_nothing_to_submit_is_no_request(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    async with bench.client as client:
        assert await client.submit_many(send_email, []) == []
    assert bench.sqs.calls == []


async def test_a_client_made_before_a_type_was_declared_submits_it_all_the_same(app: App) -> None:
    early = Bench(app)
    late = app.queue("late").define("late", Email)
    early.sqs.provision(app.topology)
    async with early.client as client:
        handle = await client.submit(late, EMAIL)
    assert early.sent("shop-test-late-normal") == [handle.id]


def _constructed() -> Any:
    model: Any = Email  # like code without a type checker
    return model.model_construct(body="x")


@pytest.mark.parametrize(
    ("payload", "overrides", "error", "named"),
    [
        ({"body": "x"}, {}, PayloadInvalid, "to: Field required"),
        (_constructed(), {}, PayloadInvalid, "to: Field required"),
        (EMAIL, {"delay": timedelta.max}, DelayInvalid, "ends after the year 9999"),
        (EMAIL, {"max_attempts": 0}, OptionInvalid, "max_attempts must lie"),
        (EMAIL, {"tennant": "org"}, OptionInvalid, "did you mean 'tenant'"),
    ],
)
async def test_a_submission_at_fault_is_refused_with_type_and_field_and_nothing_is_sent(
    bench: Bench,
    send_email: JobType[Email, None],
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


async def test_an_unknown_queue_is_refused_and_nothing_is_sent(app: App, bench: Bench) -> None:
    async with bench.client as client:
        with pytest.raises(UnknownQueue, match=r"'capture': .*'payments' has no priority 'low'"):
            await client.submit(app.find_type("capture"), EMAIL, priority=Priority.LOW)
    assert bench.sqs.calls == []


async def test_an_entry_that_failed_through_no_fault_of_its_own_is_sent_again(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.fail_entries("send", indexes=[1])
    async with bench.client as client:
        handles = await client.submit_many(send_email, [EMAIL] * 3)
    assert sorted(bench.sent()) == sorted(handle.id for handle in handles)
    assert bench.entries() == [3, 1]


async def test_an_outage_that_passes_is_not_noticed(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.raise_on("send", ServiceUnavailable("gone"), times=3)
    async with bench.client as client:
        handle = await client.submit(send_email, EMAIL)
    assert bench.sent() == bench.reported() == [handle.id]


async def test_an_outage_that_stays_is_raised_as_itself_and_nothing_is_reported(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.raise_on("send", ServiceUnavailable("gone"), times=100)
    async with bench.client as client:
        with pytest.raises(ServiceUnavailable, match="gone"):
            await client.submit_many(send_email, [EMAIL] * 3)
    assert bench.sent() == bench.reported() == []


async def test_a_request_that_keeps_failing_keeps_no_other_from_being_sent(
    bench: Bench, send_email: JobType[Email, None], monkeypatch: pytest.MonkeyPatch
) -> None:
    send = bench.sqs.send

    async def fails_for_ada(queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        if any('"ada"' in message.body for message in messages):
            raise ServiceUnavailable("gone")
        return await send(queue, messages)

    monkeypatch.setattr(bench.sqs, "send", fails_for_ada)
    emails = [Email(to="ada" if number == 12 else "bob") for number in range(33)]
    async with bench.client as client:
        with pytest.raises(PartlySubmitted, match="did not take 10 of 33") as raised:
            await client.submit_many(send_email, emails)
    assert [refusal.index for refusal in raised.value.refusals] == list(range(10, 20))
    assert sorted(raised.value.sent) == sorted(bench.sent()) == sorted(bench.reported())
    assert len(bench.sent()) == 23


async def test_of_concurrent_submits_only_the_refused_one_hears_of_it(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    bench.sqs.faults.fail_entries("send", indexes=[1], sender_fault=True)
    async with bench.client as client:
        first, second, third = await asyncio.gather(
            *(client.submit(send_email, EMAIL) for _ in range(3)), return_exceptions=True
        )
    assert isinstance(first, AsyncJobHandle)
    assert isinstance(third, AsyncJobHandle)
    assert isinstance(second, PartlySubmitted)
    assert second.refusals[0].id not in bench.sent()
    assert bench.sent() == bench.reported() == [first.id, third.id]


async def test_what_still_waits_when_the_client_closes_is_sent(
    bench: Bench, send_email: JobType[Email, None]
) -> None:
    async with bench.client as client:
        submits = [asyncio.create_task(client.submit(send_email, EMAIL)) for _ in range(3)]
        await asyncio.sleep(0)  # each has put its message
    assert len(bench.sent()) == 3
    await asyncio.gather(*submits)


async def test_a_queue_that_does_not_exist_is_named_with_the_command_that_makes_it(
    app: App, send_email: JobType[Email, None]
) -> None:
    async with Bench(app).client as client:
        with pytest.raises(QueueMissing, match=f"{QUEUE}.*cdk deploy"):
            await client.submit(send_email, EMAIL)


async def test_a_client_that_is_not_open_says_so(
    app: App, send_email: JobType[Email, None]
) -> None:
    with pytest.raises(ConfigurationError, match="not open: use it in `async with`"):
        await AsyncClient(app).submit(send_email, EMAIL)


async def test_without_a_region_opening_the_client_says_what_to_set(
    app: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    with pytest.raises(RegionMissing, match="set AWS_REGION"):
        await AsyncClient(app).__aenter__()


async def test_without_credentials_the_first_submission_says_where_to_get_them(
    app: App, send_email: JobType[Email, None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_REGION", REGION)
    async with AsyncClient(app) as client:
        with pytest.raises(CredentialsMissing, match="aws configure"):
            await client.submit(send_email, EMAIL)
