"""Jobs that a function has no time for, jobs behind others, and a table that doesn't answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial

import pytest

from headgate import Backoff, Client, JobContext, Retry, RetryLater
from headgate.jobs.core.events import (
    JobCancelled,
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobFailed,
    JobQuarantined,
    JobStarted,
    RecordsWritten,
    SettlementFailed,
)
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.messages.envelope import parse
from tests.support.functions import Function, Note, function_of_mail, submitted

QUARANTINE = "shop-quarantine"

function_of = partial(
    function_of_mail, retry=Retry(max_attempts=3, backoff=Backoff.fixed(10)), visibility_s=60
)
"""Return a function whose one type runs that handler; see `function_of_mail`."""


def dead(deployed: Function) -> list[str]:
    dlq = deployed.app.topology.queues[-1].dlq_name
    return [each.attributes["JobId"] for each in deployed.messages(dlq)]


# --- no time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", ["outcomes", "off"])
def test_of_a_batch_that_is_much_too_large_every_job_runs_once(records: RecordsLevel) -> None:
    runs: Counter[str] = Counter()

    async def send(note: Note) -> None:
        await asyncio.sleep(0.02)
        runs[note.text] += 1

    options = {"concurrency": 1}
    with function_of(send, records=records, timeout_s=5, options=options) as deployed:
        submitted(deployed, *map(str, range(1000)))
        deployed.drain(batch=1000)
        assert deployed.messages(QUARANTINE) == []
        assert dead(deployed) == []
    assert len(runs) == 1000
    assert set(runs.values()) == {1}


def test_a_surplus_comes_back_about_as_fast_as_the_function_runs_jobs() -> None:
    async def send(_note: Note) -> None:
        await asyncio.sleep(1)

    with function_of(send, timeout_s=13, options={"concurrency": 1}) as deployed:
        submitted(deployed, *map(str, range(50)))
        deployed.invoke(batch=50)
        now = deployed.clock.now()
        away_s = sorted(
            (each.visible_at - now).total_seconds()
            for each in deployed.messages()
            if each.visible_at is not None
        )
    assert len(away_s) == 40, "it ran ten"
    assert away_s[0] <= 10
    assert 30 <= away_s[-1] <= 10 * 40 / 10 + 1
    assert sum(away_s) / 40 == pytest.approx(20, abs=10)


def test_a_handler_that_ignores_being_cancelled_has_killed_nobody() -> None:
    async def send(_note: Note) -> None:
        for _ in range(1000):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    with function_of(send, timeout_s=20) as deployed:
        [job_id] = submitted(deployed, "stubborn")
        for _ in range(8):
            deployed.clock.advance(200)
            deployed.invoke()
        assert deployed.heard(JobStarted) == deployed.heard(JobFailed) == 3
        assert deployed.heard(JobCrashed) == 0
        assert deployed.messages(QUARANTINE) == []
        assert dead(deployed) == [job_id]


@contextmanager
def worn(attempts: int, *, is_slow: bool = False) -> Iterator[tuple[Function, str]]:
    """Yield a function with two messages that can't be returned, and no time for the second.

    Args:
        attempts: number of the second's failed attempts. Its dead letter is refused meanwhile.
        is_slow: the table doesn't answer once when there is no time left.
    """
    is_worn = False

    async def send(note: Note) -> None:
        if note.text == "second":
            raise ConnectionError
        if not is_worn:
            raise RetryLater(after=timedelta(seconds=10))
        if is_slow and deployed.invocations == attempts + 1:
            deployed.table.faults.slow_down("query", by=5)
        await asyncio.sleep(100)

    with function_of(send, timeout_s=20, options={"concurrency": 1}) as deployed:
        queue = deployed.app.topology.queues[-1]
        _, second = submitted(deployed, "first", "second")
        deployed.sqs.faults.fail_entries("send", queue=queue.dlq_name, times=9)
        for _ in range(attempts):
            deployed.invoke()
            deployed.clock.advance(61)
        deployed.sqs.faults.clear()
        for _ in range(attempts, queue.worn_at - 1):  # in batches that have no time for them
            asyncio.run(deployed.sqs.receive(queue.name, limit=10, wait_s=0))
            deployed.clock.advance(61)
        is_worn = True
        deployed.invoke()
        yield deployed, second


def attempts_used(deployed: Function, job_id: str) -> int:
    """Return the attempts that a job's message carries."""
    envelopes = (parse(each.body) for each in deployed.messages())
    [found] = (each.attempts_used for each in envelopes if str(each.id) == job_id)
    return found


def test_what_a_function_sends_anew_keeps_the_attempts_that_were_made() -> None:
    with worn(attempts=1) as (deployed, job_id):
        assert attempts_used(deployed, job_id) == 1


def test_a_message_whose_history_can_not_be_read_is_not_sent_anew_without_it() -> None:
    with worn(attempts=1, is_slow=True) as (deployed, job_id):
        assert [each.receive_count for each in deployed.messages()] == [900, 0]
        assert attempts_used(deployed, job_id) == 0
        deployed.clock.advance(61)
        deployed.invoke()
        assert attempts_used(deployed, job_id) == 1


def test_what_has_no_attempts_left_is_parked_where_it_can_not_go_back() -> None:
    with worn(attempts=3) as (deployed, job_id):
        assert dead(deployed) == [job_id]


# --- FIFO ----------------------------------------------------------------------------------------


def test_failing_jobs_of_a_group_cost_those_behind_them_nothing() -> None:
    seen: list[tuple[str, int]] = []

    async def send(note: Note, ctx: JobContext) -> None:
        seen.append((note.text, ctx.attempt))
        if note.text.startswith("fails"):
            raise ConnectionError

    with function_of(send, fifo=True) as deployed:
        failing = submitted(deployed, *(f"fails {n}" for n in range(9)), group="one")
        submitted(deployed, "a", "b", "c", group="one")
        deployed.drain()
        assert dead(deployed) == failing
        assert deployed.messages(QUARANTINE) == []
    expected = [(f"fails {n}", attempt) for n in range(9) for attempt in (1, 2, 3)]
    assert seen == [*expected, ("a", 1), ("b", 1), ("c", 1)]


def test_a_group_that_has_no_time_comes_again_in_order() -> None:
    order: list[str] = []

    async def send(note: Note) -> None:
        await asyncio.sleep(2)
        order.append(note.text)

    with function_of(send, fifo=True, timeout_s=10) as deployed:
        submitted(deployed, *"abcdefghij", group="one")
        deployed.drain()
    assert order == [*"abcdefghij"]


# --- a table that doesn't answer -----------------------------------------------------------------


def hang(deployed: Function) -> None:
    deployed.table.faults.slow_down(None, by=100_000, times=1_000_000)


@pytest.mark.parametrize("timeout_s", [4.5, 5, 6, 7])
def test_a_silent_table_does_not_keep_a_short_function_from_its_jobs(
    timeout_s: float,
) -> None:
    async def send(_note: Note) -> None: ...

    with function_of(send, timeout_s=timeout_s) as deployed:
        hang(deployed)
        submitted(deployed, *"abcdefghij")
        assert deployed.invoke() == {"batchItemFailures": []}
        assert deployed.heard(JobCompleted) == 10


def test_a_table_that_does_not_answer_holds_no_function_for_long() -> None:
    async def send(note: Note) -> None:
        if note.text == "fails" and not deployed.heard(JobCompleted):
            raise ConnectionError

    with function_of(send, timeout_s=120, visibility_s=200) as deployed:
        hang(deployed)
        for _ in range(3):
            submitted(deployed, "a", "fails", "b")
            began_at = deployed.clock.monotonic()
            deployed.invoke()
            assert deployed.clock.monotonic() - began_at < 5
            deployed.clock.advance(12)
        assert deployed.heard(JobCompleted) >= 7


def test_a_table_that_does_not_answer_holds_no_job_that_has_to_be_claimed() -> None:
    runs: list[str] = []

    async def send(note: Note) -> None:
        runs.append(note.text)

    with function_of(send, timeout_s=120, visibility_s=200, once=True) as deployed:
        hang(deployed)
        submitted(deployed, "a", "b")
        began_at = deployed.clock.monotonic()
        deployed.invoke()
        assert deployed.clock.monotonic() - began_at < 6
        assert deployed.heard(JobDeferred) == 2
        deployed.table.faults.clear()
        deployed.drain()
    assert sorted(runs) == ["a", "b"]


def test_what_could_not_be_recorded_is_recorded_by_a_later_invocation() -> None:
    async def send(_note: Note) -> str:
        return "sent"

    with function_of(send) as deployed:
        hang(deployed)
        [job_id] = submitted(deployed, "a")
        deployed.invoke()
        deployed.table.faults.clear()
        deployed.clock.advance(60)
        submitted(deployed, "b")
        deployed.invoke()
        assert deployed.heard(RecordsWritten)
        with Client(
            deployed.app,
            backend=deployed.backend,
        ) as client:
            assert client.handle(job_id).result(timeout=1) == "sent"


def test_a_cancellation_that_is_read_late_ends_the_job_that_runs() -> None:
    ended: list[str] = []

    async def send(note: Note) -> None:
        await asyncio.sleep(10)
        ended.append(note.text)

    with function_of(send) as deployed:
        cancelled, _ = submitted(deployed, "cancelled", "other")
        with Client(
            deployed.app,
            backend=deployed.backend,
        ) as client:
            client.handle(cancelled).cancel()
        deployed.table.faults.slow_down("page", by=1.5)
        assert deployed.invoke() == {"batchItemFailures": []}
    assert ended == ["other"]
    assert deployed.heard(JobCancelled) == 1


# --- dead-letter queues that refuse --------------------------------------------------------------


def test_only_the_parking_is_tried_again_while_the_dead_letter_queue_refuses() -> None:
    async def send(_note: Note) -> None:
        raise ConnectionError

    with function_of(send) as deployed:
        [job_id] = submitted(deployed, "a")
        deployed.sqs.faults.fail_entries(
            "send",
            queue=deployed.app.topology.queues[-1].dlq_name,
            times=100_000,
            sender_fault=True,
        )
        for _ in range(30):
            deployed.invoke()
            deployed.clock.advance(61)
        assert deployed.heard(JobStarted) == 3
        assert deployed.heard(SettlementFailed) >= 27
        assert deployed.heard(JobDeadLettered) == 0
        deployed.sqs.faults.clear()
        deployed.drain()
        assert dead(deployed) == [job_id]
        assert deployed.heard(JobStarted) == 3
        assert deployed.heard(JobDeadLettered) == 1


def test_only_the_parking_is_tried_again_while_the_quarantine_refuses() -> None:
    async def send(_note: Note) -> None:
        await asyncio.sleep(2)
        await deployed.loop.die()

    with function_of(send) as deployed:
        submitted(deployed, "kills")
        deployed.sqs.faults.fail_entries("send", queue=QUARANTINE, times=100_000)
        for _ in range(10):
            deployed.invoke()
            deployed.clock.advance(61)
        assert deployed.deaths == 3
        deployed.sqs.faults.clear()
        deployed.drain()
        assert len(deployed.messages(QUARANTINE)) == 1
        assert deployed.deaths == 3
        assert deployed.heard(JobQuarantined) == 1


def test_a_letter_that_sqs_finds_fault_with_is_sent_without_its_details() -> None:
    async def send(_note: Note) -> None:
        raise ValueError("no")

    with function_of(send) as deployed:
        send_to, refused = deployed.sqs.send, 0

        async def choosy(queue: str, messages: list[OutgoingMessage]) -> list[EntryFailure]:
            nonlocal refused
            failures = [
                EntryFailure(index=at, code="Invalid", message="no", sender_fault=True)
                for at, each in enumerate(messages)
                if len(each.attributes) > 2
            ]
            refused += len(failures)
            return failures or await send_to(queue, messages)

        [job_id] = submitted(deployed, "a")
        deployed.sqs.send = choosy  # type: ignore[assignment,method-assign]
        deployed.drain()
        assert dead(deployed) == [job_id]
    assert refused == 1
