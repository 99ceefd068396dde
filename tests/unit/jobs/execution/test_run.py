"""One delivery, and every way in which it may end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import (
    App,
    Backoff,
    Discard,
    DoNotRetry,
    JobContext,
    Priority,
    Retry,
    RetryLater,
    Tenant,
)
from headgate.jobs.core.events import (
    Event,
    Events,
    JobCancelled,
    JobCompleted,
    JobDiscarded,
    JobFailed,
    JobStalled,
    JobStarted,
)
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.definitions.app import DEFAULT_PARKING
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Cancelled, Done, Failed, Interrupted, Reason
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.actions import Ack, DeadLetter, Release, RetryAfter
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.messages.envelope import Envelope, Options
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.testing import LoopClock

pytestmark = pytest.mark.looptime

_START = datetime(2026, 1, 1, tzinfo=UTC)
_FIXED = Retry(max_attempts=3, backoff=Backoff.fixed(7))


class Note(BaseModel):
    text: str = ""


class _Bench:
    """An executor on the loop's clock, and its events."""

    def __init__(self, handler: Callable[..., Any], **options: Any) -> None:
        self.app = App("shop")
        self.app.job("work", **({"retry": _FIXED} | options))(handler)
        self.events: list[Event] = []
        self.executor = Executor(
            Means(
                app=self.app,
                clock=LoopClock(),
                events=Events(self.events.append),
                call_blocking=_call,
            )
        )

    def begin(self, *, receives: int = 1, body: str | None = None, **envelope: Any) -> Run:
        message = ReceivedMessage(
            message_id="message",
            receipt="receipt",
            body=body if body is not None else _body(**envelope),
            receive_count=receives,
            sent_at=_START,
        )
        queue = self.app.topology.queue("jobs", Priority.NORMAL)
        return Run(self.executor, Delivery(message=message, queue=queue, received_at=0.0))

    async def verdict(self, **arguments: Any) -> Verdict:
        async with asyncio.timeout(100_000):
            return await self.begin(**arguments).verdict()

    def names(self) -> list[str]:
        return [event.name for event in self.events]


async def _call(function: Callable[[], Any]) -> Any:
    """Call a function as a thread would, in virtual time: one iteration of the loop."""
    await asyncio.sleep(0)
    return function()


def _body(**changes: Any) -> str:
    fields: dict[str, Any] = {
        "v": 1,
        "id": new_job_id(_START),
        "type": "work",
        "payload": {},
        "queue": "jobs",
        "priority": Priority.NORMAL,
        "submitted_at": _START,
    }
    return Envelope(**(fields | changes)).to_body()


def _raising(error: BaseException) -> Callable[[Note], Awaitable[None]]:
    async def handler(_note: Note) -> None:
        raise error

    return handler


async def test_a_handler_that_returns_is_done() -> None:
    async def handler(_note: Note) -> str:
        await asyncio.sleep(3)
        return "result"

    bench = _Bench(handler)
    verdict = await bench.verdict()
    assert verdict.action == Ack()
    assert not verdict.aftermath(_START)
    assert bench.names() == ["job.started", "job.completed"]
    [completed] = [event for event in bench.events if isinstance(event, JobCompleted)]
    assert completed.ran_s == pytest.approx(3)


class _Odd(BaseException):
    """Neither an Exception nor an error that ends a process."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        TimeoutError("the handler's own"),
        SystemExit(3),
        asyncio.CancelledError("the handler's own"),
        StopIteration("none left"),
        StopAsyncIteration(),
        RecursionError(),
        MemoryError(),
        ExceptionGroup("several", [ValueError("a")]),
        _Odd("odd"),
        BaseExceptionGroup("several", [_Odd("odd")]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_handler_raises_is_a_failure_of_that_attempt(error: BaseException) -> None:
    bench = _Bench(_raising(error), retry=Retry(max_attempts=2, unknown="retry"))
    verdict = await bench.verdict(receives=2)
    assert isinstance(verdict.action, DeadLetter)
    [failed] = [event for event in bench.events if isinstance(event, JobFailed)]
    assert failed.attempt == 2
    assert failed.traceback
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_ctrl_c_in_a_handler_is_no_failure_of_the_job() -> None:
    async def handler(_note: Note) -> None:
        return None

    bench = _Bench(handler)
    bench.app.types["work"].require_handler().function = _interrupting
    coroutine = bench.begin().verdict()
    with pytest.raises(KeyboardInterrupt):
        coroutine.send(None)
    assert "job.failed" not in bench.names()


async def _interrupting(_note: Note) -> None:
    raise KeyboardInterrupt


async def test_a_failure_is_retried_and_reported_with_the_policys_delay() -> None:
    bench = _Bench(_raising(ConnectionError("refused")))
    verdict = await bench.verdict()
    assert verdict.action == RetryAfter(delay_s=7)
    assert bench.names() == ["job.started", "job.failed"]
    [event] = verdict.aftermath(_START)
    assert event.name == "job.retry_scheduled"


async def test_an_attempt_that_runs_past_its_timeout_is_cancelled_and_fails() -> None:
    async def handler(_note: Note) -> None:
        await asyncio.sleep(600)

    bench = _Bench(handler, timeout=timedelta(seconds=5))
    verdict = await bench.verdict()
    assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.1)
    assert verdict.action == RetryAfter(delay_s=7)
    [failed] = [event for event in bench.events if isinstance(event, JobFailed)]
    assert failed.error_type == "JobTimeout"
    assert failed.ran_s == pytest.approx(5)


async def test_a_timeout_error_of_the_handlers_own_is_not_taken_for_the_jobs() -> None:
    async def handler(_note: Note) -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(600)

    bench = _Bench(handler, timeout=timedelta(seconds=5))
    await bench.verdict()
    [failed] = [event for event in bench.events if isinstance(event, JobFailed)]
    assert failed.error_type == "TimeoutError"


async def test_a_handler_that_finishes_in_spite_of_its_timeout_is_done() -> None:
    async def handler(_note: Note) -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await asyncio.sleep(1)

    bench = _Bench(handler, timeout=timedelta(seconds=5))
    assert (await bench.verdict()).action == Ack()


async def test_signals_decide_what_becomes_of_the_job() -> None:
    later = _Bench(_raising(RetryLater(timedelta(seconds=1.5), "busy")))
    never = _Bench(_raising(DoNotRetry("closed")))
    discard = _Bench(_raising(Discard("done before")))
    assert (await later.verdict(receives=5)).action == Release(delay_s=2)
    dead = (await never.verdict()).action
    assert isinstance(dead, DeadLetter)
    assert dead.reason == "do-not-retry"
    assert (await discard.verdict()).action == Ack()
    assert [type(event) for event in discard.events] == [JobStarted, JobDiscarded]
    assert later.names() == ["job.started"]


async def test_a_run_interrupted_before_its_start_never_calls_the_handler() -> None:
    bench = _Bench(_raising(AssertionError("it ran")))
    run = bench.begin()
    run.interrupt("the worker is stopping")
    verdict = await run.verdict()
    assert verdict.action == Release()
    assert bench.events == []


async def test_a_running_handler_is_cancelled_and_its_message_released() -> None:
    cleaned_up = asyncio.Event()

    async def handler(_note: Note, ctx: JobContext) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            assert ctx.cancelled
            await asyncio.sleep(1)
            cleaned_up.set()

    bench = _Bench(handler)
    run = bench.begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(1)
    running = [run.running]
    run.interrupt("the worker is stopping")
    run.interrupt("its receipt was lost")
    verdict = await task
    assert cleaned_up.is_set()
    assert [*running, run.running] == [True, False]
    assert verdict.action == Release()
    [event] = verdict.aftermath(_START)
    assert getattr(event, "reason", None) == "the worker is stopping"
    assert bench.names() == ["job.started"]


async def test_an_interruption_after_the_handlers_end_changes_nothing() -> None:
    asked = asyncio.Event()
    answer = asyncio.Event()

    async def backlog(_queue: str) -> int:
        asked.set()
        await answer.wait()
        return 0

    bench = _Bench(
        _raising(ConnectionError("refused")),
        retry=Retry(max_attempts=3, backoff=Backoff.adaptive(base=4, jitter=None)),
    )
    bench.executor.backlog = backlog
    run = bench.begin()
    task = asyncio.create_task(run.verdict())
    await asked.wait()
    run.interrupt("the worker is stopping", abandon=True)
    answer.set()
    assert (await task).action == RetryAfter(delay_s=4)


async def test_a_handler_that_swallows_cancellation_counts_by_its_outcome() -> None:
    async def returns(_note: Note) -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            return

    bench = _Bench(returns)
    run = bench.begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(1)
    run.interrupt("the worker is stopping")
    assert (await task).action == Ack()
    assert not task.cancelled()


async def test_a_run_cancelled_from_outside_ends_without_a_verdict() -> None:
    async def handler(_note: Note) -> None:
        await asyncio.sleep(600)

    bench = _Bench(handler)
    task = asyncio.create_task(bench.begin().verdict())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.names() == ["job.started"]


async def test_a_synchronous_handler_is_never_cut_off_and_its_late_result_counts() -> None:
    def handler(_note: Note, ctx: JobContext) -> bool:
        return ctx.cancelled

    bench = _Bench(handler, timeout=timedelta(seconds=5))

    async def slow_thread(function: Callable[[], Any]) -> Any:
        await asyncio.sleep(60)
        return function()

    bench.executor.means.call_blocking = slow_thread
    run = bench.begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(10)
    [stalled] = [event for event in bench.events if isinstance(event, JobStalled)]
    assert stalled.timeout_s == 5
    run.interrupt("the worker is stopping")
    assert (await task).action == Ack()


async def test_a_thread_that_is_abandoned_releases_its_message() -> None:
    def handler(_note: Note) -> None:
        return None

    bench = _Bench(handler)

    async def stuck_thread(_function: Callable[[], Any]) -> Any:
        await asyncio.Event().wait()

    bench.executor.means.call_blocking = stuck_thread
    run = bench.begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(1)
    run.interrupt("the worker is stopping", abandon=True)
    assert (await task).action == Release()


async def test_a_thread_that_overran_and_is_abandoned_has_timed_out() -> None:
    """Given back, it would hang the next worker as well, and the one after."""

    def handler(_note: Note) -> None:
        return None

    bench = _Bench(handler, timeout=timedelta(seconds=5), retry=Retry(max_attempts=1))

    async def stuck_thread(_function: Callable[[], Any]) -> Any:
        await asyncio.Event().wait()

    bench.executor.means.call_blocking = stuck_thread
    run = bench.begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(6)
    run.interrupt("the worker is stopping", abandon=True)
    action = (await task).action
    assert isinstance(action, DeadLetter)
    assert (action.reason, action.error_type) == (Reason.ATTEMPTS_EXHAUSTED, "JobTimeout")


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_an_attempt_without_more_time_fails_unless_its_job_is_cancelled(
    is_cancelled: bool,
) -> None:
    async def handler(_note: Note) -> None:
        await asyncio.sleep(600)

    bench = _Bench(handler)
    run = bench.begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(1)
    run.interrupt("there is no more", spent=True)
    if is_cancelled:
        run.cancel("no longer wanted")
    outcome = (await task).outcome
    assert isinstance(outcome, Cancelled if is_cancelled else Failed)


async def test_an_attempt_that_was_interrupted_before_is_not_out_of_time() -> None:
    async def handler(_note: Note) -> None:
        await asyncio.sleep(600)

    bench = _Bench(handler)
    run = bench.begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(1)
    run.interrupt("the worker is stopping")
    run.interrupt("there is no more", spent=True)
    assert (await task).outcome == Interrupted(reason="the worker is stopping")


async def test_a_synchronous_handler_that_raises_stop_iteration_fails() -> None:
    """No future can carry a StopIteration: whatever awaited the thread would never wake."""

    def handler(_note: Note) -> None:
        next(iter(()))

    bench = _Bench(handler, retry=Retry(max_attempts=1))
    assert isinstance((await bench.verdict()).action, DeadLetter)
    [failed] = [event for event in bench.events if isinstance(event, JobFailed)]
    assert "StopIteration" in failed.error_message


@pytest.mark.parametrize(
    ("used", "receives", "number"), [(0, 1, 1), (0, 3, 3), (4, 1, 5), (4, 2, 6)]
)
async def test_the_attempt_is_what_earlier_messages_used_plus_the_receives(
    used: int, receives: int, number: int
) -> None:
    seen: list[int] = []

    async def handler(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)

    verdict = await _Bench(handler).verdict(attempts_used=used, receives=receives)
    assert seen == [number]
    assert verdict.attempt.number == number


async def test_a_submissions_overrides_win_over_the_type() -> None:
    seen: list[JobContext] = []

    async def handler(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx)
        await asyncio.sleep(600)

    bench = _Bench(handler, timeout=timedelta(seconds=5))
    began = bench.executor.means.clock.now()
    verdict = await bench.verdict(
        options=Options(attempts=9, timeout_s=40), receives=8, tenant=Tenant(org="org-1")
    )
    assert verdict.action == RetryAfter(delay_s=7)
    assert asyncio.get_running_loop().time() == pytest.approx(40, abs=0.1)
    [ctx] = seen
    assert (ctx.max_attempts, ctx.attempt, ctx.tenant) == (9, 8, Tenant(org="org-1"))
    assert ctx.deadline - began == timedelta(seconds=40)


async def test_a_jobs_wait_counts_from_its_due_time_and_only_once() -> None:
    async def handler(_note: Note) -> None:
        return None

    bench = _Bench(handler)
    await asyncio.sleep(60)
    await bench.verdict()
    await bench.verdict(not_before=_START + timedelta(seconds=45))
    await bench.verdict(receives=2)
    await bench.verdict(submitted_at=_START + timedelta(days=1))
    waited = [event.waited_s for event in bench.events if isinstance(event, JobStarted)]
    assert waited == pytest.approx([60, 15, 0, 0], abs=0.1)


async def test_an_unreadable_message_is_parked_by_its_receives_alone() -> None:
    bench = _Bench(_raising(AssertionError("it ran")))
    early = await bench.verdict(body="hello", receives=1)
    late = await bench.verdict(body="hello", receives=DEFAULT_PARKING.max_attempts)
    assert early.action == RetryAfter(delay_s=10)
    assert isinstance(late.action, DeadLetter)
    assert late.action.reason == "unreadable"
    assert late.job_type == "unknown"
    assert bench.events == []


async def test_a_traceback_is_kept_within_bounds() -> None:
    async def handler(_note: Note) -> None:
        def deep(level: int) -> None:
            if not level:
                raise ValueError("x" * 20_000)
            deep(level - 1)

        deep(200)

    bench = _Bench(handler)
    await bench.verdict()
    [failed] = [event for event in bench.events if isinstance(event, JobFailed)]
    assert 0 < len(failed.traceback) <= 8_000


# --- cancellation --------------------------------------------------------------------------------


async def _never_ends(_note: Note) -> None:
    await asyncio.sleep(600)


async def _fails_when_cancelled(_note: Note) -> None:
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        raise ConnectionError("while cleaning up") from None


async def _defers_when_cancelled(_note: Note) -> None:
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        raise RetryLater(after=timedelta(minutes=1)) from None


@pytest.mark.parametrize("handler", [_never_ends, _fails_when_cancelled, _defers_when_cancelled])
async def test_a_cancelled_attempt_is_done_with_however_it_ends(
    handler: Callable[..., Any],
) -> None:
    bench = _Bench(handler)
    run = bench.begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(1)
    run.cancel("a mistake")
    verdict = await task
    assert (verdict.outcome, verdict.action) == (Cancelled(reason="a mistake"), Ack())
    [event] = verdict.aftermath(_START)
    assert isinstance(event, JobCancelled)
    assert (event.reason, event.attempt) == ("a mistake", 1)
    assert not task.cancelled()


async def test_a_run_cancelled_before_its_start_never_calls_the_handler() -> None:
    bench = _Bench(_raising(AssertionError("it ran")))
    run = bench.begin()
    run.cancel("a mistake")
    assert (await run.verdict()).outcome == Cancelled(reason="a mistake")
    assert bench.events == []


async def test_a_job_that_returns_although_it_was_cancelled_has_completed() -> None:
    async def returns(_note: Note) -> int:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(600)
        return 7

    run = _Bench(returns).begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(1)
    run.cancel("a mistake")
    assert (await task).outcome == Done(result=7)


async def test_a_cancelled_handler_is_not_disturbed_while_it_cleans_up() -> None:
    cleaned_up = asyncio.Event()

    async def handler(_note: Note) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(1)
            cleaned_up.set()

    run = _Bench(handler).begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(1)
    run.cancel("a mistake")
    await asyncio.sleep(0.5)
    run.cancel("another")
    run.interrupt("the worker is stopping")
    assert (await task).outcome == Cancelled(reason="a mistake")
    assert cleaned_up.is_set()


async def test_an_interrupted_job_that_is_cancelled_meanwhile_does_not_come_back() -> None:
    run = _Bench(_never_ends).begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(1)
    run.interrupt("the worker is stopping")
    run.cancel("a mistake")
    assert (await task).action == Ack()


async def test_a_synchronous_handler_that_checks_ends_when_it_is_cancelled() -> None:
    def handler(_note: Note, ctx: JobContext) -> None:
        ctx.raise_if_cancelled()

    bench = _Bench(handler)

    async def slow_thread(function: Callable[[], Any]) -> Any:
        await asyncio.sleep(60)
        return function()

    bench.executor.means.call_blocking = slow_thread
    run = bench.begin()
    task = asyncio.create_task(run.verdict())
    await asyncio.sleep(10)
    run.cancel("a mistake")
    assert (await task).outcome == Cancelled(reason="a mistake")
