"""A sweep of the dead letters: nothing is lost, and people are told, wherever it is cut off."""

from __future__ import annotations

import gzip
import json
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from jobs import App, Priority
from jobs.dead_letter_copies import copy_of
from jobs.dead_letters import dead_letter
from jobs.envelope import VERSION, Envelope, PayloadRef, new_job_id
from jobs.errors import ServiceUnavailable
from jobs.messages import message_of
from jobs.outcome import Attempt, Reason
from jobs.ports import OutgoingMessage, ReceivedMessage
from jobs.settlement import DeadLetter, Quarantine
from jobs.sweep_memory import SUMMARY_EVERY, SweepMemory
from jobs.sweep_plan import EVERY, HOLD, TIMEOUT, ParkingQueue, SweepPlan, sweep_plan
from jobs.testing import MemorySqs, MemoryStore, MemoryTable, MemoryTopic, VirtualClock
from jobs.topology import DEAD_LETTERS
from lambdas import sweeping
from lambdas.sweeping import LIMIT, SAVED_BEFORE, Kind, Sweeper, Swept

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DOWN = ServiceUnavailable("it is down")
SECRET = "4111-1111"  # noqa: S105 - a payload's, that must not be told


class Order(BaseModel):
    card: str = SECRET


def make_app() -> App:
    app = App("shop", stage="test")
    app.define("send-email", Order)
    ledger = app.queue("ledger", priorities=[Priority.NORMAL], fifo=True)
    ledger.define("book", Order, group_by=lambda _: "g")
    payments = app.queue("payments", priorities=[Priority.CRITICAL])
    payments.define("capture", Order, critical=True)
    return app


@dataclass
class Bench:
    """An app in memory, with its dead letters."""

    app: App = field(default_factory=make_app)
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(NOON))
    counted: Counter[Kind] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.sqs, self.table = MemorySqs(self.clock), MemoryTable(self.clock)
        self.store, self.topic = MemoryStore(), MemoryTopic()
        self.sqs.provision(self.app.topology)
        self.sqs.create_queue(
            self.app.topology.failed_firings_name,
            retention_s=int(timedelta(days=14).total_seconds()),
        )

    @property
    def plan(self) -> SweepPlan:
        return sweep_plan(self.app, has_bridge=True)

    def parking(self, job_type: str) -> ParkingQueue:
        job = self.app.find_type(job_type)
        name = self.app.topology.queue(job.queue, job.priority).dlq_name
        [found] = [queue for queue in self.plan.queues if queue.name == name]
        return found

    def sweep(self) -> Swept | None:
        """As one invocation does, in an execution environment of its own."""
        memory = SweepMemory(self.table.blocking, self.clock, sleep=lambda _: None)
        return Sweeper(
            self.plan,
            queues=self.sqs.blocking,
            memory=memory,
            store=self.store.blocking,
            topic=self.topic,
            clock=self.clock,
            count=self._count,
        ).sweep()

    def swept(self) -> Swept:
        found = self.sweep()
        assert found is not None
        return found

    def _count(self, counts: Mapping[Kind, int]) -> None:
        self.counted.update(counts)

    def envelope(self, job_type: str, **changed: Any) -> Envelope:
        job = self.app.find_type(job_type)
        whole = {
            "v": VERSION,
            "id": new_job_id(self.clock.now()),
            "type": job.name,
            "payload": {"card": SECRET},
            "queue": job.queue,
            "priority": job.priority,
            "submitted_at": self.clock.now(),
        }
        return Envelope(**(whole | changed))

    def die(self, job_type: str, *, error: str = "CardError", **changed: Any) -> str:
        """Let the worker give a job up; returns its id."""
        envelope = self.envelope(job_type, **changed)
        action = DeadLetter(
            reason=Reason.ATTEMPTS_EXHAUSTED, error_type=error, error_message=f"card {SECRET}"
        )
        self.send(self.parking(job_type).name, self._given_up(envelope, action))
        return str(envelope.id)

    def crash(self, job_type: str) -> str:
        """Let the worker quarantine a job."""
        envelope = self.envelope(job_type)
        letter = self._given_up(envelope, Quarantine(detail="killed"))
        self.send(self.app.topology.quarantine_name, letter)
        return str(envelope.id)

    def _given_up(self, envelope: Envelope, action: DeadLetter | Quarantine) -> OutgoingMessage:
        queue = self.app.topology.queue(envelope.queue, envelope.priority)
        group = "g" if queue.fifo else None
        message = message_of(envelope, fifo_group=group)
        return dead_letter(
            ReceivedMessage(
                message_id="1",
                receipt="1",
                body=message.body,
                receive_count=3,
                sent_at=self.clock.now(),
                attributes=message.attributes,
                group=message.group,
            ),
            action,
            Attempt(job_id=str(envelope.id), number=3, max_attempts=3, receives=3),
            envelope.type,
            self.clock.now(),
            fifo=queue.fifo,
        )

    def send(self, queue: str, message: OutgoingMessage) -> None:
        assert self.sqs.blocking.send(queue, [message]) == []

    def everything(self) -> list[str]:
        """All messages that are parked, by SQS's ids."""
        return sorted(
            message.message_id
            for queue in self.plan.queues
            for message in self.sqs.messages(queue.name)
        )

    def visible(self) -> int:
        return sum(self.sqs.blocking.depth(queue.name).visible for queue in self.plan.queues)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def texts(bench: Bench) -> str:
    return "\n".join(f"{subject}\n{text}" for subject, text in bench.topic.published)


# --- telling -------------------------------------------------------------------------------------


def test_what_is_new_is_told_once_and_stays_where_it_is(bench: Bench) -> None:
    job_id = bench.die("send-email")
    before = bench.everything()
    for _ in range(3):
        bench.swept()
        bench.clock.advance(EVERY)
    [(subject, text)] = bench.topic.published
    assert subject == "[shop-test] 1 new dead letter: send-email"
    for part in ("attempts-exhausted, CardError", bench.parking("send-email").name, job_id):
        assert part in text
    assert bench.everything() == before
    assert bench.visible() == 1


def test_critical_types_are_told_each_sweep_and_the_others_in_a_summary_an_hour(
    bench: Bench,
) -> None:
    rounds = 2 * int(SUMMARY_EVERY / EVERY)
    for _ in range(rounds):
        bench.die("capture")
        bench.die("send-email")
        bench.swept()
        bench.clock.advance(EVERY)
    subjects = [subject for subject, _ in bench.topic.published]
    assert subjects.count("[shop-test] 1 new critical dead letter: capture") == rounds
    summaries = [subject for subject in subjects if "critical" not in subject]
    assert summaries == [
        "[shop-test] 1 new dead letter: send-email",
        f"[shop-test] {rounds // 2} new dead letters: send-email",
    ]


def test_what_kills_workers_is_critical_whatever_its_type(bench: Bench) -> None:
    bench.crash("send-email")
    bench.swept()
    [(subject, text)] = bench.topic.published
    assert subject == "[shop-test] 1 new critical dead letter: send-email"
    assert "quarantined" in text
    assert "killed the processes" in text


def test_what_sqs_moved_by_itself_is_told_with_its_type(bench: Bench) -> None:
    envelope = bench.envelope("send-email")
    queue = bench.app.topology.queue("jobs", Priority.NORMAL)
    bench.send(queue.name, message_of(envelope))
    for _ in range(queue.max_receive_count + 1):
        bench.sqs.blocking.receive(queue.name, limit=1, wait_s=0, visibility_s=0)
    bench.swept()
    assert bench.counted == {("jobs", "send-email", "redriven"): 1}
    assert "send-email: redriven" in texts(bench)
    assert str(envelope.id) in texts(bench)


def test_a_firing_that_became_no_job_is_told(bench: Bench) -> None:
    record = {
        "requestPayload": {"type": "send-email", "job_id": "0190"},
        "responsePayload": {"errorType": "QueueMissing", "errorMessage": SECRET},
    }
    queue = bench.app.topology.failed_firings_name
    bench.send(queue, OutgoingMessage(body=json.dumps(record)))
    bench.swept()
    assert bench.counted == {("schedules", "send-email", "not-submitted"): 1}
    assert "send-email: not-submitted, QueueMissing" in texts(bench)


def test_no_alert_and_no_log_has_a_payload_or_an_errors_message(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bench.die("capture")
    bench.die("send-email")
    bench.send(bench.parking("send-email").name, OutgoingMessage(body=f"not JSON {SECRET}"))
    bench.swept()
    assert SECRET not in texts(bench)
    logged = [json.dumps(vars(record), default=str) for record in caplog.records]
    assert len(logged) == 3
    assert not [line for line in logged if SECRET in line]


def test_what_anybody_put_there_is_told_as_unknown(bench: Bench) -> None:
    name = bench.parking("send-email").name
    bench.send(name, OutgoingMessage(body="[]", attributes={"JobType": "über\nSubject: x"}))
    bench.swept()
    assert bench.counted == {("jobs", "unknown", "redriven"): 1}


def test_a_flood_is_one_message_that_sns_takes(bench: Bench) -> None:
    for number in range(150):
        bench.die("send-email", error=f"Error{number:03}")
    bench.swept()
    [(subject, text)] = bench.topic.published
    assert subject.startswith("[shop-test] 150 new dead letters")
    assert text.count(" x send-email") == 20
    assert "130 of other kinds." in text


def test_a_queue_that_holds_more_than_a_sweep_looks_at_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "LIMIT", 20)
    for _ in range(25):
        bench.die("send-email")
    assert bench.swept().looked_at == 20
    assert "About 5 more messages" in texts(bench)
    assert bench.visible() == 25
    assert LIMIT > 20


def test_a_fifo_queue_is_looked_into_and_given_back_in_order(bench: Bench) -> None:
    ids = [bench.die("book") for _ in range(3)]
    assert bench.swept().new == {("ledger", "book", "attempts-exhausted"): 3}
    name = bench.parking("book").name
    found = bench.sqs.blocking.receive(name, limit=10, wait_s=0)
    assert [message.attributes["JobId"] for message in found] == ids


# --- saving --------------------------------------------------------------------------------------


def test_what_sqs_is_about_to_delete_is_copied_once_with_all_that_it_says(bench: Bench) -> None:
    job_id = bench.die("send-email")
    queue = bench.parking("send-email")
    bench.clock.advance(queue.retention - SAVED_BEFORE)
    assert bench.swept().saved == 0
    bench.clock.advance(EVERY)
    assert bench.swept().saved == 1
    assert bench.swept().saved == 0

    [stored] = bench.sqs.messages(queue.name)
    key = f"{DEAD_LETTERS}{queue.name}/2026-11-21/{stored.message_id}.json.gz"
    assert list(bench.store.objects) == [key]
    copy = json.loads(gzip.decompress(bench.store.objects[key]))
    assert copy["body"] == stored.body
    assert copy["attributes"] == dict(stored.attributes)
    assert copy["attributes"]["JobId"] == job_id
    assert copy["sent_at"] == NOON.isoformat()


def test_a_message_always_makes_the_same_copy(bench: Bench) -> None:
    bench.die("send-email")
    name = bench.parking("send-email").name
    copies = set()
    for _ in range(2):
        [message] = bench.sqs.blocking.receive(name, limit=1, wait_s=0, visibility_s=0)
        copies.add(copy_of(name, message))
        bench.clock.advance(EVERY)
    assert len(copies) == 1


def test_a_payload_that_is_in_the_bucket_is_copied_before_it_expires_too(bench: Bench) -> None:
    bench.store.objects["payloads/1"] = b"packed"
    ref = PayloadRef(key="payloads/1", sha256="0" * 64, size=6, encoding="gzip")
    bench.die("send-email", payload=None, payload_ref=ref)
    queue = bench.parking("send-email")
    bench.clock.advance(queue.retention - SAVED_BEFORE + EVERY)
    bench.swept()
    [copy] = [
        content for key, content in bench.store.objects.items() if key.endswith(".payload.gz")
    ]
    assert copy == b"packed"


def test_while_s3_is_down_the_rest_is_done_and_the_next_sweep_saves(bench: Bench) -> None:
    for _ in range(3):
        bench.die("send-email")
    bench.clock.advance(bench.parking("send-email").retention - SAVED_BEFORE + EVERY)
    bench.store.fail("put", DOWN)
    with pytest.raises(ServiceUnavailable):
        bench.sweep()
    assert len(bench.topic.published) == 1
    assert [action for action, _ in bench.store.calls] == ["put"], "one try, not one for each"
    assert bench.swept().saved == 3


# --- two at once, cut off, refused ---------------------------------------------------------------


def test_a_sweep_leaves_another_that_is_under_way_alone(bench: Bench) -> None:
    bench.die("send-email")
    memory = SweepMemory(bench.table.blocking, bench.clock)
    with memory.leased(TIMEOUT) as is_ours:
        assert is_ours
        assert bench.sweep() is None
    assert bench.topic.published == []
    assert bench.swept().told == 1


def test_a_lease_that_its_sweep_outlived_is_not_taken_from_the_next(bench: Bench) -> None:
    memory = SweepMemory(bench.table.blocking, bench.clock)
    with memory.leased(TIMEOUT):
        bench.clock.advance(TIMEOUT + timedelta(seconds=1))
        with memory.leased(TIMEOUT) as next_ones:
            assert next_ones
            bench.clock.advance(timedelta(seconds=1))
    assert bench.sweep() is not None


class Killed(BaseException):
    """The function was ended."""


class Deadly:
    """Counts the calls to AWS, and ends the process before or after one of them."""

    def __init__(self, at: int, *, before: bool) -> None:
        self.calls = 0
        self._at = at
        self._before = before
        self.struck = False

    def around(self, call: Any) -> Any:
        def wrapped(*args: Any, **options: Any) -> Any:
            if self.struck:
                raise Killed  # nothing is done any more, not even to clean up
            self.calls += 1
            if self.calls == self._at:
                self.struck = True
                if self._before:
                    raise Killed
                call(*args, **options)
                raise Killed
            return call(*args, **options)

        return wrapped


class _Wrapped:
    def __init__(self, inner: Any, deadly: Deadly) -> None:
        self._inner = inner
        self._deadly = deadly

    def __getattr__(self, name: str) -> Any:
        return self._deadly.around(getattr(self._inner, name))


def _cut(bench: Bench, deadly: Deadly) -> bool:
    """A sweep that is killed at a call; False if it came to its end."""
    queues: Any = _Wrapped(bench.sqs.blocking, deadly)
    table: Any = _Wrapped(bench.table.blocking, deadly)
    store: Any = _Wrapped(bench.store.blocking, deadly)
    topic: Any = _Wrapped(bench.topic, deadly)
    sweeper = Sweeper(
        bench.plan,
        queues=queues,
        memory=SweepMemory(table, bench.clock, sleep=lambda _: None),
        store=store,
        topic=topic,
        clock=bench.clock,
        count=bench._count,
    )
    try:
        sweeper.sweep()
    except Killed:
        return True
    return False


def _calls_of_a_sweep() -> int:
    counting = Deadly(0, before=True)
    assert not _cut(_with_all_kinds()[0], counting)
    return counting.calls


def _with_all_kinds() -> tuple[Bench, list[str]]:
    """A critical one, two others, one of them about to be deleted, and a killer."""
    bench = Bench()
    old = bench.die("send-email")
    bench.clock.advance(bench.parking("send-email").retention - SAVED_BEFORE + EVERY)
    return bench, [old, bench.die("capture"), bench.die("book"), bench.crash("send-email")]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_sweep_that_is_killed_at_any_call_loses_nothing_and_the_next_one_tells(
    before: bool,
) -> None:
    calls = _calls_of_a_sweep()
    assert calls > 20
    for at in range(1, calls + 1):
        bench, ids = _with_all_kinds()
        everything = bench.everything()
        assert _cut(bench, Deadly(at, before=before))
        bench.clock.advance(EVERY)
        assert bench.sweep() is not None, "the lease is over"
        # A summary that was told already may have to wait for its hour.
        bench.clock.advance(SUMMARY_EVERY)
        bench.swept()
        assert bench.everything() == everything
        assert bench.visible() == len(ids)
        for job_id in ids:
            assert job_id in texts(bench)
        assert len(bench.store.objects) == 1
        for count in bench.counted.values():
            assert count == 1, "counted once at most"


def test_what_a_killed_sweep_holds_shows_again_before_the_next_one() -> None:
    assert HOLD < EVERY
    assert TIMEOUT < EVERY


def test_a_queue_that_cannot_be_asked_keeps_no_other_from_being_swept(bench: Bench) -> None:
    bench.die("capture")
    bench.die("send-email")
    bench.sqs.faults.raise_on("depth", DOWN, queue=bench.parking("capture").name)
    with pytest.raises(ServiceUnavailable):
        bench.sweep()
    assert "send-email" in texts(bench)
    assert "capture" not in texts(bench)
    bench.swept()
    assert "capture" in texts(bench)


def test_a_receive_that_fails_leaves_what_was_seen_before_told(bench: Bench) -> None:
    for _ in range(10):
        bench.die("send-email")
    name = bench.parking("send-email").name
    calls = iter([False, True])
    receive = bench.sqs.receive_now

    def fails_second(*args: Any) -> Any:
        if args[0] == name and next(calls):
            raise DOWN
        return receive(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.sqs, "receive_now", fails_second)
        with pytest.raises(ServiceUnavailable):
            bench.sweep()
    assert "10 new dead letters" in texts(bench)
    assert bench.visible() == 10


def test_what_could_not_be_given_back_shows_again_by_itself(bench: Bench) -> None:
    bench.die("send-email")
    bench.sqs.faults.fail_entries("change_visibility")
    bench.swept()
    assert bench.visible() == 0
    bench.clock.advance(HOLD)
    assert bench.visible() == 1


def test_while_sns_is_down_nothing_counts_as_told(bench: Bench) -> None:
    bench.die("capture")
    bench.die("send-email")
    bench.topic.fail(DOWN, times=2)
    with pytest.raises(ServiceUnavailable):
        bench.sweep()
    assert bench.swept().told == 2
    assert bench.counted.total() == 2, "counted by the first, and not again"


def test_without_the_table_nobody_is_told_again_and_again(bench: Bench) -> None:
    bench.die("send-email")
    bench.table.faults.raise_on("query", DOWN)
    with pytest.raises(ServiceUnavailable):
        bench.sweep()
    assert bench.topic.published == []
    assert bench.swept().told == 1


def test_an_empty_queue_costs_one_request(bench: Bench) -> None:
    bench.swept()
    assert Counter(call.action for call in bench.sqs.calls) == {"depth": len(bench.plan.queues)}
