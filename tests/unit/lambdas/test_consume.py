"""Lambda as a worker: the messages that it deletes, those that it leaves, and their redelivery."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import looptime
import pytest
from pydantic import BaseModel

from headgate import (
    App,
    Backoff,
    Client,
    Discard,
    DoNotRetry,
    JobContext,
    JobState,
    Priority,
    Retry,
    RetryLater,
)
from headgate.jobs.core.event_log import current_job
from headgate.jobs.core.events import (
    ClaimFailed,
    Event,
    Events,
    JobAlreadyDone,
    JobCancelled,
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobDropped,
    JobFailed,
    JobInterrupted,
    JobRetryScheduled,
    MessageUnrunnable,
    RecordsFailed,
    SettlementFailed,
    SettlementFlushed,
)
from headgate.jobs.core.ports.transport import (
    EntryFailure,
    OutgoingMessage,
    ReceivedMessage,
    VisibilityChange,
)
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import ConfigurationError, ServiceUnavailable
from headgate.jobs.execution.calling.claims import Claims
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.run import Run
from headgate.jobs.messages.envelope import parse
from headgate.jobs.records.items import partition
from headgate.jobs.records.lists.children import children_partition
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.testing import (
    MemoryBackend,
    MemoryScheduler,
    MemorySqs,
    MessageState,
    StoredMessage,
    VirtualClock,
)
from headgate.lambdas.consume import Consumer, Response, consumer
from headgate.lambdas.timetable import LEAST_S
from tests.support.backends import async_over
from tests.support.functions import record_of
from tests.support.loggers import restored

ROOT = Path(__file__).parents[3]

QUEUE, DEAD = "shop-mail-normal", "shop-mail-normal-dlq"


class Note(BaseModel):
    text: str = ""


class Pool:
    """A resource that handlers share."""


class Database:
    """Another resource that handlers share."""


@dataclass
class Context:
    """Lambda's context, as far as it is used."""

    left_s: float = 60.0
    aws_request_id: str = "invocation-1"

    def get_remaining_time_in_millis(self) -> int:
        return int(self.left_s * 1000)


class Countdown:
    """Lambda's context on the virtual time of a loop: the remaining time falls as it proceeds."""

    aws_request_id = "invocation-1"

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self._loop = loop
        self._ends_at = loop.time() + timeout_s

    def get_remaining_time_in_millis(self) -> int:
        return int((self._ends_at - self._loop.time()) * 1000)


class Jumping(asyncio.SelectorEventLoop):
    """A loop whose time jumps when a handler says so, since virtual time waits for threads.

    In between it goes slowly: what has to happen before the next of the moments at which a function
    loses patience, a second apart, does so on a busy machine, too.
    """

    _PACE = 0.1

    def __init__(self) -> None:
        self._ahead_s = 0.0
        super().__init__()

    def time(self) -> float:
        return super().time() * self._PACE + self._ahead_s

    def jump(self, by_s: float) -> None:
        """Let that much time have passed; from any thread."""
        self.call_soon_threadsafe(self._jump, by_s)

    def _jump(self, by_s: float) -> None:
        self._ahead_s += by_s


@dataclass
class Function:
    """A deployed function, its queue, and Lambda's part: receiving, and deleting done messages."""

    app: App
    queue: str = QUEUE
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.backend = MemoryBackend(self.app, clock=self.clock)
        self.sqs, self.table = self.backend.sqs, self.backend.table
        self.consumer = consumer(
            self.app,
            events=Events(self.events.append),
            backend=self.backend,
        )

    def travel(self, timeout_s: float) -> Countdown:
        """Make the loop's time virtual, and begin an invocation of that length."""
        self.consumer._runner = asyncio.Runner(loop_factory=looptime.new_event_loop)
        return Countdown(self.consumer._runner.get_loop(), timeout_s)

    def jumping(self) -> Jumping:
        """Make the loop one whose time a handler can advance."""
        loop = Jumping()
        self.consumer._runner = asyncio.Runner(loop_factory=lambda: loop)
        return loop

    def submit(self, job: JobType[Note, Any], *texts: str, **overrides: Any) -> None:
        with Client(self.app, backend=self.backend) as client:
            client.submit_many(job, [Note(text=text) for text in texts or ("",)], **overrides)

    def invoke(self, context: Context | Countdown | None = None, *, polls: int = 1) -> Response:
        """Poll, invoke, delete what did not fail."""
        messages: list[ReceivedMessage] = []
        for _ in range(polls):  # a batch of more than ten is combined from several receives
            messages += asyncio.run(self.sqs.receive(self.queue, limit=10, wait_s=0))
        event = {"Records": [self.record(message) for message in messages]}
        response = self.consumer(event, context or Context())
        failed = {each["itemIdentifier"] for each in response["batchItemFailures"]}
        done = [each.receipt for each in messages if each.message_id not in failed]
        for at in range(0, len(done), 10):
            assert asyncio.run(self.sqs.delete(self.queue, done[at : at + 10])) == []
        return response

    def record(self, message: ReceivedMessage) -> dict[str, Any]:
        return record_of(message, self.queue)

    def messages(self, queue: str | None = None) -> list[StoredMessage]:
        return self.sqs.messages(queue or self.queue)

    def heard(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


def _mail(handler: Callable[..., Any], **options: Any) -> tuple[Function, JobType[Note, Any]]:
    app = App("shop")
    retry = Retry(max_attempts=3, backoff=Backoff.fixed(40))
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


def test_only_the_failed_jobs_of_a_batch_return_after_their_backoff() -> None:
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


def test_an_exit_in_a_task_of_a_handler_ends_no_invocation() -> None:
    async def exits() -> None:
        sys.exit(0)

    async def send(note: Note) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(exits() if note.text == "bad" else asyncio.sleep(0))

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "good", "bad", "fine")
        [failure] = function.invoke()["batchItemFailures"]
        [left] = function.messages()
    assert failure == {"itemIdentifier": left.message_id}
    assert function.heard(JobCompleted) == 2
    assert function.heard(JobFailed) == 1


def test_a_given_up_job_is_dead_lettered_before_it_is_reported_as_done() -> None:
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


def test_a_result_that_json_can_not_hold_is_a_dead_letter_at_once() -> None:
    async def send(_note: Note) -> object:
        return object()

    function, job = _mail(send)
    with _closed(function):
        function.submit(job)
        assert function.invoke() == {"batchItemFailures": []}
    [dead] = function.messages(DEAD)
    assert dead.attributes["ErrorType"] == "ResultNotSerializable"
    assert function.heard(JobCompleted) == 0


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


def test_a_failed_visibility_change_is_reported_and_the_message_returns() -> None:
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


def test_an_entry_refused_within_a_batch_is_reported_and_the_rest_changed() -> None:
    async def send(_note: Note) -> None:
        raise ConnectionError

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "a", "b", "c")
        function.sqs.faults.fail_entries("change_visibility", indexes=[1], sender_fault=True)
        assert len(function.invoke()["batchItemFailures"]) == 3
        assert function.heard(SettlementFailed) == 1
        assert function.heard(JobRetryScheduled) == 2
        function.clock.advance(41)
        states = [message.state for message in function.messages()]
    assert sorted(states) == [MessageState.IN_FLIGHT, MessageState.VISIBLE, MessageState.VISIBLE]


def test_an_entry_that_fails_through_no_fault_of_its_own_is_sent_again() -> None:
    async def send(_note: Note) -> None:
        raise DoNotRetry("no such address")

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "a", "b")
        function.sqs.faults.fail_entries("send", queue=DEAD, indexes=[0])
        assert function.invoke() == {"batchItemFailures": []}
    assert len(function.messages(DEAD)) == 2
    assert function.messages() == []


def test_many_messages_are_settled_by_tens() -> None:
    async def send(note: Note) -> None:
        raise DoNotRetry("no") if note.text == "dead" else ConnectionError

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, *["dead"] * 25, *["again"] * 25)
        assert len(function.invoke(polls=5)["batchItemFailures"]) == 25
    sizes: dict[str, list[int]] = {"send": [], "change_visibility": []}
    for event in function.events:
        if isinstance(event, SettlementFlushed) and event.action in sizes:
            sizes[event.action].append(event.entries)
    assert {action: sum(each) for action, each in sizes.items()} == {
        "send": 25,
        "change_visibility": 25,
    }
    assert max(map(max, sizes.values())) <= 10
    assert len(function.messages(DEAD)) == len(function.messages()) == 25


def test_dead_letters_that_are_too_large_for_one_request_share_several() -> None:
    async def send(_note: Note) -> None:
        raise DoNotRetry("no")

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, *["x" * 200_000] * 8)
        function.invoke(polls=2)
    assert len(function.messages(DEAD)) == 8
    assert function.messages() == []


def test_a_wait_beyond_the_visibility_limit_continues_in_a_new_message() -> None:
    async def send(_note: Note) -> None:
        raise RetryLater(after=timedelta(hours=13), reason="tomorrow")

    function, job = _mail(send)
    function.app.long_delays = False
    with _closed(function):
        function.submit(job)
        function.invoke()
    [message] = function.messages()
    assert parse(message.body).not_before == function.clock.now() + timedelta(hours=13)
    assert message.visible_at == function.clock.now() + timedelta(minutes=15)
    assert function.heard(SettlementFailed) == 0


def test_without_records_a_deferred_job_takes_its_attempts_along_in_a_new_message() -> None:
    async def send(_note: Note) -> None:
        raise RetryLater(after=timedelta(minutes=5), reason="not yet")

    function, job = _mail(send, records="off")
    with _closed(function):
        function.submit(job)
        for _ in range(3):
            function.invoke()
            function.clock.advance(timedelta(minutes=5))
    [message] = function.messages()
    assert (message.receive_count, parse(message.body).attempts_used) == (0, 0)
    assert function.heard(JobDeferred) == 3


@pytest.mark.parametrize(
    ("wait", "hidden"),
    [
        (timedelta(hours=11, minutes=50), timedelta(hours=11, minutes=50)),
        (timedelta(hours=11, minutes=55), timedelta(minutes=15)),
    ],
    ids=["within it", "beyond it"],
)
def test_the_twelve_hours_count_from_the_receive_which_was_minutes_before(
    wait: timedelta, hidden: timedelta
) -> None:
    async def send(_note: Note) -> None:
        raise RetryLater(after=wait, reason="tomorrow")

    function, job = _mail(send)
    function.app.long_delays = False
    with _closed(function):
        function.submit(job)
        function.invoke()
    # SQS refuses a visibility beyond twelve hours after the receive, and Lambda may have gathered
    # the batch for five minutes: such a wait continues in a new message.
    [message] = function.messages()
    assert message.visible_at == function.clock.now() + hidden


def test_a_delay_beyond_what_sqs_can_hide_is_handed_to_a_one_time_schedule() -> None:
    async def send(_note: Note) -> None:
        raise RetryLater(after=timedelta(hours=13), reason="tomorrow")

    function, job = _mail(send)
    schedules = MemoryScheduler(function.clock)
    function.consumer = consumer(
        function.app,
        events=Events(function.events.append),
        backend=async_over(function.sqs, scheduler=schedules, clock=function.clock),
    )
    with _closed(function):
        function.submit(job)
        function.invoke()
    assert function.messages() == []
    [held] = schedules.schedules
    letter = DelayedJob.model_validate(json.loads(held.input))
    assert letter.delayed_until == function.clock.now() + timedelta(hours=13)
    assert function.heard(JobDeferred) == 1


def test_a_job_outlives_its_message_in_a_function_too() -> None:
    attempts: list[int] = []

    async def send(_note: Note, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) == 1:
            raise RetryLater(after=timedelta(hours=3))

    function, job = _mail(send)
    function.app.long_delays = False
    with _closed(function):
        function.submit(job)
        [first] = function.messages()
        function.clock.advance(timedelta(days=4, hours=-2))
        function.invoke()
        [anew] = function.messages()
        assert anew.message_id != first.message_id
        function.clock.advance(timedelta(minutes=15))
        function.invoke()  # it is not due
        function.clock.advance(timedelta(hours=2, minutes=45))
        function.invoke()
    assert attempts == [1, 1]
    assert function.messages() == []
    assert function.heard(JobCompleted) == 1


def test_a_fault_of_ours_costs_only_the_message_it_struck(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    function, job = _mail(_nothing)
    with _closed(function):
        function.submit(job, "a")
        function.invoke()
        begin, faults = Run.__init__, iter([RuntimeError("a fault of ours")])

        def faulty(run: Run, executor: Executor, delivery: Delivery) -> None:
            for fault in faults:
                raise fault
            begin(run, executor, delivery)

        monkeypatch.setattr(Run, "__init__", faulty)
        function.submit(job, "a", "b", "c")
        assert len(function.invoke()["batchItemFailures"]) == 1
    assert len(function.messages()) == 1
    assert "a fault of ours" in caplog.text


def test_signals_mean_what_they_mean_to_a_worker() -> None:
    seen: list[str] = []

    async def send(note: Note) -> None:
        seen.append(note.text)
        if note.text == "discard":
            raise Discard("not needed")
        if seen.count("later") == 1:
            raise RetryLater(after=timedelta(seconds=20), reason="not yet")

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "discard", "later")
        assert len(function.invoke()["batchItemFailures"]) == 1
        function.clock.advance(21)
        function.invoke()
    assert function.heard(JobDeferred) == 1
    assert function.messages() == []


def test_a_wait_that_nothing_can_hold_is_dead_lettered_with_its_reason() -> None:
    async def send(_note: Note) -> None:
        raise RetryLater(after=timedelta(days=3_652_425), reason="much later")

    function, job = _mail(send)
    with _closed(function):
        function.submit(job)
        assert function.invoke() == {"batchItemFailures": []}
    [letter] = function.messages(DEAD)
    assert letter.attributes["Reason"] == "wait-too-long"


def test_an_unknown_type_is_backed_off_and_not_deleted() -> None:
    function, _ = _mail(_nothing)
    other = App("shop")
    elsewhere = other.queue("mail", priorities=[Priority.NORMAL]).define("elsewhere", Note)
    with _closed(function):
        with Client(other, backend=function.backend) as client:
            client.submit(elsewhere, Note())
        assert len(function.invoke()["batchItemFailures"]) == 1
    assert len(function.messages()) == 1
    assert function.heard(MessageUnrunnable) == 1


def test_waiting_before_does_not_shorten_the_time_until_a_message_is_parked() -> None:
    function, _ = _mail(_nothing)
    with _closed(function):
        asyncio.run(function.sqs.send(QUEUE, [OutgoingMessage(body="no json")]))
        for _ in range(30):
            [message] = asyncio.run(function.sqs.receive(QUEUE, limit=1, wait_s=0))
            back = VisibilityChange(receipt=message.receipt, timeout_s=0)
            asyncio.run(function.sqs.change_visibility(QUEUE, [back]))
        tries = 0
        while not function.messages(DEAD):
            tries += 1
            function.invoke()
            function.clock.advance(3600)
    assert tries == function.app.parking.max_attempts


def test_a_function_runs_no_type_of_another_queue() -> None:
    app = App("shop", parking=Retry(max_attempts=2, backoff=Backoff.fixed(10)))
    ran: list[str] = []

    @app.queue("mail", priorities=[Priority.NORMAL]).job("send")
    async def send(note: Note) -> None:
        ran.append(note.text)

    @app.queue("payments").job("capture-payment")
    async def capture(note: Note) -> None:
        ran.append(note.text)

    @app.queue("ledger").job("book", accepts_from=["mail"])
    async def book(note: Note) -> None:
        ran.append(note.text)

    function = Function(app)
    for name in app.types:
        function.submit(app.types[name], name)
    submitted = [
        OutgoingMessage(body=message.body)
        for queue in ("shop-payments-normal", "shop-ledger-normal")
        for message in function.messages(queue)
    ]
    asyncio.run(function.sqs.send(QUEUE, submitted))
    with _closed(function):
        for _ in range(2):
            function.invoke()
            function.clock.advance(10)
    assert sorted(ran) == ["book", "send"]
    [letter] = function.messages(DEAD)
    assert letter.attributes["JobType"] == "capture-payment"
    assert letter.attributes["Reason"] == "wrong-queue"


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


@pytest.mark.parametrize("is_async", [True, False])
def test_a_keyboard_interrupt_in_a_handler_is_a_failed_attempt(is_async: bool) -> None:
    async def send(note: Note) -> None:
        send_blocking(note)

    def send_blocking(note: Note) -> None:
        if note.text == "a":
            raise KeyboardInterrupt

    function, job = _mail(send if is_async else send_blocking)
    with _closed(function):
        function.submit(job, "a", "b")
        assert len(function.invoke()["batchItemFailures"]) == 1
    [failed] = [event for event in function.events if isinstance(event, JobFailed)]
    assert (failed.error_type, failed.attempt) == ("KeyboardInterrupt", 1)
    assert function.heard(JobCompleted) == 1


def test_the_apps_timeout_ends_an_attempt_before_the_functions_time_is_up() -> None:
    async def hang(_note: Note) -> None:
        await asyncio.Event().wait()

    app = App("shop", timeout=timedelta(seconds=5))
    mail = app.queue("mail", priorities=[Priority.NORMAL], retry=Retry(max_attempts=1))
    job, function = mail.job("send")(hang), Function(app)
    with _closed(function):
        function.submit(job)
        assert function.invoke(function.travel(60)) == {"batchItemFailures": []}
    [failed] = [event for event in function.events if isinstance(event, JobFailed)]
    assert (failed.error_type, failed.ran_s) == ("JobTimeout", 0)  # the clock stands still


@pytest.mark.parametrize("left_s", [0.5, 3.0, LEAST_S - 0.001])
def test_a_timeout_too_short_for_any_job_is_refused_up_front(
    left_s: float,
) -> None:
    ran: list[str] = []

    def send(note: Note) -> None:
        ran.append(note.text)

    function, job = _mail(send)
    with _closed(function):
        function.submit(job)
        with pytest.raises(ConfigurationError, match="set its timeout to at least 5 s"):
            function.invoke(Context(left_s=left_s))
    assert ran == []
    assert function.messages()[0].state is MessageState.IN_FLIGHT, "it doesn't go round at once"


def test_the_shortest_time_that_is_not_refused_is_enough_for_a_job() -> None:
    function, job = _mail(_nothing)
    with _closed(function):
        function.submit(job)
        assert function.invoke(function.travel(LEAST_S)) == {"batchItemFailures": []}


def _away_s(function: Function) -> list[float]:
    """Return the seconds for which each message stays hidden, the shortest first."""
    now = function.clock.now()
    until = (message.visible_at or now for message in function.messages())
    return sorted((each - now).total_seconds() for each in until)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
def test_what_has_no_time_left_is_not_started_and_goes_back_with_a_delay(is_async: bool) -> None:
    app, ran = App("shop"), []
    queue = app.queue("mail", priorities=[Priority.NORMAL])

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        await asyncio.sleep(20)  # a cold start that uses up the jobs' time
        yield Pool()

    async def later(note: Note, _pool: Pool) -> None:
        ran.append(note.text)

    def plainly(note: Note, _pool: Pool) -> None:
        ran.append(note.text)

    job = queue.job("send")(later if is_async else plainly)
    function = Function(app)
    with _closed(function):
        function.submit(job, *map(str, range(10)))
        assert len(function.invoke(function.travel(23.5))["batchItemFailures"]) == 10
    assert ran == []
    assert 0 < min(_away_s(function)) < max(_away_s(function)) <= 21, "as long as it took, spread"
    assert function.heard(SettlementFailed) == 0


def test_what_a_function_has_no_time_for_outlives_its_message() -> None:
    app, ran = App("shop"), []
    queue = app.queue("mail", priorities=[Priority.NORMAL])

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        await asyncio.sleep(20)  # a cold start that uses up the jobs' time
        yield Pool()

    @queue.job("send")
    async def send(note: Note, ctx: JobContext, _pool: Pool) -> None:
        ran.append((note.text, ctx.attempt))

    function = Function(app)
    with _closed(function):
        function.submit(send, "a", "b")
        first = {message.message_id for message in function.messages()}
        function.clock.advance(timedelta(days=4, minutes=-30))
        assert function.invoke(function.travel(23.5)) == {"batchItemFailures": []}
        assert not first & {message.message_id for message in function.messages()}
        function.clock.advance(timedelta(hours=1))
        function.invoke()
    assert sorted(ran) == [("a", 1), ("b", 1)]
    assert function.messages() == []


def test_jobs_still_running_near_the_timeout_are_given_back_at_once() -> None:
    async def send(note: Note) -> None:
        await asyncio.sleep(3600 if note.text == "long" else 50)

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "long", "short")
        context = function.travel(60)
        assert len(function.invoke(context)["batchItemFailures"]) == 1
        assert context.get_remaining_time_in_millis() > 2500, "at once, when it has ended"
    [left] = function.messages()
    assert left.state is MessageState.VISIBLE
    assert function.heard(JobInterrupted) == 1
    assert function.heard(JobCompleted) == 1
    marks = _written(function, str(parse(left.body).id))
    assert [place.rpartition("#")[2] for place in marks] == ["interrupted", "started"]


def test_jobs_that_wait_for_a_slot_when_time_is_nearly_up_go_back_unstarted() -> None:
    started: list[str] = []

    async def send(note: Note) -> None:
        started.append(note.text)
        await asyncio.sleep(25)

    function, job = _mail(send)
    function.consumer = consumer(
        function.app,
        events=Events(function.events.append),
        concurrency=2,
        backend=function.backend,
    )
    with _closed(function):
        function.submit(job, *map(str, range(10)))
        context = function.travel(60)
        response = function.invoke(context)
    assert len(started) == 6, "two at once: at 0, 25 and 50 s"
    assert len(response["batchItemFailures"]) == 6
    assert function.heard(JobCompleted) == 4
    interrupted, unstarted = _away_s(function)[:2], _away_s(function)[2:]
    assert interrupted == [0, 0]
    assert 0 < min(unstarted) <= max(unstarted) <= 57 * 4 / 6


def test_a_plain_function_that_can_not_be_stopped_does_not_hold_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    let_go = threading.Event()

    def send(_note: Note) -> None:
        loop.jump(58.1)  # time to abandon it
        let_go.wait(60)

    function, job = _mail(send)
    loop = function.jumping()
    with _closed(function), caplog.at_level("WARNING", logger="headgate.consume"):
        function.submit(job)
        context = Countdown(loop, 60)
        assert len(function.invoke(context)["batchItemFailures"]) == 1
        assert context.get_remaining_time_in_millis() > 0
        let_go.set()
    assert "a plain function can't be stopped" in caplog.text
    [left] = function.messages()
    assert left.state is MessageState.IN_FLIGHT, "shown at once it would run twice at a time"
    assert function.heard(JobInterrupted) == 1


@pytest.mark.parametrize("swallowed", [(), Exception])
def test_a_synchronous_handler_that_checks_cancelled_goes_back_at_once(
    swallowed: Any,
) -> None:
    def send(_note: Note, ctx: JobContext) -> None:
        loop.jump(57)  # time to interrupt it
        while True:
            try:
                ctx.raise_if_cancelled()
            except swallowed:
                return
            pause.wait(0.001)

    pause = threading.Event()
    function, job = _mail(send)
    loop = function.jumping()
    with _closed(function):
        function.submit(job)
        function.invoke(Countdown(loop, 60))
    assert function.messages()[0].state is MessageState.VISIBLE
    assert function.heard(JobInterrupted) == 1


def test_stuck_threads_take_no_place_from_later_jobs() -> None:
    let_go = threading.Event()

    def send(note: Note) -> None:
        if note.text == "stuck":
            all_run.wait(60)
            let_go.wait(60)

    function, job = _mail(send)
    loop = function.jumping()
    all_run = threading.Barrier(10, action=lambda: loop.jump(58.1))
    with _closed(function):
        function.submit(job, *["stuck"] * 10)
        assert len(function.invoke(Countdown(loop, 60))["batchItemFailures"]) == 10
        function.submit(job, "fine")
        assert function.invoke() == {"batchItemFailures": []}
        let_go.set()


def test_a_handler_that_ignores_being_cancelled_does_not_hold_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def send(note: Note) -> None:
        for _ in range(5 if note.text == "stubborn" else 0):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(100)
        if note.text == "stubborn":
            raise DoNotRetry("much too late")

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "stubborn", "done")
        context = function.travel(60)
        assert len(function.invoke(context)["batchItemFailures"]) == 1
        assert context.get_remaining_time_in_millis() > 0
        assert len(function.messages()) == 1
        # In a later invocation it ends after all. Its message has been given up since.
        function.consumer._runner.run(_ended(function.consumer._strays))
    assert "goes on though it was cancelled" in caplog.text
    assert function.messages(DEAD) == []
    assert function.heard(JobDeadLettered) == 0
    assert function.heard(SettlementFailed) == 0, "it was not even tried"


def test_a_job_that_ends_after_the_answer_does_not_touch_its_message() -> None:
    async def send(_note: Note) -> None:
        loop.jump(57)  # time to interrupt it
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(100)
        loop.jump(1.1)  # time to abandon it
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(100)
        loop.jump(3)  # cancelled a second time, it blocks the loop until the answer is due
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(100)

    function, job = _mail(send)
    loop = function.jumping()
    with _closed(function):
        function.submit(job)
        assert len(function.invoke(Countdown(loop, 60))["batchItemFailures"]) == 1
        assert len(function.messages()) == 1


async def _ended(tasks: set[asyncio.Task[None]]) -> None:
    assert len(tasks) == 1
    await asyncio.wait(tasks)


def test_an_sqs_that_does_not_answer_does_not_hold_the_answer() -> None:
    async def send(note: Note) -> None:
        if note.text == "bad":
            raise ConnectionError

    async def never(_queue: str, _changes: Sequence[VisibilityChange]) -> list[EntryFailure]:
        await asyncio.Event().wait()
        return []

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, "bad", "good")
        function.sqs.change_visibility = never  # type: ignore[assignment,method-assign]  # a dead network
        context = function.travel(60)
        assert len(function.invoke(context)["batchItemFailures"]) == 1
        assert context.get_remaining_time_in_millis() > 0
    assert len(function.messages()) == 1
    assert function.heard(SettlementFailed) == 1


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
        retry=Retry(max_attempts=5, backoff=Backoff.fixed(40)),
    )

    @books.job("post", group_by=lambda entry: entry.account)
    async def post(entry: Entry, ctx: JobContext) -> None:
        await asyncio.sleep(0.001)
        if (entry.account, entry.number) == failing and ctx.attempt == 1:
            raise ConnectionError
        done.append(f"{entry.account}{entry.number}")

    return Function(app, queue="shop-books-normal.fifo"), post, done


def test_a_failing_job_blocks_only_its_own_group() -> None:
    function, post, done = _ledger(failing=("a", 1))
    with _closed(function):
        with Client(function.app, backend=function.backend) as client:
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


def test_after_a_resource_fails_the_next_invocation_opens_all_again() -> None:
    app = App("shop")
    queue = app.queue("mail", priorities=[Priority.NORMAL])
    told: list[str] = []

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        told.append("opened")
        try:
            yield Pool()
        finally:
            told.append("closed")

    @app.resource
    async def database() -> AsyncIterator[Database]:
        if told.count("opened") <= 2:
            raise OSError("the database is down")
        yield Database()

    @queue.job("send")
    async def send(_note: Note, _pool: Pool, _database: Database) -> None: ...

    function = Function(app)
    with _closed(function):
        function.submit(send)
        for _ in range(2):
            with pytest.raises(OSError, match="the database is down"):
                function.invoke()
            function.clock.advance(301)
        assert told == ["opened", "closed"] * 2
        assert function.invoke() == {"batchItemFailures": []}
    assert function.messages() == []


def test_the_job_of_a_plain_function_is_known_in_its_thread() -> None:
    seen: list[str] = []

    def send(_note: Note) -> None:
        ctx = current_job.get()
        seen.append(ctx.type if ctx is not None else "unknown")

    function, job = _mail(send)
    with _closed(function):
        function.submit(job)
        function.invoke()
    assert seen == ["send"]


def test_closing_is_idempotent_and_safe_before_the_first_invocation() -> None:
    function, _ = _mail(_nothing)
    function.consumer.close()
    function.consumer.close()


def test_no_concurrency_at_all_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        consumer(App("shop"), concurrency=0, backend=async_over(MemorySqs(VirtualClock())))


def test_a_provisioned_function_runs_its_declared_number_of_jobs_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADGATE_CONCURRENCY", "3")
    running, most = set[str](), []

    async def send(note: Note) -> None:
        running.add(note.text)
        most.append(len(running))
        await asyncio.sleep(0.01)
        running.discard(note.text)

    function, job = _mail(send)
    with _closed(function):
        function.submit(job, *"abcdefgh")
        assert function.invoke() == {"batchItemFailures": []}
    assert max(most) == 3


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
        [message] = function.messages()
        child = parse(message.body)
        entered = function.table.sync.query(children_partition(str(child.parent)))
        assert [each.sk for each in entered] == [str(child.id)], "before the process may be frozen"
        function.invoke()
    assert function.heard(JobCompleted) == 2


def test_a_table_that_answers_late_delays_no_answer_for_the_record_of_a_child(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App("shop")
    queue = app.queue("mail", priorities=[Priority.NORMAL])

    @queue.job("second")
    async def second(_note: Note) -> None: ...

    @queue.job("first", records="off")
    async def first(_note: Note, ctx: JobContext) -> None:
        await ctx.submit(second, Note())

    function = Function(app)
    with _closed(function):
        function.submit(first)
        context = function.travel(60)
        function.table.faults.slow_down("put", 3_600, times=1)
        assert function.invoke(context) == {"batchItemFailures": []}
        assert context.get_remaining_time_in_millis() > 50_000
        assert "the next invocation goes on" in caplog.text
        function.table.faults.clear()


def test_a_handler_is_made_once_and_is_a_plain_callable() -> None:
    function, _ = _mail(_nothing)
    assert isinstance(function.consumer, Consumer)
    assert function.consumer({"Records": []}, Context()) == {"batchItemFailures": []}
    function.consumer.close()


# --- watching ------------------------------------------------------------------------------------


@pytest.fixture
def unset_logger() -> Iterator[logging.Logger]:
    """Headgate's logger as a function finds it: not configured."""
    with restored(bare=True) as logger:
        yield logger


def test_the_json_log_has_invocation_and_job_ids_but_no_payload(
    unset_logger: logging.Logger,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def send(_note: Note, ctx: JobContext) -> None:
        ctx.log.info("from the handler")
        logging.getLogger("headgate.library").info("from what it calls")

    function, job = _mail(send)
    function.consumer.close()
    function.consumer = consumer(function.app, backend=function.backend)
    with _closed(function):
        function.submit(job, "hunter2")
        function.invoke(Context(aws_request_id="first"))
        function.submit(job, "hunter2")
        function.invoke(Context(aws_request_id="second"))
    assert len(unset_logger.handlers) == 1
    written = capsys.readouterr().err
    lines = [json.loads(line) for line in written.splitlines()]
    assert [line["function_request_id"] for line in lines] == ["first"] * 3 + ["second"] * 3
    assert {line["job_type"] for line in lines} == {"send"}
    assert "from the handler" in written
    assert "hunter2" not in written


def test_a_logger_that_the_user_has_set_up_is_left_alone(unset_logger: logging.Logger) -> None:
    own = logging.NullHandler()
    unset_logger.addHandler(own)
    consumer(App("shop"), backend=async_over(MemorySqs(VirtualClock()))).close()
    assert unset_logger.handlers == [own]


@pytest.mark.parametrize(("asked", "environment"), [(True, ""), (None, "1")])
def test_metrics_count_jobs_by_type_and_by_lane_once_an_invocation(
    asked: bool | None,
    environment: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADGATE_EMF", environment)

    async def send(note: Note) -> None:
        if note.text == "bad":
            raise ConnectionError

    function, job = _mail(send)
    function.consumer.close()
    function.consumer = consumer(
        function.app,
        events=Events(),
        metrics=asked,
        backend=function.backend,
    )
    with _closed(function):
        function.submit(job, "a", "bad", "b")
        function.invoke()
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        function.invoke()
        assert capsys.readouterr().out == "", "nothing happened"
    [of_type, of_lane] = sorted(told, key=lambda line: "type" not in line)
    assert (of_type["service"], of_type["type"], of_type["queue"]) == ("shop", "send", "mail")
    assert (of_lane["service"], of_lane["queue"], of_lane["priority"]) == ("shop", "mail", "normal")
    assert of_type["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Headgate"
    assert {name: of_type[name] for name in of_type if name.startswith("Jobs")} == {
        "JobsCompleted": [2.0],
        "JobsFailed": [1.0],
        "JobsRetried": [1.0],
    }
    assert {name: of_lane[name] for name in of_lane if name.startswith("Jobs")} == {
        "JobsStarted": [3.0],
        "JobsCompleted": [2.0],
        "JobsFailed": [1.0],
    }
    assert len(of_type["Duration"]) == len(of_lane["Wait"]) == 3


def test_importing_it_brings_in_no_aws_sdk() -> None:
    code = "import sys, headgate.lambdas.consume; print(*sys.modules)"
    answered = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert answered.returncode == 0, answered.stderr
    # Powertools touches the package `botocore`, to sign its user agent, and nothing within it.
    heavy = {"aiobotocore", "aiohttp", "boto3", "botocore.session", "botocore.client"}
    assert not set(answered.stdout.split()) & heavy


# --- records -------------------------------------------------------------------------------------


def _written(function: Function, job_id: str) -> dict[str, Any]:
    items = asyncio.run(function.table.query(partition(job_id)))
    return {item.sk.partition("#")[2]: item.data for item in items}


def test_attempts_are_counted_by_records_and_how_a_job_ended_is_kept() -> None:
    seen: list[int] = []

    async def send(_note: Note, ctx: JobContext) -> str:
        seen.append(ctx.attempt)
        if len(seen) == 1:
            raise RetryLater(timedelta(seconds=1), "not yet")
        if len(seen) == 2:
            raise ConnectionError("down")
        return "sent"

    function, job = _mail(send)
    with _closed(function):
        function.submit(job)
        [message] = function.messages()
        job_id = str(parse(message.body).id)
        for _ in range(3):
            function.invoke()
            function.clock.advance(60)
    assert seen == [1, 1, 2]
    assert function.messages() == []
    written = _written(function, job_id)
    assert [name.rpartition("#")[2] for name in written] == [
        *("deferred", "failed", "started"),
        *("completed", "started"),
    ]
    assert [data["result"] for data in written.values() if "result" in data] == ["sent"]


def test_a_delivery_that_never_came_to_the_function_is_no_crash() -> None:
    seen: list[int] = []

    async def send(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)

    function, job = _mail(send)
    with _closed(function):
        function.submit(job)
        asyncio.run(function.sqs.receive(QUEUE, limit=10, wait_s=0))  # Lambda was throttled
        function.clock.advance(3600)
        function.invoke()
    assert seen == [1]
    assert function.heard(JobCrashed) == 0


def test_a_table_that_is_away_costs_no_job_anything() -> None:
    function, job = _mail(_nothing)
    function.table.missing = True
    with _closed(function):
        function.submit(job, *"abc")
        assert function.invoke(function.travel(60)) == {"batchItemFailures": []}
    assert function.messages() == []
    assert function.heard(RecordsFailed) >= 1


# --- jobs that run once --------------------------------------------------------------------------


def _once(handler: Callable[..., Any], **options: Any) -> tuple[Function, JobType[Note, Any]]:
    app = App("shop")
    retry = Retry(max_attempts=3, backoff=Backoff.fixed(40))
    queue = app.queue("mail", priorities=[Priority.NORMAL], retry=retry)
    job = queue.job("send", once=True, **options)(handler)
    return Function(app), job


def test_a_once_job_delivered_twice_runs_once_and_leaves_no_message() -> None:
    ran = []

    async def send(note: Note) -> None:
        ran.append(note.text)

    function, job = _once(send)
    with _closed(function):
        function.submit(job, "a")
        [message] = function.messages()
        again = OutgoingMessage(body=message.body)
        assert function.invoke() == {"batchItemFailures": []}
        assert asyncio.run(function.sqs.send(QUEUE, [again])) == []
        assert function.invoke() == {"batchItemFailures": []}
    assert ran == ["a"]
    assert function.messages() == []
    assert function.heard(JobAlreadyDone) == 1


def test_a_once_job_claimed_elsewhere_stays_until_that_lease_may_end() -> None:
    ran = []

    async def send(note: Note) -> None:
        ran.append(note.text)

    function, job = _once(send)
    with _closed(function):
        function.submit(job, "a")
        [message] = function.messages()
        claims = Claims(function.table, owner="another", clock=function.clock)
        claim = claims.on(str(parse(message.body).id), job.name, function.app.topology.queues[0])
        assert asyncio.run(claim.take()) is None
        for _ in ("the lease", "the grace after it"):
            assert len(function.invoke()["batchItemFailures"]) == 1
            [hidden] = function.messages()
            assert hidden.visible_at is not None
            function.clock.advance((hidden.visible_at - function.clock.now()).total_seconds())
        assert function.invoke() == {"batchItemFailures": []}
    assert ran == ["a"]
    assert function.heard(JobDeferred) == 2


def test_a_once_job_is_not_run_while_the_table_is_away() -> None:
    ran = []

    async def send(note: Note) -> None:
        ran.append(note.text)

    function, job = _once(send)
    with _closed(function):
        function.submit(job, "a")
        function.table.missing = True
        assert len(function.invoke()["batchItemFailures"]) == 1
        assert ran == []
        assert function.heard(ClaimFailed) == 1
        function.table.missing = False
        function.clock.advance(60)
        assert function.invoke() == {"batchItemFailures": []}
    assert ran == ["a"]


def test_a_synchronous_once_job_that_goes_on_keeps_its_claim() -> None:
    let_go = threading.Event()

    def send(_note: Note) -> None:
        loop.jump(58.1)
        let_go.wait(60)

    function, job = _once(send)
    loop = function.jumping()
    with _closed(function):
        function.submit(job, "a")
        assert len(function.invoke(Countdown(loop, 60))["batchItemFailures"]) == 1
        [message] = function.messages()
        place = partition(str(parse(message.body).id))
        claim = asyncio.run(function.table.get(place, "claim"))
        let_go.set()
    assert claim is not None
    assert claim.data["state"] == "running", "given back, another would run it at the same time"


# --- cancelled jobs ------------------------------------------------------------------------------


def _client_of(function: Function) -> Client:
    return Client(
        function.app,
        backend=function.backend,
    )


def test_a_job_that_was_cancelled_before_its_invocation_never_starts() -> None:
    ran: list[str] = []
    app = App("shop", records="outcomes")

    @app.queue("mail", priorities=[Priority.NORMAL]).job("send")
    async def send(note: Note) -> None:
        ran.append(note.text)

    function = Function(app, queue="shop-mail-normal")
    with _client_of(function) as client:
        cancelled, other = client.submit_many(send, [Note(text="one"), Note(text="two")])
        cancelled.cancel("a mistake")
        assert function.invoke() == {"batchItemFailures": []}
        assert ran == ["two"]
        assert cancelled.state() is JobState.CANCELLED
        assert other.state() is JobState.COMPLETED
    function.consumer.close()
    assert [event.reason for event in function.events if isinstance(event, JobCancelled)] == [
        "a mistake"
    ]


def test_a_job_that_is_cancelled_before_it_is_due_leaves_its_queue_at_once() -> None:
    calls = 0
    app = App("shop", long_delays=False)

    @app.queue("mail", priorities=[Priority.NORMAL]).job("send")
    async def send(_note: Note) -> None:
        nonlocal calls
        calls += 1
        raise RetryLater(timedelta(days=10))

    function = Function(app, queue="shop-mail-normal")
    with _client_of(function) as client:
        handle = client.submit(send, Note())
        function.invoke()
        function.clock.advance(timedelta(minutes=15))
        assert function.invoke() != {"batchItemFailures": []}, "it is not due"
        handle.cancel("a mistake")
        function.clock.advance(timedelta(hours=12))
        assert function.invoke() == {"batchItemFailures": []}
        assert handle.state() is JobState.CANCELLED
    assert (calls, function.messages()) == (1, [])
    function.consumer.close()


def test_an_environment_looks_for_cancellations_every_few_seconds_at_most() -> None:
    app = App("shop", records="outcomes")

    @app.queue("mail", priorities=[Priority.NORMAL]).job("send")
    async def send(_note: Note) -> None: ...

    function = Function(app, queue="shop-mail-normal")
    for _ in range(20):  # twenty seconds of invocations
        function.submit(send)
        function.invoke()
        function.clock.advance(1)
    function.consumer.close()
    assert 4 <= function.table.calls.count("page") <= 7, "once in 3.2 to 4.8 seconds"


def test_a_job_that_has_expired_is_deleted_unrun() -> None:
    ran = []

    async def handler(note: Note) -> None:
        ran.append(note.text)

    function, send = _mail(handler, expires=60)
    with _closed(function):
        function.submit(send, "late")
        function.clock.advance(60)
        function.submit(send, "in time")
        assert function.invoke()["batchItemFailures"] == []
    assert ran == ["in time"]
    assert [each.kind for each in function.events if isinstance(each, JobDropped)] == ["expired"]
    assert function.messages() == []


def test_a_job_has_its_own_backoff_and_retention_in_a_function_too() -> None:
    async def handler(_note: Note, ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise ConnectionError

    function, send = _mail(handler)
    with _closed(function):
        function.submit(send, "a", backoff=Backoff.steps(7, 8), keep=90 * 86_400)
        function.invoke()
        [waiting] = function.messages()
        job_id = str(parse(waiting.body).id)
        assert waiting.visible_at == function.clock.now() + timedelta(seconds=7)
        function.clock.advance(7)
        function.invoke()
    [completed] = [
        each
        for each in asyncio.run(function.table.query(partition(job_id)))
        if each.sk.endswith("completed")
    ]
    assert completed.expires_at is not None
    assert completed.expires_at - function.clock.now() == timedelta(days=90)
