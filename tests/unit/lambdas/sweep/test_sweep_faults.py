"""A sweep that is cut off anywhere, or that AWS fails: nothing is lost, and people are notified."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import chain, repeat
from typing import Any

import pytest

from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.reading import read_letter
from headgate.jobs.deployment.sweep_plan import (
    BUDGET,
    EVERY,
    HOLD,
    SUMMARY_EVERY,
    TIMEOUT,
    ParkingQueue,
)
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.execution.outcome import Reason
from headgate.jobs.messages.outgoing import message_of
from headgate.lambdas.sweep import sweeper as sweeping
from headgate.lambdas.sweep.memory import SweepMemory
from headgate.lambdas.sweep.sweeper import LEASE, SAVED_BEFORE, Sweeper
from tests.support.sweep_bench import SECRET, SweepBench

DOWN = ServiceUnavailable("it is down")


@pytest.fixture
def bench() -> SweepBench:
    return SweepBench()


def test_a_sweep_leaves_another_that_is_under_way_alone(bench: SweepBench) -> None:
    bench.die("send-email")
    memory = SweepMemory(bench.table.sync, bench.clock)
    with memory.leased(TIMEOUT) as is_ours:
        assert is_ours
        assert bench.sweep() is None
    assert bench.texts() == ""
    assert bench.swept().told == 1


def test_a_lease_that_its_sweep_outlived_is_not_taken_from_the_next(bench: SweepBench) -> None:
    memory = SweepMemory(bench.table.sync, bench.clock)
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
                raise Killed  # nothing is done any more, not even cleaning up
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


def _cut(bench: SweepBench, deadly: Deadly) -> bool:
    """Run a sweep that is killed at a call; return False if it reached its end."""
    queues: Any = _Wrapped(bench.sqs.sync, deadly)
    table: Any = _Wrapped(bench.table.sync, deadly)
    store: Any = _Wrapped(bench.store.sync, deadly)
    topic: Any = _Wrapped(bench.topic, deadly)
    tickets: Any = _Wrapped(bench.tickets, deadly)
    sweeper = Sweeper(
        bench.plan,
        queues=queues,
        memory=SweepMemory(table, bench.clock, sleep=lambda _: None),
        store=store,
        topic=topic,
        tickets=tickets,
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


def _with_all_kinds() -> tuple[SweepBench, list[str]]:
    """Return a bench with a critical letter, two others, one of them expiring, and a killer."""
    bench = SweepBench()
    old = bench.die("send-email")
    bench.clock.advance(bench.parking("send-email").retention - SAVED_BEFORE + EVERY)
    return bench, [old, bench.die("capture"), bench.die("book"), bench.crash("send-email")]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_after_a_sweep_is_killed_at_any_call_the_next_one_reports_all(
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
        # A summary that was sent already may have to wait for its hour.
        bench.clock.advance(SUMMARY_EVERY)
        bench.swept()
        assert bench.everything() == everything
        assert bench.visible() == len(ids)
        for job_id in ids:
            assert job_id in bench.texts()
        assert len(bench.store.objects) == 1
        for count in bench.counted.values():
            assert count == 1, "counted once at most"


def test_what_a_killed_sweep_holds_shows_again_before_the_next_one() -> None:
    assert BUDGET < HOLD < EVERY
    assert BUDGET < TIMEOUT < LEASE < EVERY


def test_a_queue_that_cannot_be_asked_keeps_no_other_from_being_swept(bench: SweepBench) -> None:
    bench.die("capture")
    bench.die("send-email")
    bench.sqs.faults.raise_on("depth", DOWN, queue=bench.parking("capture").name)
    with pytest.raises(ServiceUnavailable):
        bench.sweep()
    assert "send-email" in bench.texts()
    assert "capture" not in bench.texts()
    bench.swept()
    assert "capture" in bench.texts()


def test_a_message_that_cannot_be_read_is_told_of_and_silences_no_other(
    bench: SweepBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(message: ReceivedMessage, queue: ParkingQueue) -> DeadLetter:
        if message.attributes.get("ErrorType") == "Strange":
            raise RuntimeError(SECRET)
        return read_letter(message, queue)

    monkeypatch.setattr(sweeping, "read_letter", read)
    bench.die("capture", error="Strange")
    bench.die("send-email")
    with pytest.raises(RuntimeError):
        bench.sweep()
    assert "send-email" in bench.texts()
    assert bench.counted.total() == 2
    assert Reason.UNREADABLE in {reason for _, _, reason in bench.counted}


def test_a_fault_in_one_queue_keeps_no_other_from_being_swept(bench: SweepBench) -> None:
    bench.die("capture")
    bench.die("send-email")
    fault = RuntimeError("nobody foresaw this")
    bench.sqs.faults.raise_on("depth", fault, queue=bench.parking("capture").name)
    with pytest.raises(RuntimeError):
        bench.sweep()
    assert "send-email" in bench.texts()


def test_a_count_of_thousands_of_digits_ends_no_sweep(bench: SweepBench) -> None:
    envelope = bench.envelope("capture")
    told = {"Attempts": "9" * 5_000, "Reason": "attempts-exhausted"}
    bench.send(bench.parking("capture").name, replace(message_of(envelope), attributes=told))
    bench.die("send-email")
    bench.swept()
    assert "capture" in bench.texts()
    assert "send-email" in bench.texts()


def test_a_receive_that_fails_leaves_what_was_seen_before_told(bench: SweepBench) -> None:
    for _ in range(10):
        bench.die("send-email")
    name = bench.parking("send-email").name
    calls = chain([False], repeat(True))
    receive = bench.sqs.receive_now

    def fails_second(*args: Any) -> Any:
        if args[0] == name and next(calls):
            raise DOWN
        return receive(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.sqs, "receive_now", fails_second)
        with pytest.raises(ServiceUnavailable):
            bench.sweep()
    assert "10 new dead letters" in bench.texts()
    assert bench.visible() == 10


def test_what_could_not_be_given_back_shows_again_by_itself(bench: SweepBench) -> None:
    bench.die("send-email")
    bench.sqs.faults.fail_entries("change_visibility")
    bench.swept()
    assert bench.visible() == 0
    bench.clock.advance(HOLD)
    assert bench.visible() == 1


def test_while_sns_is_down_nothing_counts_as_told(bench: SweepBench) -> None:
    bench.die("capture")
    bench.die("send-email")
    for topic in (bench.topic, bench.tickets):
        topic.fail(DOWN)
    with pytest.raises(ServiceUnavailable):
        bench.sweep()
    assert bench.swept().told == 2
    assert bench.counted.total() == 2, "counted by the first, and not again"


def test_without_the_table_nobody_is_told_again_and_again(bench: SweepBench) -> None:
    bench.die("send-email")
    bench.table.faults.raise_on("query", DOWN)
    with pytest.raises(ServiceUnavailable):
        bench.sweep()
    assert bench.texts() == ""
    assert bench.swept().told == 1


def test_an_empty_queue_costs_one_request(bench: SweepBench) -> None:
    bench.swept()
    assert Counter(call.action for call in bench.sqs.calls) == {"depth": len(bench.plan.queues)}
