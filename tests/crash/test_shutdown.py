"""Workers that are told to stop."""

from __future__ import annotations

import json
import signal

import pytest

from headgate.jobs.core.ports.transport import QueueDepth
from headgate.workers.process.exit_codes import EXIT_CLEAN, EXIT_UNFINISHED
from tests.support.proxy import Hold, Proxy
from tests.support.stage import Stage
from tests.support.workers import READY, STOPPING, Terminal


async def test_sigterm_in_mid_drain_loses_nothing_repeats_nothing_and_hides_nothing(
    stage: Stage,
) -> None:
    ids = await stage.submit("steady-slow", 100, seconds=0.1)
    ids += await stage.submit("steady-gated", 100)  # however late the signal is, some are left
    first = await stage.worker("steady", "--concurrency", "10")
    await stage.journal.until(lambda: stage.journal.count("done").total() >= 30)
    first.send(signal.SIGTERM)
    await first.logged(STOPPING)
    stage.open_gate()
    assert await first.ended() == EXIT_CLEAN
    finished = stage.journal.count("done")
    assert stage.journal.count("start") == finished
    assert finished.total() < len(ids)
    left = QueueDepth(visible=len(ids) - finished.total(), in_flight=0, delayed=0)
    assert await stage.depth("steady") == left

    await stage.worker("steady")
    await stage.empties("steady")
    assert stage.journal.count("done") == dict.fromkeys(ids, 1)
    assert stage.journal.count("start") == dict.fromkeys(ids, 1)


async def test_an_idle_worker_stops_when_its_long_poll_returns(stage: Stage) -> None:
    async with Proxy(stage.endpoint_url) as proxy:
        worker = await stage.worker("steady", endpoint_url=proxy.endpoint_url)
        # The first poll waits for nothing; the second one is long.
        await proxy.until(lambda: proxy.requests["ReceiveMessage"] >= 2)
        worker.send(signal.SIGTERM)
        await worker.logged(STOPPING)
        polls = proxy.requests["ReceiveMessage"]
        assert await worker.ended() == EXIT_CLEAN
        assert proxy.requests["ReceiveMessage"] == polls


@pytest.mark.parametrize("processes", [1, 2])
async def test_ctrl_c_in_a_terminal_waits_for_no_poll_of_over_a_second(
    stage: Stage, processes: int
) -> None:
    waits_s: list[int] = []

    def note(request: bytes) -> None:
        if b"AmazonSQS.ReceiveMessage" in request:
            waits_s.append(json.loads(request.partition(b"\r\n\r\n")[2])["WaitTimeSeconds"])

    async with Proxy(stage.endpoint_url, on_request=note) as proxy:
        # An address not known as this machine's: only the terminal matters.
        endpoint_url = proxy.endpoint_url.replace("127.0.0.1", "0.0.0.0")  # noqa: S104 - no listener
        with Terminal() as terminal:
            worker = await stage.worker(
                "steady",
                *("--processes", str(processes)),
                endpoint_url=endpoint_url,
                terminal=terminal,
            )
            await worker.logged(READY, times=processes)
            # The first poll of a process waits for nothing in any case.
            await proxy.until(lambda: len(waits_s) >= 3 * processes)
            terminal.press_ctrl_c()
            assert await worker.ended() == EXIT_CLEAN
    assert set(waits_s) == {0, 1}


async def test_what_the_last_poll_brings_goes_back_at_once(stage: Stage) -> None:
    async with Proxy(stage.endpoint_url) as proxy:
        late = Hold()
        proxy.inject(late, actions=["ReceiveMessage"], times=1)
        ids = await stage.submit("steady-quick", 3)
        worker = await stage.worker("steady", endpoint_url=proxy.endpoint_url)
        await proxy.until(lambda: proxy.forwarded["ReceiveMessage"] == 1)
        assert await stage.depth("steady") == QueueDepth(visible=0, in_flight=3, delayed=0)
        worker.send(signal.SIGTERM)
        await worker.logged(STOPPING)
        late.release.set()
        assert await worker.ended() == EXIT_CLEAN
    assert await stage.depth("steady") == QueueDepth(visible=len(ids), in_flight=0, delayed=0)
    assert stage.journal.entries() == []


@pytest.mark.parametrize(
    "again", [signal.SIGTERM, signal.SIGINT], ids=["sigterm twice", "ctrl-c after sigterm"]
)
async def test_a_second_signal_ends_jobs_at_once_and_shows_their_messages(
    stage: Stage, again: signal.Signals
) -> None:
    ids = await stage.submit("steady-slow", 5, seconds=120)
    worker = await stage.worker("steady", "--concurrency", "2", "--drain", "100s")
    await stage.journal.until(lambda: stage.journal.count("start").total() == 2)
    worker.send(signal.SIGTERM)
    await worker.logged(STOPPING)
    assert worker.alive
    worker.send(again)
    assert await worker.ended() == EXIT_CLEAN  # the limit is shorter than the jobs and the drain
    assert await stage.depth("steady") == QueueDepth(visible=len(ids), in_flight=0, delayed=0)
    assert stage.journal.count("cancelled") == stage.journal.count("start")
    assert not stage.journal.count("done")
    for job in stage.journal.count("start"):
        assert job in worker.log


async def test_a_second_signal_waits_for_no_poll_and_says_so(stage: Stage) -> None:
    async with Proxy(stage.endpoint_url) as proxy:
        proxy.inject(Hold(), actions=["ReceiveMessage"])
        worker = await stage.worker("steady", endpoint_url=proxy.endpoint_url)
        await proxy.until(lambda: proxy.requests["ReceiveMessage"] == 1)
        worker.send(signal.SIGTERM)
        await worker.logged(STOPPING)
        worker.send(signal.SIGTERM)
        assert await worker.ended() == EXIT_UNFINISHED
        assert "polls cut: 1" in worker.log


@pytest.mark.parametrize("behaviour", ["stubborn", "blocking"])
@pytest.mark.parametrize("how", ["drain is over", "second signal"])
async def test_a_handler_that_does_not_end_is_named_and_does_not_hold_the_exit(
    stage: Stage, behaviour: str, how: str
) -> None:
    [job] = await stage.submit(f"steady-{behaviour}", seconds=120)
    drain = "500ms" if how == "drain is over" else "100s"
    worker = await stage.worker("steady", "--concurrency", "1", "--drain", drain)
    await stage.journal.until(lambda: stage.journal.count("start")[job] == 1)
    worker.send(signal.SIGTERM)
    await worker.logged(STOPPING)
    if how == "second signal":
        worker.send(signal.SIGINT)
    assert await worker.ended() == EXIT_UNFINISHED
    assert f"stuck handlers: {job}" in worker.log
    assert await stage.depth("steady") == QueueDepth(visible=1, in_flight=0, delayed=0)
