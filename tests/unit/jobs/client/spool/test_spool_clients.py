"""``Client(app, spool=...)`` and ``AsyncClient(app, spool=...)`` as a submitter sees them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from headgate import Backoff, Client, Priority, Spool, Unique
from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.policy import Answer
from headgate.jobs.core.batcher import Pacing
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import JobSpooled, JobSubmitted
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.errors import (
    AccessDenied,
    CredentialsMissing,
    QueueMissing,
    ServiceUnavailable,
    SettingsInvalid,
    SpoolCorrupt,
    SpoolError,
    SpoolFull,
    Throttled,
    TransportError,
)
from headgate.jobs.messages.envelope import Options, parse
from headgate.jobs.messages.job_options import JobKeep, StepsBackoff
from headgate.jobs.records.items import asked_partition
from tests.support.backends import over
from tests.support.clients import Kind
from tests.support.journal import until
from tests.support.spool_bench import CRITICAL, EMAIL, NORMAL, Bench, Email

OUTAGES = [ServiceUnavailable("no connection"), Throttled("slow down")]
OTHERS = [AccessDenied("no"), CredentialsMissing("none"), QueueMissing(NORMAL)]


@pytest.fixture
def bench(kind: Kind, tmp_path: Path) -> Bench:
    return Bench(tmp_path, kind)


async def looked_at(bench: Bench, look: Callable[[Any], Any]) -> Any:
    file = await asyncio.to_thread(bench.open)
    try:
        return look(file)
    finally:
        file.close()


# --- during an outage ----------------------------------------------------------------------------


@pytest.mark.parametrize("error", OUTAGES, ids=lambda error: type(error).__name__)
async def test_while_sqs_is_away_a_job_is_in_the_file_when_submit_returns(
    bench: Bench, error: TransportError
) -> None:
    bench.cut(error)
    client = bench.client()
    handle = await client.submit(bench.email, EMAIL)
    assert handle.type == "send-email"
    assert await looked_at(bench, lambda file: (file.waits(NORMAL), file.totals()[0])) == (True, 1)
    [event] = bench.told(JobSpooled)
    assert (event.job_id, event.reason, event.waiting) == (handle.id, str(error), 1)
    assert bench.told(JobSubmitted) == []
    bench.heal()
    await client.close()
    assert bench.sent() == [handle.id]
    assert [told.job_id for told in bench.told(JobSubmitted)] == [handle.id]


async def test_a_job_keeps_its_own_backoff_and_retention_in_the_file(bench: Bench) -> None:
    bench.cut()
    client = bench.client()
    await client.submit(bench.email, EMAIL, backoff=Backoff.fixed(10), keep=60)
    bench.heal()
    await client.close()
    [message] = bench.sqs.messages(NORMAL)
    assert parse(message.body).options == Options(
        backoff=StepsBackoff(kind="steps", delays_s=(10,)), keep=JobKeep(completed_s=60)
    )


@pytest.mark.parametrize("error", OTHERS, ids=lambda error: type(error).__name__)
async def test_a_permanent_error_is_raised_and_nothing_is_spooled(
    bench: Bench, error: TransportError
) -> None:
    bench.cut(error)
    client = bench.client()
    with pytest.raises(type(error)):
        await client.submit(bench.email, EMAIL)
    await client.close()
    assert await looked_at(bench, lambda file: file.totals()) == (0, 0)


async def test_an_entry_failed_by_sqs_is_spooled_and_an_invalid_one_refused(
    bench: Bench,
) -> None:
    client = bench.client()
    bench.sqs.faults.fail_entries("send", indexes=[0], times=4)
    kept = await client.submit(bench.email, EMAIL)
    assert [event.job_id for event in bench.told(JobSpooled)] == [kept.id]
    bench.heal()
    await client.close()
    assert bench.sent() == [kept.id]
    bench.sqs.faults.fail_entries("send", sender_fault=True)
    with pytest.raises(TransportError, match="did not take the job"):
        await client.submit(bench.email, EMAIL)
    await client.close()


async def test_new_jobs_of_a_spooled_queue_go_behind_the_waiting_ones(
    bench: Bench,
) -> None:
    client = bench.client()
    bench.sqs.faults.raise_on("send", OUTAGES[0], queue=NORMAL, times=1_000_000)
    first = await client.submit(bench.email, EMAIL)
    asked = sum(call.queue == NORMAL for call in bench.sqs.calls)
    later = [await client.submit(bench.email, EMAIL) for _ in range(3)]
    urgent = await client.submit(bench.email, EMAIL, priority=Priority.CRITICAL)
    assert bench.sent(CRITICAL) == [urgent.id]
    bench.heal()
    await client.close()
    assert asked
    assert bench.sent() == [first.id, *(handle.id for handle in later)]


async def test_a_job_behind_a_refused_one_of_its_group_is_told_to_wait_for_the_next_opening(
    bench: Bench,
) -> None:
    client = bench.client()
    bench.cut()
    await client.submit(bench.order, EMAIL, group="g")

    def refuse(file: SpoolFile) -> bool:
        if (claim := file.claim()) is None:
            return False
        file.settle(claim, Answer(refused=((claim.jobs[0], "not wanted"),)))
        return True

    while not await looked_at(bench, refuse):
        pass  # the client's own pass is under way
    await client.submit(bench.order, EMAIL, group="g")
    await client.submit(bench.order, EMAIL, group="other")
    _, behind, other = bench.told(JobSpooled)
    assert behind.reason.startswith("SQS refused one before it in its group: both are tried again")
    assert other.reason == "others of its queue wait before it"
    await client.close()


async def test_what_sqs_took_of_many_is_told_and_the_rest_is_kept_in_order(bench: Bench) -> None:
    send, sends = bench.sqs.send_now, iter(range(1_000))

    def first_only(queue: str, messages: Any) -> Any:
        if next(sends) >= 1:
            raise OUTAGES[0]
        return send(queue, messages)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.sqs, "send_now", first_only)
        client = bench.client()
        handles = await client.submit_many(bench.email, [EMAIL] * 23)
        assert len(bench.told(JobSpooled)) == 13
        await client.close()
    closer = bench.client()
    await closer.submit_many(bench.email, [EMAIL])
    await closer.close()
    assert bench.sent()[:23] == [handle.id for handle in handles]


async def test_a_full_file_is_an_error_that_says_why_sqs_did_not_take_the_job(
    bench: Bench,
) -> None:
    bench.spool = Spool(bench.spool.path, max_jobs=1)
    bench.cut(OUTAGES[0])
    client = bench.client()
    with pytest.raises(SpoolFull, match="may hold 1") as raised:
        await client.submit_many(bench.email, [EMAIL] * 2)
    assert raised.value.__cause__ is OUTAGES[0]
    await client.submit(bench.email, EMAIL)
    with pytest.raises(SpoolFull) as raised:  # SQS was not called for this one
        await client.submit(bench.email, EMAIL)
    assert raised.value.__cause__ is OUTAGES[0]
    bench.heal()
    await client.close()
    assert len(bench.sent()) == 1


async def test_a_file_that_cannot_keep_a_job_is_an_error_with_both_reasons(bench: Bench) -> None:
    bench.cut(OUTAGES[0])
    client = bench.client()
    full = SpoolError(str(bench.spool.path), "can't be used: disk is full")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headgate.jobs.client.spool.file.SpoolFile.put", Mock(side_effect=full))
        patch.setattr("headgate.jobs.client.spool.file.SpoolFile.put_each", Mock(side_effect=full))
        with pytest.raises(SpoolError, match="disk is full") as raised:
            await client.submit(bench.email, EMAIL)
    assert raised.value.__cause__ is OUTAGES[0]
    assert bench.told(JobSpooled) == []
    await client.close()


# --- files that can't be used --------------------------------------------------------------------


def damage(bench: Bench) -> None:
    Path(bench.spool.path).write_bytes(b"x" * 4096)


async def test_a_damaged_file_is_an_error_of_the_first_submission(bench: Bench) -> None:
    damage(bench)
    client = bench.client()
    with pytest.raises(SpoolCorrupt, match=str(bench.spool.path)):
        await client.submit(bench.email, EMAIL)
    assert bench.sqs.calls == []
    await client.close()


async def test_a_damaged_file_is_an_error_of_the_with_statement(bench: Bench) -> None:
    damage(bench)
    with pytest.raises(SpoolCorrupt):
        async with bench.client():
            pass


def test_without_a_thread_to_send_from_it_the_file_takes_no_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)

    def none_left(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    backend = over(bench.sqs.sync, clock=bench.clock)
    with Client(bench.app, spool=bench.spool, backend=backend, events=bench.hub) as client:
        client.close()
        with monkeypatch.context() as limited:
            limited.setattr(threading.Thread, "start", none_left)
            with pytest.raises(SpoolError, match="can't be sent from: can't start new thread"):
                client.submit(bench.email, EMAIL)
        client.submit(bench.email, EMAIL)
    assert len(bench.sent()) == 1


def test_a_path_is_enough_and_making_a_client_touches_no_file(bench: Bench, tmp_path: Path) -> None:
    bench.client(spool=tmp_path / "a.spool")
    bench.client(spool=str(tmp_path / "a.spool"))
    assert list(tmp_path.iterdir()) == []


def test_spool_and_fallback_together_are_refused_when_the_client_is_made(
    bench: Bench,
) -> None:
    with pytest.raises(SettingsInvalid, match="exclude each other"):
        bench.client(fallback="inline")
    with pytest.raises(SettingsInvalid, match="'in-line'"):
        bench.client(spool=None, fallback="in-line")


# --- afterwards ----------------------------------------------------------------------------------


async def test_the_file_is_drained_in_the_background_once_sqs_is_back(bench: Bench) -> None:
    bench.cut()
    client = bench.client(clock=SystemClock())
    handles = [await client.submit(bench.email, EMAIL) for _ in range(15)]
    bench.heal()
    await until(lambda: len(bench.sent()) == 15)
    assert bench.sent() == [handle.id for handle in handles]
    await client.close()


async def test_another_job_that_sqs_takes_has_the_file_drained_at_once(bench: Bench) -> None:
    bench.sqs.faults.raise_on("send", OUTAGES[0], queue=NORMAL, times=1_000_000)
    client = bench.client()  # its clock stands still, so that no pause ever ends
    kept = await client.submit(bench.email, EMAIL)
    bench.heal()
    await client.submit(bench.email, EMAIL, priority=Priority.CRITICAL)
    await until(lambda: bench.sent() == [kept.id])
    await client.close()


async def test_what_an_earlier_process_has_left_is_sent_when_the_file_is_opened(
    bench: Bench,
) -> None:
    left = bench.submissions(3)
    await looked_at(bench, lambda file: file.put(left))
    client = bench.client()
    await client.submit(bench.email, EMAIL, priority=Priority.CRITICAL)
    await until(lambda: bench.sent() == [each.id for each in left])
    await client.close()


async def test_a_submission_is_written_down_when_sqs_has_taken_it_and_not_before(
    bench: Bench,
) -> None:
    bench.cut()
    client = bench.client()
    handle = await client.submit(bench.noted, EMAIL)
    assert await bench.table.get(asked_partition(handle.id), "submitted") is None
    bench.heal()
    await client.close()
    assert await bench.table.get(asked_partition(handle.id), "submitted") is not None


async def test_a_spooled_large_payload_goes_to_the_store_when_it_is_sent(
    bench: Bench,
) -> None:
    bench.cut()
    client = bench.client()
    big = [
        await client.submit(bench.email, Email(body=letter * MAX_MESSAGE_BYTES)) for letter in "ab"
    ]
    small = await client.submit(bench.email, EMAIL)
    bench.heal()
    await client.close()
    bodies = [parse(message.body) for message in bench.sqs.messages(NORMAL)]
    stored = {str(body.id) for body in bodies if body.payload_ref is not None}
    assert stored == {handle.id for handle in big}
    assert sorted(bench.sent()) == sorted([*stored, small.id])


async def test_of_spooled_unique_submissions_one_is_stored_and_all_get_its_handle(
    bench: Bench,
) -> None:
    bench.cut()
    client = bench.client()
    unique = Unique(within=timedelta(hours=1))
    first, second = [await client.submit(bench.email, EMAIL, unique=unique) for _ in range(2)]
    assert (second.id, second.is_duplicate) == (first.id, True)
    bench.heal()
    await client.close()
    assert bench.sent() == [first.id]


async def test_closing_during_an_outage_leaves_everything_in_the_file(bench: Bench) -> None:
    bench.cut()
    client = bench.client()
    await client.submit_many(bench.email, [EMAIL] * 3)
    await client.close()
    await client.close()
    assert await looked_at(bench, lambda file: file.totals()[0]) == 3


async def test_a_closed_client_opens_its_file_again_for_the_next_submission(bench: Bench) -> None:
    client = bench.client()
    await client.submit(bench.email, EMAIL)
    await client.close()
    bench.cut()
    await client.submit(bench.email, EMAIL)
    bench.heal()
    await client.close()
    assert len(bench.sent()) == 2


async def test_with_a_fallback_a_failed_request_is_not_repeated_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, "AsyncClient")

    def insisting(_tries: int, _rng: object) -> float:
        raise AssertionError("the transport has tried by itself")

    monkeypatch.setattr("headgate.jobs.core.batcher.pause_s", insisting)
    bench.cut()
    client = bench.client(pacing=Pacing())
    await client.submit(bench.email, EMAIL)
    assert len(bench.told(JobSpooled)) == 1
    await client.close()


async def test_an_async_client_closes_within_its_bound_while_sqs_hangs(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, "AsyncClient")
    left = bench.submissions(1)
    await looked_at(bench, lambda file: file.put(left))
    asked = asyncio.Event()

    async def hang(_queue: str, _messages: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.sqs, "send", hang)
        patch.setattr("headgate.jobs.client.spool.async_drainer.CLOSING_S", 0.05)
        async with bench.client():
            await asked.wait()
    file = bench.open()
    assert file.claim() is not None, "the lease was given back"
    file.close()


def test_a_client_that_closes_while_sqs_hangs_is_closed_within_its_bound(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with_left = bench.open()
    with_left.put(bench.submissions(1))
    with_left.close()
    asked, answer = threading.Event(), threading.Event()

    class Hanging:
        def send(self, _queue: str, _messages: Any) -> Any:
            asked.set()
            answer.wait()
            raise OUTAGES[0]

    before = {*threading.enumerate()}  # another test's may not have ended yet
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headgate.jobs.client.spool.drainer.CLOSING_S", 0.05)
        client = Client(
            bench.app,
            spool=bench.spool,
            events=bench.hub,
            backend=over(Hanging(), clock=bench.clock),
        )
        with client:
            asked.wait()
    left = {*threading.enumerate()} - before
    [thread] = [each for each in left if each.name == "headgate-spool"]
    answer.set()
    thread.join()


async def test_a_pass_that_breaks_is_logged_and_tried_again(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.cut()
    client = bench.client(clock=SystemClock())
    kept = await client.submit(bench.email, EMAIL)
    breaks = iter([RuntimeError("a fault of ours")])
    settle = "headgate.jobs.client.spool.file.SpoolFile.claim"

    def broken(*_args: Any, **_options: Any) -> Any:
        monkeypatch.undo()
        raise next(breaks)

    with caplog.at_level(logging.ERROR, logger="headgate.spool"):
        monkeypatch.setattr(settle, broken)
        bench.heal()
        await until(lambda: bench.sent() == [kept.id])
    assert "a fault of ours" in caplog.text
    await client.close()


async def test_without_events_of_its_own_a_client_with_a_spool_warns_in_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "of-no-concern"  # noqa: S105 - stands for a payload
    bench.cut()
    client = bench.client(events=None)
    handle = await client.submit(bench.email, Email(body=secret))
    await client.close()
    [line] = [each for each in caplog.records if "job.spooled" in each.getMessage()]
    assert line.levelno == logging.WARNING
    assert handle.id in line.getMessage()
    assert secret not in caplog.text


async def test_many_threads_and_one_outage_lose_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "Client")
    client = bench.client(clock=SystemClock())
    bench.cut()
    done = asyncio.gather(*(client.submit(bench.email, EMAIL) for _ in range(40)))
    await until(lambda: len(bench.told(JobSpooled)) >= 10)
    bench.heal()
    handles = await done
    await client.close()
    assert sorted(bench.sent()) == sorted(handle.id for handle in handles)


def test_an_error_of_the_disk_is_one_of_the_spools(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    file = bench.open()
    file.close()
    with pytest.raises(SpoolError, match="can't be used"):
        file.put(bench.submissions(1))
