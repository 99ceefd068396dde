"""`jobs.client.spool.sending`, in threads and in an event loop: immediate sends and bookkeeping."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from unittest.mock import patch

import pytest

from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.flights import TASKS, THREADS
from headgate.jobs.client.spool.policy import Answer
from headgate.jobs.client.spool.sending import SpoolSending
from headgate.jobs.client.spool.shared_commits import SharedCommits
from headgate.jobs.client.spool.window import PARALLEL, ClaimWindow, Widths
from headgate.jobs.core.events import JobSpoolRefused, JobSubmitted, SpoolFailed
from headgate.jobs.core.immediate import drive, driven, immediate
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.errors import ServiceUnavailable, SpoolError, TransportError
from tests.support.spool_bench import FIFO, NORMAL, Bench, Email, ids

POISON = Email(body="poison")

Send = Callable[[str, Sequence[OutgoingMessage]], list[EntryFailure]]
Drain = Callable[[], Awaitable[bool]]


def plain(bench: Bench, file: SpoolFile, send: Send) -> Drain:
    sending = SpoolSending(file, immediate(send), lambda _: None, bench.clock, bench.hub, THREADS)

    async def drain() -> bool:
        return await asyncio.to_thread(driven(sending.drain))

    return drain


def on_a_loop(bench: Bench, file: SpoolFile, send: Send) -> Drain:
    async def sends(queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        return await asyncio.to_thread(send, queue, messages)

    return SpoolSending(file, sends, lambda _: None, bench.clock, bench.hub, TASKS).drain


both = pytest.mark.parametrize("make", [plain, on_a_loop], ids=["plain", "async"])
Make = Callable[[Bench, SpoolFile, Send], Drain]


# --- several requests at once --------------------------------------------------------------------


@both
async def test_once_a_request_went_well_several_are_under_way_at_once(
    bench: Bench, file: SpoolFile, make: Make
) -> None:
    jobs = bench.submissions(30)
    file.put(jobs)
    together = threading.Barrier(2)
    sent = bench.sqs.sync.send

    def send(queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        if bench.sent():
            together.wait(timeout=30)  # breaks unless two requests arrive together
        return sent(queue, messages)

    assert await make(bench, file, send)()
    assert Counter(bench.sent()) == Counter(ids(jobs))
    assert file.totals() == (0, 0)


@pytest.mark.parametrize("threads", [0, 1])
async def test_where_no_more_threads_can_start_all_is_sent_by_those_that_there_are(
    bench: Bench, file: SpoolFile, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    jobs = bench.submissions(60)
    file.put(jobs)
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if int(thread.name.removeprefix("headgate-spool-")) > threads:
            raise RuntimeError("can't start new thread")
        start(thread)

    drain = driven(
        SpoolSending(
            file,
            immediate(bench.sqs.sync.send),
            lambda _: None,
            bench.clock,
            bench.hub,
            THREADS,
        ).drain
    )
    monkeypatch.setattr(threading.Thread, "start", limited)
    assert drain()
    assert Counter(bench.sent()) == Counter(ids(jobs))
    assert file.totals() == (0, 0)


@both
async def test_an_outage_that_lasts_is_met_by_one_request(
    bench: Bench, file: SpoolFile, make: Make
) -> None:
    file.put(bench.submissions(200))
    bench.cut()
    drain = make(bench, file, bench.sqs.sync.send)
    assert not await drain()
    assert len(bench.sqs.calls) == 1


@both
async def test_requests_at_once_keep_the_order_of_each_group(
    bench: Bench, file: SpoolFile, make: Make
) -> None:
    jobs = [bench.submission(bench.order, group=f"g{index % 7}") for index in range(60)]
    file.put(jobs)
    sent, failing = bench.sqs.sync.send, iter([False, True] * 100)

    def send(queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        if next(failing):
            bench.sqs.faults.fail_entries("send", indexes=[0])
        return sent(queue, messages)

    drain = make(bench, file, send)
    while file.waits(FIFO):
        await drain()
    groups = {job.id: job.message.group for job in jobs}
    for group in set(groups.values()):
        of_group = [job_id for job_id in bench.sent(FIFO) if groups[job_id] == group]
        assert of_group == [job.id for job in jobs if groups[job.id] == group]


@both
async def test_entries_that_fail_among_others_are_sent_again_at_once(
    bench: Bench, file: SpoolFile, make: Make
) -> None:
    jobs = bench.submissions(60)
    file.put(jobs)
    bench.sqs.faults.fail_entries("send", indexes=[3], times=4)
    assert await make(bench, file, bench.sqs.sync.send)(), "no pause is due"
    assert Counter(bench.sent()) == Counter(ids(jobs))
    assert file.totals() == (0, 0)


def test_no_more_is_in_doubt_than_so_many_requests(bench: Bench, file: SpoolFile) -> None:
    file.put(bench.submissions(400))
    claim = file.claim(most=lambda _queue: 400)
    assert claim is not None
    window = ClaimWindow(claim)
    batches = [window.next_batch() for _ in range(PARALLEL)]
    assert all(batches)
    window.answered(batches[0], [])
    assert window.next_batch() == [], "its answer has not been noted yet"
    assert list(window.news().sent) == batches[0]
    assert window.next_batch()


def test_a_claim_of_large_messages_is_small(bench: Bench, file: SpoolFile) -> None:
    jobs = [bench.submission(payload=Email(body="x" * size)) for size in (9_000, 10, 10, 9_000)]
    file.put(jobs)
    claimed = []
    with patch("headgate.jobs.client.spool.file.MOST_BYTES", 5_000):
        while claim := file.claim(most=lambda _queue: 1_000):
            claimed.append([job.id for job in claim.jobs])
            file.settle(claim, Answer(sent=claim.jobs))
    first, *few, last = ids(jobs)
    assert claimed == [[first], few, [last]]


def test_no_request_begins_when_half_of_the_lease_is_over(bench: Bench, file: SpoolFile) -> None:
    file.put(bench.submissions(30))
    claim = file.claim(most=lambda _queue: 30)
    assert claim is not None
    sending = bench.sending(file, parallel=1)

    def slow(queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        bench.clock.advance(bench.spool.lease / 4)
        return bench.sqs.sync.send(queue, messages)

    with patch.object(sending, "_send", immediate(slow)):
        assert drive(sending._send_claim(claim)) is None
    assert len(bench.sent()) == 20
    assert file.totals()[0] == 10
    assert drive(sending.drain()), "by a new lease"
    assert len(bench.sent()) == 30


# --- bookkeeping ---------------------------------------------------------------------------------


@both
async def test_what_was_sent_before_the_disk_was_full_is_not_sent_again(
    bench: Bench, file: SpoolFile, make: Make
) -> None:
    jobs = bench.submissions(15)
    file.put(jobs)
    drain = make(bench, file, bench.sqs.sync.send)
    with full_disk(file):
        for _ in range(3):
            with pytest.raises(SpoolError):
                await drain()
            bench.clock.advance(2 * bench.spool.lease)
    assert bench.sent() == ids(jobs[:10])
    assert bench.told(JobSubmitted) == []
    assert await drain()
    assert Counter(bench.sent()) == Counter(ids(jobs))
    assert Counter(event.job_id for event in bench.told(JobSubmitted)) == Counter(ids(jobs))
    assert file.totals() == (0, 0)


@both
async def test_nobody_else_sends_what_one_knows_to_be_sent_until_it_ends(
    bench: Bench, make: Make
) -> None:
    first, other = bench.open(), bench.open()
    jobs = bench.submissions(5)
    first.put(jobs)
    drain = make(bench, first, bench.sqs.sync.send)
    with full_disk(first):
        with pytest.raises(SpoolError):
            await drain()
        bench.clock.advance(10 * bench.spool.lease)
    assert other.claim() is None
    first.close()
    assert other.claim() is not None, "it has ended, and what it knew with it"
    other.close()


def full_disk(file: SpoolFile) -> Any:
    """Return a patch by which the disk has no room to record what this file has sent."""
    write = SharedCommits.write

    def full(self: SharedCommits, act: Callable[..., Any]) -> Any:
        if self is file._commits and act.__name__ == "note":
            raise SpoolError("jobs.spool", "can't be used: database or disk is full")
        return write(self, act)

    return patch.object(SharedCommits, "write", full)


# --- a message that SQS refuses ------------------------------------------------------------------


def refusing(bench: Bench, *, all_of_them: bool = False) -> Send:
    """Return a ``send`` that refuses a whole request because of one message in it."""

    def send(queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        poisoned = any("poison" in message.body for message in messages)
        if poisoned or all_of_them:
            raise TransportError("AWS refused sqs:SendMessage: InvalidMessageContents: a character")
        return bench.sqs.sync.send(queue, messages)

    return send


@both
@pytest.mark.parametrize("bad", [1, 25])
async def test_messages_for_which_sqs_refuses_the_request_are_set_aside_alone(
    bench: Bench, file: SpoolFile, make: Make, bad: int
) -> None:
    poison, good = bench.submissions(bad, payload=POISON), bench.submissions(12)
    file.put([*poison, *good])
    drain = make(bench, file, refusing(bench))
    for _ in range(3):
        await drain()
    assert Counter(bench.sent()) == Counter(ids(good))
    refused = bench.told(JobSpoolRefused)
    assert Counter(event.job_id for event in refused) == Counter(ids(poison))
    assert "InvalidMessageContents" in refused[0].error
    assert not file.waits(NORMAL)
    assert file.totals()[0] == bad


@both
async def test_a_queue_that_refuses_everything_keeps_everything(
    bench: Bench, file: SpoolFile, make: Make
) -> None:
    file.put(bench.submissions(30))
    drain = make(bench, file, refusing(bench, all_of_them=True))
    for _ in range(8):
        assert not await drain()
    assert bench.told(JobSpoolRefused) == []
    assert len(bench.told(SpoolFailed)) == 8
    assert file.waits(NORMAL)


@both
async def test_a_transport_that_raises_anything_holds_up_only_what_it_raises_for(
    bench: Bench, file: SpoolFile, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    good = bench.submissions(4)
    file.put([bench.submission(payload=POISON), *good])

    def send(queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        if any("poison" in message.body for message in messages):
            raise ValueError("poison of ours")
        return bench.sqs.sync.send(queue, messages)

    assert await make(bench, file, send)()
    assert Counter(bench.sent()) == Counter(ids(good))
    [refused] = bench.told(JobSpoolRefused)
    assert refused.error == f"sending to {NORMAL!r} raised ValueError"
    assert "unexpected error while sending from the spool" in caplog.text


def test_claims_of_a_queue_grow_with_success_and_shrink_to_ten_on_failure(
    bench: Bench, file: SpoolFile
) -> None:
    file.put(bench.submissions(1))
    claim = file.claim()
    assert claim is not None
    widths, window = Widths(), ClaimWindow(claim)
    seen = []
    for error in (*[None] * 8, ServiceUnavailable("no connection")):
        seen.append(widths.of(NORMAL))
        widths.passed(NORMAL, window, error)
    assert seen == [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]
    assert widths.of(NORMAL) == 10
