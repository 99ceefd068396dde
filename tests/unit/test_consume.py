"""Lambda as a worker: what it deletes, what it leaves, and when that is seen again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from jobs import (
    App,
    Backoff,
    Client,
    Discard,
    DoNotRetry,
    JobContext,
    Priority,
    Retry,
    RetryLater,
)
from jobs.errors import ConfigurationError, ServiceUnavailable
from jobs.events import (
    Event,
    Events,
    JobCompleted,
    JobDeadLettered,
    JobDeferred,
    JobInterrupted,
    JobRetryScheduled,
    MessageUnrunnable,
    SettlementFailed,
)
from jobs.job import JobType
from jobs.ports import OutgoingMessage, ReceivedMessage
from jobs.testing import MemorySqs, MessageState, StoredMessage, VirtualClock
from lambdas.consume import MARGIN_S, Consumer, Response, consumer

QUEUE, DEAD = "shop-mail-normal", "shop-mail-normal-dlq"


class Note(BaseModel):
    text: str = ""


class Pool:
    """What handlers share."""


@dataclass
class Context:
    """Lambda's, as far as it is asked."""

    left_s: float = 60.0

    def get_remaining_time_in_millis(self) -> int:
        return int(self.left_s * 1000)


@dataclass
class Function:
    """A deployed function, its queue, and what Lambda does: receive, and delete what is done."""

    app: App
    queue: str = QUEUE
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.sqs = MemorySqs(self.clock)
        self.sqs.provision(self.app.topology)
        self.consumer = consumer(
            self.app, transport=self.sqs, clock=self.clock, events=Events(self.events.append)
        )

    def submit(self, job: JobType[Note, Any], *texts: str, **overrides: Any) -> None:
        with Client(self.app, transport=self.sqs.blocking, clock=self.clock) as client:
            client.submit_many(job, [Note(text=text) for text in texts or ("",)], **overrides)

    def invoke(self, context: Context | None = None) -> Response:
        """Poll once, invoke, delete what did not fail."""
        messages = asyncio.run(self.sqs.receive(self.queue, limit=10, wait_s=0))
        event = {"Records": [self.record(message) for message in messages]}
        response = self.consumer(event, context or Context())
        failed = {each["itemIdentifier"] for each in response["batchItemFailures"]}
        done = [each.receipt for each in messages if each.message_id not in failed]
        if done:
            assert asyncio.run(self.sqs.delete(self.queue, done)) == []
        return response

    def record(self, message: ReceivedMessage) -> dict[str, Any]:
        attributes = {
            "ApproximateReceiveCount": str(message.receive_count),
            "SentTimestamp": str(int(message.sent_at.timestamp() * 1000)),
        }
        if message.group is not None:
            attributes["MessageGroupId"] = message.group
        return {
            "messageId": message.message_id,
            "receiptHandle": message.receipt,
            "body": message.body,
            "attributes": attributes,
            "messageAttributes": {
                name: {"stringValue": value, "dataType": "String"}
                for name, value in message.attributes.items()
            },
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:eu-central-1:123456789012:{self.queue}",
            "awsRegion": "eu-central-1",
        }

    def messages(self, queue: str | None = None) -> list[StoredMessage]:
        return self.sqs.messages(queue or self.queue)

    def heard(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


def _mail(handler: Callable[..., Any], **options: Any) -> tuple[Function, JobType[Note, Any]]:
    app = App("shop")
    retry = Retry(attempts=3, backoff=Backoff.fixed(40))
    queue = app.queue("mail", priorities=[Priority.NORMAL], retry=retry)
    job = queue.job("send", **options)(handler)
    return Function(app), job


async def _nothing(_note: Note) -> None: ...


@contextmanager
def _closed(function: Function) -> Iterator[Function]:
    try:
        yield function
    finally:
        function.consumer.close()


def test_what_is_done_is_deleted_and_nothing_is_reported_as_failed() -> None:
    ran = []

    async def send(note: Note) -> None:
        ran.append(note.text)

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "a", "b", "c")
        assert function.invoke() == {"batchItemFailures": []}
    assert sorted(ran) == ["a", "b", "c"]
    assert function.messages() == []
    assert function.heard(JobCompleted) == 3


def test_plain_functions_run_in_threads_and_side_by_side() -> None:
    meet = threading.Barrier(3, timeout=30)

    def send(_note: Note) -> None:
        meet.wait()

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "a", "b", "c")
        function.invoke()
    assert function.messages() == []


def test_of_a_batch_only_what_failed_stays_and_is_seen_again_after_its_backoff() -> None:
    async def send(note: Note, ctx: JobContext) -> None:
        if note.text == "bad" and ctx.attempt < 3:
            raise ConnectionError

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "good", "bad", "fine")
        [failure] = function.invoke()["batchItemFailures"]
        [left] = function.messages()
        assert failure == {"itemIdentifier": left.message_id}
        assert function.invoke() == {"batchItemFailures": []}, "it is hidden"
        function.clock.advance(41)
        assert len(function.invoke()["batchItemFailures"]) == 1
        function.clock.advance(41)
        function.invoke()
    assert function.messages() == []
    assert function.heard(JobRetryScheduled) == 2
    assert function.heard(JobCompleted) == 3


def test_a_job_that_is_given_up_is_in_the_dead_letter_queue_before_it_is_reported_as_done() -> None:
    async def send(_note: Note) -> None:
        raise DoNotRetry("no such address")

    function, job = _mail(send)
    with _closed(function):
        function.submit(job)
        assert function.invoke() == {"batchItemFailures": []}
    [dead] = function.messages(DEAD)
    assert dead.attributes["Reason"] == "do-not-retry"
    assert function.messages() == []
    assert function.heard(JobDeadLettered) == 1


def test_a_dead_letter_that_can_not_be_sent_leaves_the_message() -> None:
    async def send(_note: Note) -> None:
        raise DoNotRetry("no such address")

    function, job = _mail(send)
    with _closed(function):
        function.submit(job)
        function.sqs.faults.raise_on("send", ServiceUnavailable("gone"), times=5)
        assert len(function.invoke()["batchItemFailures"]) == 1
        assert len(function.messages()) == 1
        assert function.heard(SettlementFailed) == 1
        assert function.heard(JobDeadLettered) == 0
        function.sqs.faults.clear()
        function.clock.advance(400)
        function.invoke()
    assert len(function.messages(DEAD)) == 1


def test_a_visibility_that_can_not_be_changed_is_told_and_the_message_comes_again() -> None:
    async def send(_note: Note) -> None:
        raise ConnectionError

    function, job = _mail(send)
    with _closed(function):
        function.submit(job)
        function.sqs.faults.raise_on("change_visibility", ServiceUnavailable("gone"), times=5)
        assert len(function.invoke()["batchItemFailures"]) == 1
        assert function.heard(SettlementFailed) == 1
        function.clock.advance(301)
        [message] = function.messages()
        assert message.state is MessageState.VISIBLE


def test_signals_mean_what_they_mean_to_a_worker() -> None:
    async def send(note: Note, ctx: JobContext) -> None:
        if note.text == "discard":
            raise Discard("not needed")
        if ctx.attempt == 1:
            raise RetryLater(after=timedelta(seconds=20), reason="not yet")

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "discard", "later")
        assert len(function.invoke()["batchItemFailures"]) == 1
        function.clock.advance(21)
        function.invoke()
    assert function.heard(JobDeferred) == 1
    assert function.messages() == []


def test_an_unknown_type_is_backed_off_and_not_deleted() -> None:
    function, _ = _mail(_nothing)
    other = App("shop")
    elsewhere = other.queue("mail", priorities=[Priority.NORMAL]).define("elsewhere", Note)
    with _closed(function):
        with Client(other, transport=function.sqs.blocking, clock=function.clock) as client:
            client.submit(elsewhere, Note())
        assert len(function.invoke()["batchItemFailures"]) == 1
    assert len(function.messages()) == 1
    assert function.heard(MessageUnrunnable) == 1


def test_a_record_that_can_not_be_read_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def send(_note: Note) -> None: ...

    function, job = _mail(send)
    with _closed(function):
        function.submit(job)
        [message] = asyncio.run(function.sqs.receive(QUEUE, limit=1, wait_s=0))
        broken = {"messageId": "broken", "body": "secret"}
        event = {"Records": [broken, function.record(message)]}
        response = function.consumer(event, Context())
    assert response == {"batchItemFailures": [{"itemIdentifier": "broken"}]}
    assert "receiptHandle" in caplog.text
    assert "secret" not in caplog.text


def test_a_poison_body_is_parked_after_its_tries() -> None:
    function, _ = _mail(_nothing)
    with _closed(function):
        asyncio.run(function.sqs.send(QUEUE, [OutgoingMessage(body="no json")]))
        for _ in range(20):
            function.invoke()
            function.clock.advance(3600)
    [dead] = function.messages(DEAD)
    assert dead.body == "no json"
    assert dead.attributes["Reason"] == "unreadable"


@pytest.mark.parametrize("event", [{}, {"Records": "x"}, {"Records": [{"eventSource": "aws:s3"}]}])
def test_what_is_not_from_sqs_is_refused_as_a_whole(event: Mapping[str, Any]) -> None:
    function, _ = _mail(_nothing)
    with _closed(function), pytest.raises(ConfigurationError, match="not invoked by SQS"):
        function.consumer(event, Context())


def test_messages_of_a_queue_that_the_app_lacks_are_refused_by_its_name() -> None:
    function, job = _mail(_nothing)
    with _closed(function):
        function.submit(job)
        [message] = asyncio.run(function.sqs.receive(QUEUE, limit=1, wait_s=0))
        function.queue = "other-queue"
        with pytest.raises(ConfigurationError, match="other-queue"):
            function.consumer({"Records": [function.record(message)]}, Context())


# --- time ----------------------------------------------------------------------------------------


def test_without_time_nothing_is_started_and_everything_goes_back_at_once() -> None:
    ran = []

    async def send(note: Note) -> None:
        await asyncio.sleep(0)
        ran.append(note.text)

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, *map(str, range(10)))
        response = function.invoke(Context(left_s=MARGIN_S - 1))
    assert len(response["batchItemFailures"]) + len(ran) == 10
    left = function.messages()
    assert {message.state for message in left} <= {MessageState.VISIBLE}


def test_what_still_runs_when_time_is_nearly_up_is_interrupted_and_goes_back_at_once() -> None:
    async def send(note: Note) -> None:
        if note.text == "long":
            await asyncio.Event().wait()

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "long", "short")
        assert len(function.invoke(Context(left_s=MARGIN_S + 0.2))["batchItemFailures"]) == 1
    [left] = function.messages()
    assert left.state is MessageState.VISIBLE
    assert function.heard(JobInterrupted) == 1
    assert function.heard(JobCompleted) == 1


def test_a_plain_function_that_can_not_be_stopped_does_not_hold_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    let_go = threading.Event()

    def send(_note: Note) -> None:
        let_go.wait(60)

    function, job = _mail(send)
    function.submit(job)
    with caplog.at_level("WARNING", logger="headgate.consume"):
        assert len(function.invoke(Context(left_s=MARGIN_S + 0.1))["batchItemFailures"]) == 1
    let_go.set()
    function.consumer.close()
    assert "a plain function can't be stopped" in caplog.text
    assert function.messages()[0].state is MessageState.VISIBLE


# --- FIFO ----------------------------------------------------------------------------------------


class Entry(BaseModel):
    account: str
    number: int


def _ledger(failing: tuple[str, int]) -> tuple[Function, JobType[Entry, None], list[str]]:
    app, done = App("shop"), []
    books = app.queue(
        "books",
        priorities=[Priority.NORMAL],
        fifo=True,
        retry=Retry(attempts=5, backoff=Backoff.fixed(40)),
    )

    @books.job("post", group_by=lambda entry: entry.account)
    async def post(entry: Entry, ctx: JobContext) -> None:
        await asyncio.sleep(0.001)
        if (entry.account, entry.number) == failing and ctx.attempt == 1:
            raise ConnectionError
        done.append(f"{entry.account}{entry.number}")

    return Function(app, queue="shop-books-normal.fifo"), post, done


def test_a_failing_job_holds_back_what_is_behind_it_in_its_group_and_nothing_else() -> None:
    function, post, done = _ledger(failing=("a", 1))
    with _closed(function):
        with Client(function.app, transport=function.sqs.blocking, clock=function.clock) as client:
            for number in range(4):
                client.submit(post, Entry(account="a", number=number))
                client.submit(post, Entry(account="b", number=number))
        response = function.invoke()
        assert len(response["batchItemFailures"]) == 3
        assert [each for each in done if each[0] == "a"] == ["a0"]
        assert [each for each in done if each[0] == "b"] == ["b0", "b1", "b2", "b3"]
        function.invoke()
        assert [each for each in done if each[0] == "a"] == ["a0"], "a1 is still hidden"
        function.clock.advance(41)
        function.invoke()
    assert [each for each in done if each[0] == "a"] == ["a0", "a1", "a2", "a3"]
    assert function.messages() == []


# --- the environment -----------------------------------------------------------------------------


def test_resources_and_the_event_loop_are_kept_from_one_invocation_to_the_next() -> None:
    app = App("shop")
    queue = app.queue("mail", priorities=[Priority.NORMAL])
    opened, seen = [], []

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        opened.append(1)
        yield Pool()

    @queue.job("send")
    async def send(_note: Note, _pool: Pool) -> None:
        seen.append(asyncio.get_running_loop())

    function = Function(app)
    with _closed(function):
        for _ in range(3):
            function.submit(send)
            function.invoke()
    assert len(opened) == 1
    assert len(set(seen)) == 1


def test_a_handler_may_submit_further_jobs() -> None:
    app = App("shop")
    queue = app.queue("mail", priorities=[Priority.NORMAL])

    @queue.job("second")
    async def second(_note: Note) -> None: ...

    @queue.job("first")
    async def first(_note: Note, ctx: JobContext) -> None:
        await ctx.submit(second, Note())

    function = Function(app)
    with _closed(function):
        function.submit(first)
        function.invoke()
        assert len(function.messages()) == 1
        function.invoke()
    assert function.heard(JobCompleted) == 2


def test_a_handler_is_made_once_and_is_a_plain_callable() -> None:
    function, _ = _mail(_nothing)
    assert isinstance(function.consumer, Consumer)
    assert function.consumer({"Records": []}, Context()) == {"batchItemFailures": []}
    function.consumer.close()
