"""Messages with anything that UTF-8 or a clock can hold: parked, or run, by every host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import field_validator

from headgate import App, Backoff, Client, Retry
from headgate.jobs.core.events import JobCompleted, JobFailed, MessageUnrunnable
from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage
from headgate.jobs.messages.envelope import Envelope, Options
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.outgoing import message_of
from headgate.workers.observability.prometheus import Metrics
from tests.support.stub_children import StubChildren
from tests.unit.lambdas.test_consume import Function
from tests.unit.workers.rig import Note, Rig

_NOW = datetime(2026, 1, 2, tzinfo=UTC)
_QUEUE, _DEAD = "shop-jobs-normal", "shop-jobs-normal-dlq"

_SURROGATES: dict[str, Callable[[ReceivedMessage], ReceivedMessage]] = {
    "body": lambda message: replace(message, body='{"v": "\ud800"}'),
    "escape in the body": lambda message: replace(message, body='{"v": "\\ud800"}'),
    "valid but for a text": lambda message: replace(
        message, body=message.body.replace("hello", "hel\udcfflo")
    ),
    "valid but for an escape": lambda message: replace(
        message, body=message.body.replace("hello", "hel\\udcfflo")
    ),
    "attribute": lambda message: replace(
        message, body="no JSON", attributes={"Other": "\udcff", "Fine": "yes"}
    ),
    "attribute's name": lambda message: replace(
        message, body="no JSON", attributes={"Oth\udcffer": "fine", "Fine": "yes"}
    ),
    "type": lambda message: replace(message, body="[]", attributes={"JobType": "a\udcff"}),
    "group": lambda message: replace(message, body="no JSON", group="org-\udcff"),
}

surrogates = pytest.mark.parametrize("twisted", _SURROGATES.values(), ids=_SURROGATES.keys())


def _app() -> App:
    app = App("shop", parking=Retry(max_attempts=2, backoff=Backoff.fixed(1)))

    @app.job("echo")
    async def echo(note: Note) -> None:
        assert note.text in ("hello", "fine")

    return app


def _twist(sqs: Any, twisted: Callable[[ReceivedMessage], ReceivedMessage]) -> None:
    """Alter messages received from the jobs' queue on their way."""
    receive = sqs.receive

    async def changed(queue: str, **options: Any) -> list[ReceivedMessage]:
        return [twisted(message) for message in await receive(queue, **options)]

    sqs.receive = changed


@pytest.mark.looptime
@surrogates
async def test_a_worker_parks_a_message_with_a_lone_surrogate_and_goes_on(
    twisted: Callable[[ReceivedMessage], ReceivedMessage],
) -> None:
    rig = Rig(_app())
    rig.subscribers.append(Metrics(rig.app))
    await rig.submit(rig.app.types["echo"], "hello")
    _twist(rig.sqs, lambda message: twisted(message) if "fine" not in message.body else message)
    async with rig.working():
        async with asyncio.timeout(60):
            await rig.happens(MessageUnrunnable, 2)
        await asyncio.sleep(5)
        assert rig.remaining() == 0
        await rig.submit(rig.app.types["echo"], "fine")
        async with asyncio.timeout(60):
            await rig.happens(JobCompleted)
    [letter] = rig.sqs.messages(_DEAD)
    assert letter.attributes["Reason"] in ("unreadable", "payload-invalid")
    for text in (letter.body, *letter.attributes, *letter.attributes.values()):
        text.encode()


@surrogates
def test_a_function_parks_a_message_with_a_lone_surrogate(
    twisted: Callable[[ReceivedMessage], ReceivedMessage],
) -> None:
    function = Function(_app(), queue=_QUEUE)
    with Client(function.app, backend=function.backend) as client:
        client.submit(function.app.types["echo"], Note(text="hello"))
    _twist(function.sqs, twisted)
    try:
        function.invoke()
        function.clock.advance(timedelta(hours=1))
        function.invoke()
    finally:
        function.consumer.close()
    assert function.messages() == []
    [letter] = function.sqs.messages(_DEAD)
    assert letter.attributes["Reason"] in ("unreadable", "payload-invalid")


# --- timeouts ------------------------------------------------------------------------------------


def _endless(app: App) -> OutgoingMessage:
    """Return a message from another language that allows each attempt more time than exists."""
    envelope = Envelope(
        v=1,
        id=new_job_id(_NOW),
        type="work",
        payload={},
        queue="jobs",
        priority=app.types["work"].priority,
        submitted_at=_NOW,
        options=Options(timeout_s=1e300),
    )
    return message_of(envelope)


def _working(isolation: Any = "worker", *, synchronous: bool = False) -> App:
    app = App("shop", timeout=timedelta(seconds=1))

    async def work(_note: Note) -> None:
        await asyncio.sleep(0.01)

    def work_in_a_thread(_note: Note) -> None: ...

    app.job("work", isolation=isolation)(work_in_a_thread if synchronous else work)
    return app


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("isolation", "synchronous"), [("worker", False), ("worker", True), ("process", True)]
)
async def test_a_timeout_beyond_all_bounds_burns_no_attempt_in_a_worker(
    isolation: str, synchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    StubChildren(lambda: None).install(monkeypatch)
    rig = Rig(_working(isolation, synchronous=synchronous))
    assert await rig.sqs.send(_QUEUE, [_endless(rig.app)]) == []
    async with rig.working(children=1):
        [completed] = await rig.happens(JobCompleted)
    assert completed.attempt == 1
    assert not rig.heard(JobFailed)


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_timeout_beyond_all_bounds_burns_no_attempt_in_a_function(synchronous: bool) -> None:
    function = Function(_working(synchronous=synchronous), queue=_QUEUE)
    assert asyncio.run(function.sqs.send(_QUEUE, [_endless(function.app)])) == []
    try:
        assert function.invoke() == {"batchItemFailures": []}
    finally:
        function.consumer.close()
    assert function.heard(JobCompleted) == 1
    assert function.heard(JobFailed) == 0


# --- errors raised by reading --------------------------------------------------------------------

_FAULTS: list[BaseException] = [
    RecursionError("too deep"),
    OverflowError("too large"),
    KeyError("v"),
]

faults = pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: type(fault).__name__)


def _break_reading(fault: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_arguments: Any) -> Any:
        raise fault

    monkeypatch.setattr("headgate.jobs.execution.delivery.envelope_of", raising)


@pytest.mark.looptime
@faults
async def test_whatever_reading_a_message_raises_a_worker_parks_it(
    fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(_app())
    await rig.submit(rig.app.types["echo"], "hello")
    _break_reading(fault, monkeypatch)
    async with rig.working():
        async with asyncio.timeout(60):
            told = await rig.happens(MessageUnrunnable, 2)
        await asyncio.sleep(5)
    assert {each.detail for each in told} == {f"reading the message raised {type(fault).__name__}"}
    assert [letter.attributes["Reason"] for letter in rig.sqs.messages(_DEAD)] == ["unreadable"]
    assert rig.remaining() == 0


@faults
def test_whatever_reading_a_message_raises_a_function_parks_it(
    fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = Function(_app(), queue=_QUEUE)
    with Client(function.app, backend=function.backend) as client:
        client.submit(function.app.types["echo"], Note(text="hello"))
    _break_reading(fault, monkeypatch)
    try:
        function.invoke()
        function.clock.advance(timedelta(hours=1))
        assert function.invoke() == {"batchItemFailures": []}
    finally:
        function.consumer.close()
    [letter] = function.sqs.messages(_DEAD)
    assert letter.attributes["Reason"] == "unreadable"


@pytest.mark.looptime
async def test_a_validator_that_calls_exit_costs_its_own_message_alone() -> None:
    class Exits(Note):
        @field_validator("text")
        @classmethod
        def _exit(cls, text: str) -> str:
            raise SystemExit(text)

    app, other = App("shop", parking=Retry(max_attempts=2, backoff=Backoff.fixed(1))), App("shop")
    app.define("echo", Exits).handler(_never)
    rig = Rig(app)
    with Client(other, backend=rig.backend) as client:
        client.submit(other.define("echo", Note), Note(text="hello"))
    async with rig.working():
        async with asyncio.timeout(60):
            told = await rig.happens(MessageUnrunnable, 2)
    assert {each.reason for each in told} == {"payload-invalid"}


async def _never(_note: Note) -> None:
    raise AssertionError("it must not run")
