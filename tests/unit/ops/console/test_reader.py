"""The reader that everybody shares."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from headgate.jobs.errors import ServiceUnavailable
from headgate.ops.console import reader as readers
from headgate.ops.console.reader import SharedReader, in_thread
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


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Looks begun in the background, which a test carries out itself."""
    looks: list[Callable[[], None]] = []
    monkeypatch.setattr(readers, "in_thread", lambda run, _name: looks.append(run))
    return looks


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


def test_an_old_answer_is_given_at_once_and_one_look_goes_on_behind_it(
    begun: list[Callable[[], None]],
) -> None:
    clock, ask = VirtualClock(), Asked()
    reader = SharedReader(clock)
    assert reader.read_behind("letters", ask, fresh_s=5, wait_first=True).value == 1
    assert begun == []
    clock.advance(3600)
    for _ in range(10):
        seen = reader.read_behind("letters", ask, fresh_s=5, wait_first=True)
        assert (seen.value, seen.renewing, seen.age_s(clock.now())) == (1, True, 3600)
    [look] = begun
    look()
    seen = reader.read_behind("letters", ask, fresh_s=5, wait_first=True)
    assert (seen.value, seen.renewing, seen.age_s(clock.now())) == (2, False, 0)


def test_what_nobody_waits_for_has_no_answer_at_first(begun: list[Callable[[], None]]) -> None:
    reader, ask = SharedReader(VirtualClock()), Asked()
    seen = reader.read_behind("counts", ask, fresh_s=5, wait_first=False)
    assert (seen.value, seen.renewing, ask.times) == (None, True, 0)
    begun.pop()()
    assert reader.read_behind("counts", ask, fresh_s=5, wait_first=False).value == 1


def test_a_look_behind_an_answer_that_fails_is_told_and_made_again_later(
    begun: list[Callable[[], None]], caplog: pytest.LogCaptureFixture
) -> None:
    clock, ask = VirtualClock(), Asked()
    reader = SharedReader(clock)

    def broken() -> int:
        raise RuntimeError("a fault of ours")

    for asked, said in ((ask, "SQS is down"), (broken, "its log has the traceback")):
        ask.fails = True
        reader.read_behind("counts", asked, fresh_s=5, wait_first=False)
        begun.pop()()
        seen = reader.read_behind("counts", asked, fresh_s=5, wait_first=False)
        assert said in seen.fault
        assert not seen.renewing
        clock.advance(5)
    assert "a fault of ours" in caplog.text
    ask.fails = False
    reader.read_behind("counts", ask, fresh_s=5, wait_first=False)
    begun.pop()()
    assert reader.read_behind("counts", ask, fresh_s=5, wait_first=False).fault == ""


def test_what_is_begun_in_the_background_goes_on_in_a_thread_of_its_own() -> None:
    may_end, ended = Event(), Event()

    def look() -> None:
        assert may_end.wait(60)
        ended.set()

    in_thread(look, "a look")
    may_end.set()
    assert ended.wait(60)


def test_questions_that_nobody_looks_at_any_more_are_not_in_use() -> None:
    clock, ask = VirtualClock(), Asked()
    reader = SharedReader(clock)
    for key in (("jobs", 1), ("jobs", 2), ("dead", 1), "jobs"):
        reader.read(key, ask, fresh_s=5)
    assert (reader.in_use("jobs"), reader.in_use("dead")) == (2, 1)
    clock.advance(59)
    reader.read(("jobs", 1), ask, fresh_s=500)
    clock.advance(2)
    assert (reader.in_use("jobs"), reader.in_use("dead")) == (1, 0)
