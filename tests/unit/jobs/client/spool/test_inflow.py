"""`jobs.client.spool.inflow`: submitters do not fill a spool that is being drained."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from unittest.mock import patch

import pytest

from headgate import AsyncClient, Client
from headgate.jobs.client.spool.inflow import Inflow
from headgate.jobs.client.spool.policy import Answer, SpooledJob
from headgate.jobs.core.batcher import Pacing
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.errors import ServiceUnavailable
from tests.support.backends import async_over, over
from tests.support.spool_bench import EMAIL, NORMAL, Bench


def sent(count: int) -> Answer:
    return Answer(sent=(SpooledJob(id="any", message=OutgoingMessage(body="")),) * count)


def test_while_nothing_is_sent_everything_is_admitted() -> None:
    inflow = Inflow()
    for _ in range(1_000):
        assert inflow.admits(NORMAL)
        inflow.came(NORMAL, 10)


def test_one_job_may_come_in_for_two_that_leave() -> None:
    inflow, came = Inflow(), 0
    for _ in range(100):
        inflow.noted(NORMAL, sent(20))
        while inflow.admits(NORMAL):
            inflow.came(NORMAL, 1)
            came += 1
    assert came == 1_000


def test_only_the_queue_that_is_sent_from_holds_submissions_back() -> None:
    inflow = Inflow()
    inflow.noted(NORMAL, sent(10))
    inflow.came(NORMAL, 6)
    assert not inflow.admits(NORMAL)
    assert inflow.admits("another")


@pytest.mark.parametrize("how", ["it fails", "all has been sent"])
def test_nobody_waits_when_no_more_is_sent(how: str) -> None:
    inflow = Inflow()
    inflow.noted(NORMAL, sent(10))
    inflow.came(NORMAL, 100)
    assert not inflow.admits(NORMAL)
    if how == "it fails":
        inflow.noted(NORMAL, Answer(error=ServiceUnavailable("no connection")))
    else:
        inflow.ended()
    assert inflow.admits(NORMAL)


class Gate:
    """An SQS whose requests each wait until they are let through."""

    def __init__(self, bench: Bench) -> None:
        self._send = bench.sqs.sync.send
        self.asked = threading.Semaphore(0)
        self.through = threading.Semaphore(0)

    def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        self.asked.release()
        self.through.acquire()
        return self._send(queue, messages)


@pytest.fixture
def long_patience() -> Iterator[None]:
    with (
        patch("headgate.jobs.client.spool.drainer.LONGEST_S", 600),
        patch("headgate.jobs.client.spool.async_drainer.LONGEST_S", 600),
    ):
        yield


def leave(bench: Bench, jobs: int) -> None:
    file = bench.open()
    file.put(bench.submissions(jobs))
    file.close()


@pytest.mark.usefixtures("long_patience")
def test_a_submission_waits_until_enough_spooled_jobs_have_left(
    bench: Bench,
) -> None:
    leave(bench, 30)
    gate = Gate(bench)
    client = Client(
        bench.app, events=bench.hub, spool=bench.spool, backend=over(gate, clock=bench.clock)
    )
    with client:
        gate.through.release()  # ten jobs: credit for five
        gate.asked.acquire()
        gate.asked.acquire()  # so the answer to the first has been recorded
        client.submit_many(bench.email, [EMAIL] * 6)
        late = threading.Thread(target=client.submit, args=[bench.email, EMAIL])
        late.start()
        late.join(0.05)
        assert late.is_alive()
        gate.through.release(100)
        late.join(30)
        assert not late.is_alive()
    assert len(bench.sent()) == 37


@pytest.mark.usefixtures("long_patience")
async def test_on_a_loop_a_submission_waits_likewise(bench: Bench) -> None:
    leave(bench, 30)
    asked, through = asyncio.Semaphore(0), asyncio.Semaphore(0)
    send = bench.sqs.send

    async def gated(queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        asked.release()
        await through.acquire()
        return await send(queue, messages)

    client = AsyncClient(
        bench.app,
        events=bench.hub,
        spool=bench.spool,
        backend=async_over(bench.sqs, clock=bench.clock, pacing=Pacing(tries=1)),
    )
    with patch.object(bench.sqs, "send", gated):
        async with client:
            through.release()
            await asked.acquire()
            await asked.acquire()
            await client.submit_many(bench.email, [EMAIL] * 6)
            late = asyncio.create_task(client.submit(bench.email, EMAIL))
            await asyncio.sleep(0.05)
            assert not late.done()
            for _ in range(100):
                through.release()
            await late
    assert len(bench.sent()) == 37
