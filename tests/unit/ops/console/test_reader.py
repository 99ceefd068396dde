"""The reader that everybody shares."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from headgate.jobs.errors import ServiceUnavailable
from headgate.ops.console.reader import SharedReader
from headgate.testing import VirtualClock


class Asked:
    """Counts how often it is asked; answers with the count."""

    def __init__(self) -> None:
        self.times = 0
        self.fails = False

    def __call__(self) -> int:
        self.times += 1
        if self.fails:
            raise ServiceUnavailable("SQS is down")
        return self.times


def test_an_answer_serves_for_a_while_and_tells_its_age() -> None:
    clock, ask = VirtualClock(), Asked()
    reader = SharedReader(clock)
    assert [reader.read("queues", ask, fresh_s=5).value for _ in range(10)] == [1] * 10
    clock.advance(4)
    seen = reader.read("queues", ask, fresh_s=5)
    assert (seen.value, seen.age_s(clock.now())) == (1, 4)
    clock.advance(1)
    assert reader.read("queues", ask, fresh_s=5).value == 2


def test_a_failure_keeps_the_last_answer_and_is_not_asked_again_at_once() -> None:
    clock, ask = VirtualClock(), Asked()
    reader = SharedReader(clock)
    reader.read("queues", ask, fresh_s=5)
    ask.fails = True
    clock.advance(5)
    for _ in range(10):
        seen = reader.read("queues", ask, fresh_s=5)
        assert (seen.value, seen.fault, seen.age_s(clock.now())) == (1, "SQS is down", 5)
    assert ask.times == 2
    ask.fails = False
    clock.advance(5)
    assert reader.read("queues", ask, fresh_s=5).fault == ""


def test_many_who_look_at_once_ask_once() -> None:
    reader = SharedReader(VirtualClock())
    began, answer, calls = Event(), Event(), []

    def ask() -> int:
        calls.append(1)
        began.set()
        assert answer.wait(60)
        return 7

    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(reader.read, "queues", ask, fresh_s=5)
        assert began.wait(60)
        others = [threads.submit(reader.read, "queues", ask, fresh_s=5) for _ in range(7)]
        answer.set()
        assert [each.result().value for each in (first, *others)] == [7] * 8
    assert len(calls) == 1


def test_while_one_asks_again_the_others_get_the_answer_before() -> None:
    clock = VirtualClock()
    reader = SharedReader(clock)
    reader.read("queues", lambda: 1, fresh_s=5)
    clock.advance(5)
    began, answer = Event(), Event()

    def ask() -> int:
        began.set()
        assert answer.wait(60)
        return 2

    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(reader.read, "queues", ask, fresh_s=5)
        assert began.wait(60)
        assert reader.read("queues", ask, fresh_s=5).value == 1
        answer.set()
        assert asking.result().value == 2


def test_what_was_changed_is_asked_anew_and_little_is_kept() -> None:
    reader, ask = SharedReader(VirtualClock()), Asked()
    reader.read("queues", ask, fresh_s=5)
    reader.forget("queues", "never read")
    assert reader.read("queues", ask, fresh_s=5).value == 2
    for n in range(1_000):
        reader.read(n, Asked(), fresh_s=5)
    assert reader.peek("queues").value is None
    assert reader.peek(999).value == 1
