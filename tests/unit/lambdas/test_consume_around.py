"""Code around attempts, and their sessions, in a function that cancels jobs or runs out of time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from headgate import App, JobContext, Priority
from headgate.events import JobCancelled, JobCompleted, JobFailed, JobInterrupted
from headgate.testing import MessageState
from tests.unit.lambdas.test_consume import Countdown, Function, Note, _client_of, _closed
from tests.unit.workers.running.test_around import Session, Told

ENDED = ["pool", "open", "close CancelledError", "around CancelledError"]
"""The steps around a job whose handler is cancelled."""


class Surrounded(Function):
    """A function whose jobs have a session each, and an around that swallows what it can."""

    def __init__(self, told: Told, *, leaving: Callable[[], Any] | None = None) -> None:
        app = App("shop")
        self.mail = app.queue("mail", priorities=[Priority.NORMAL])
        self.told = told

        @app.around
        async def greedy() -> AsyncIterator[None]:
            try:
                yield
            except BaseException as error:  # noqa: BLE001 - what no around should do
                told.append(f"around {type(error).__name__}")
            finally:
                if leaving is not None:
                    await leaving()

        told.scope(app)
        super().__init__(app)

    def runs(self, handler: Callable[..., Any], context: Any, *, jobs: int = 1) -> int:
        """Run jobs with this handler; return the number of those that stay in the queue."""
        job = self.mail.job("send")(handler)
        with _closed(self):
            self.submit(job, *map(str, range(jobs)))
            answer = self.invoke(context)
            assert context.get_remaining_time_in_millis() > 0
        return len(answer["batchItemFailures"])

    @property
    def left(self) -> list[MessageState]:
        return [message.state for message in self.messages()]


async def endless(_note: Note, _session: Session) -> None:
    await asyncio.Event().wait()


# --- the function's time is nearly up ------------------------------------------------------------


def test_what_is_around_a_job_is_left_before_its_function_s_time_is_up() -> None:
    function = Surrounded(Told())
    assert function.runs(endless, function.travel(60), jobs=2) == 2
    assert sorted(function.told) == sorted(["pool", *ENDED[1:] * 2])
    assert function.left == [MessageState.VISIBLE] * 2
    assert function.heard(JobInterrupted) == 2
    assert function.heard(JobCompleted) == 0


def test_an_around_that_takes_its_time_to_be_left_has_it() -> None:
    async def clean_up() -> None:
        await asyncio.sleep(0.9)  # until jobs are abandoned there is a second
        told.append("cleaned")

    told = Told()
    function = Surrounded(told, leaving=clean_up)
    assert function.runs(endless, function.travel(60)) == 1
    assert told == [*ENDED, "cleaned"]
    assert function.left == [MessageState.VISIBLE]
    assert function.heard(JobInterrupted) == 1


def test_an_around_that_hangs_when_it_is_left_does_not_hold_the_answer() -> None:
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            told.append("cut")

    told = Told()
    function = Surrounded(told, leaving=hang)
    assert function.runs(endless, function.travel(60)) == 1
    assert told == [*ENDED, "cut"]
    assert function.left == [MessageState.VISIBLE]
    assert function.heard(JobInterrupted) == 1


def test_an_around_that_ignores_every_cancellation_is_given_up_as_a_failure() -> None:
    async def ignore() -> None:
        for _ in range(5):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                told.append("ignored")

    told = Told()
    function = Surrounded(told, leaving=ignore)
    assert function.runs(endless, function.travel(60)) == 1
    assert told[:4] == ENDED
    assert "ignored" in told
    assert function.left == [MessageState.IN_FLIGHT], "shown at once it would run twice at a time"
    assert function.heard(JobFailed) == 1


@pytest.mark.parametrize(("commits_s", "is_done"), [(0.9, True), (1.5, False)])
def test_a_job_whose_handler_has_returned_commits_while_there_is_time(
    commits_s: float, is_done: bool
) -> None:
    async def send(_note: Note, _session: Session) -> None:
        await asyncio.sleep(60 - 3 - 0.01)  # just before jobs are interrupted

    async def commit() -> None:
        await asyncio.sleep(commits_s)
        told.append("committed")

    told = Told()
    function = Surrounded(told, leaving=commit)
    assert function.runs(send, function.travel(60)) == (0 if is_done else 1)
    assert told == ["pool", "open", "close", *(["committed"] if is_done else [])]
    assert function.left == ([] if is_done else [MessageState.VISIBLE])
    assert function.heard(JobCompleted) == is_done
    assert function.heard(JobInterrupted) == (not is_done)


def test_a_thread_that_goes_on_keeps_its_message_hidden_after_its_around() -> None:
    def send(_note: Note, _session: Session) -> None:
        loop.jump(58.1)  # time to abandon it
        let_go.wait(60)

    let_go = threading.Event()
    function = Surrounded(Told())
    loop = function.jumping()
    try:
        assert function.runs(send, Countdown(loop, 60)) == 1
    finally:
        let_go.set()
    assert function.told == ENDED
    assert function.left == [MessageState.IN_FLIGHT]
    assert function.heard(JobInterrupted) == 1


def test_a_thread_that_stops_on_request_leaves_all_its_arounds() -> None:
    def send(_note: Note, ctx: JobContext, _session: Session) -> None:
        loop.jump(57)  # time to interrupt it
        while True:
            ctx.raise_if_cancelled()
            pause.wait(0.001)

    pause, told = threading.Event(), Told()
    function = Surrounded(told)

    @function.app.around
    def greedy() -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - what no around should do
            told.append(f"thread {type(error).__name__}")

    loop = function.jumping()
    assert function.runs(send, Countdown(loop, 60)) == 1
    assert told == ["pool", "open", "thread Stopped", "close Stopped", "around Stopped"]
    assert function.left == [MessageState.VISIBLE]
    assert function.heard(JobInterrupted) == 1


# --- cancelled jobs ------------------------------------------------------------------------------


def test_a_job_that_is_cancelled_while_it_runs_leaves_what_is_around_it() -> None:
    function = Surrounded(Told())
    job = function.mail.job("send")(endless)
    with _closed(function), _client_of(function) as client:
        client.submit(job, Note()).cancel("a mistake")
        function.table.faults.slow_down("page", 1)  # so it is known once the job runs
        assert function.invoke(function.travel(60)) == {"batchItemFailures": []}
    assert function.told == ENDED
    assert function.left == []
    assert function.heard(JobCancelled) == 1


def test_around_a_job_that_was_cancelled_before_nothing_is_entered() -> None:
    function = Surrounded(Told())
    job = function.mail.job("send")(endless)
    with _closed(function), _client_of(function) as client:
        client.submit(job, Note()).cancel("a mistake")
        assert function.invoke(function.travel(60)) == {"batchItemFailures": []}
    assert function.told == ["pool"]
    assert function.heard(JobCancelled) == 1
