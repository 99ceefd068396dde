"""The reader that everybody shares."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from headgate.jobs.errors import ConfigurationError, ServiceUnavailable
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


class Hanging:
    """A question that AWS leaves open until a test lets it answer."""

    def __init__(self) -> None:
        self.answer = Event()
        self.times = 0
        self.error: Exception | None = None

    def __call__(self) -> int:
        self.times += 1
        assert self.answer.wait(60)
        if self.error is not None:
            raise self.error
        return 7

    def end(self) -> None:
        """Let it answer, and wait until the reader has that."""
        self.answer.set()
        for each in threading.enumerate():
            if each.name == "headgate-console-ask":
                each.join(60)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Hanging:
    """Such a question, while nobody has patience."""
    monkeypatch.setattr(readers, "PATIENCE_S", 0.0)
    return Hanging()


def test_an_answer_that_is_late_is_there_at_the_next_look(hanging: Hanging) -> None:
    reader = SharedReader(VirtualClock())
    for _ in range(3):
        seen = reader.read("queues", hanging, fresh_s=5)
        assert (seen.value, seen.at, seen.fault, seen.renewing) == (None, None, "", True)
    hanging.end()
    seen = reader.read("queues", hanging, fresh_s=5)
    assert (seen.value, seen.renewing, hanging.times) == (7, False, 1)


def test_while_a_newer_answer_is_late_the_one_before_is_shown(hanging: Hanging) -> None:
    clock = VirtualClock()
    reader = SharedReader(clock)
    reader.read_behind("queues", lambda: 1, fresh_s=5, wait_first=False)
    for each in threading.enumerate():
        if each.name == "headgate-console-look":
            each.join(60)
    clock.advance(5)
    seen = reader.read("queues", hanging, fresh_s=5)
    assert (seen.value, seen.renewing) == (1, True)
    hanging.end()


def test_a_fault_of_ours_that_nobody_waits_for_is_told_by_the_page_and_the_log(
    hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    reader = SharedReader(VirtualClock())
    hanging.error = RuntimeError("a fault of ours")
    assert reader.read("queues", hanging, fresh_s=5).renewing
    hanging.end()
    assert "its log has the traceback" in reader.read("queues", hanging, fresh_s=5).fault
    assert "a fault of ours" in caplog.text


def test_a_question_that_is_wrong_is_told_to_whoever_asks_it() -> None:
    def wrong() -> int:
        raise ConfigurationError("no such state")

    reader = SharedReader(VirtualClock())
    for _ in range(2):
        with pytest.raises(ConfigurationError):
            reader.read("jobs", wrong, fresh_s=5)


def test_no_more_is_asked_at_once_than_there_may_be_threads(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "_MOST_BEGUN", 2)
    reader = SharedReader(VirtualClock())
    seen = [reader.read(number, hanging, fresh_s=5) for number in range(3)]
    assert [bool(each.fault) for each in seen] == [False, False, True]
    hanging.end()
    assert reader.read(2, hanging, fresh_s=5).fault == ""
    hanging.end()


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
