"""Jobs that come one by one share requests, and start soon all the same."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headgate import App, Lane, Priority
from headgate.errors import ConfigurationError
from headgate.jobs.core.events import JobCompleted
from headgate.jobs.core.topology import QueueSpec
from tests.support.steady import LATENCY_S, steady
from tests.unit.workers.rig import Gate, Rig, without_threads

pytestmark = without_threads


@pytest.mark.parametrize(("rate", "most"), [(50, 1.6), (200, 1.3)])
async def test_steady_jobs_share_requests_and_start_within_100_ms(rate: float, most: float) -> None:
    load = await steady(rate)
    assert load.requests <= most
    assert load.pickup_s(Priority.NORMAL, 0.99) < 0.1


async def test_without_gathering_each_of_them_takes_three_requests() -> None:
    load = await steady(50, jobs=100, lane_gather=0)
    assert load.requests > 2.5


async def test_critical_jobs_start_at_once_beside_others_that_gather() -> None:
    load = await steady(100, priorities=(Priority.CRITICAL, Priority.NORMAL))
    requests_s = 4 * LATENCY_S  # a send and a receive, there and back
    assert load.pickup_s(Priority.CRITICAL, 0.9) <= requests_s + 1e-6


async def test_jobs_that_come_seldom_start_at_once() -> None:
    load = await steady(2, jobs=50)
    assert load.pickup_s(Priority.NORMAL, 0.8) <= 4 * LATENCY_S + 1e-6


async def test_a_client_that_gathers_sends_concurrent_submissions_together() -> None:
    load = await steady(200, client_gather=0.05)
    assert load.sends / load.jobs <= 0.15


@pytest.mark.parametrize("rate", [50, 200])
async def test_where_lane_and_client_gather_a_job_costs_little_more_than_one_of_a_backlog(
    rate: float,
) -> None:
    load = await steady(rate, jobs=1_000, lane_gather=1, client_gather=1)
    assert load.requests <= 0.45


async def test_one_slot_is_not_kept_waiting_by_deletes_that_linger() -> None:
    load = await steady(50, jobs=100, concurrency=1, runs_s=0.001)
    assert load.pickup_s(Priority.NORMAL, 0.99) < 0.1


async def test_a_worker_that_stops_sends_lingering_deletes_at_once() -> None:
    app, rig, gate = _gathering(gather=1.0)
    async with rig.working():
        await rig.submit(app.types["send"], "1", "2", "3")
        await gate.reached(3)
        gate.open("1", "2", "3")
        await rig.happens(JobCompleted, 3)
        assert rig.calls("delete") == 0
        stopping_at = asyncio.get_running_loop().time()
    assert rig.report is not None
    assert rig.report.clean
    assert rig.remaining() == 0
    assert asyncio.get_running_loop().time() - stopping_at <= 20 + 1e-6  # the poll's own wait


async def test_a_pause_ends_with_the_worker() -> None:
    app, rig, gate = _gathering(gather=5.0)
    gate.open("1")
    async with rig.working():
        await rig.submit(app.types["send"], "1")
        await rig.happens(JobCompleted)
        stopping_at = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - stopping_at < 1


def _gathering(gather: float) -> tuple[App, Rig, Gate]:
    """Return an app whose one lane gathers, with a rig, and the gate at which its jobs wait."""
    app, gate = App("shop", records="off"), Gate()
    lane = Lane(visibility=60, start_within=60, share=0.0, gather=gather)
    queue = app.queue("mail", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lane})
    queue.job("send")(gate.__call__)
    return app, Rig(app), gate


@pytest.mark.parametrize(
    ("priority", "fifo", "start_within", "gather_s"),
    [
        (Priority.NORMAL, False, 60, 0.05),
        (Priority.NORMAL, False, 0.02, 0.02),
        (Priority.NORMAL, False, 0, 0),
        (Priority.NORMAL, True, 60, 0),
        (Priority.CRITICAL, False, 60, 0),
    ],
)
def test_a_lane_gathers_for_50_ms_unless_its_jobs_are_in_a_hurry_or_in_order(
    priority: Priority, *, fifo: bool, start_within: float, gather_s: float
) -> None:
    assert _spec(priority, fifo=fifo, start_within=start_within).gather_s == gather_s


def _spec(priority: Priority, *, fifo: bool, start_within: float) -> QueueSpec:
    app = App("shop")
    lane = Lane(visibility=60, start_within=start_within, share=0.0)
    app.queue("mail", priorities=[priority], lanes={priority: lane}, fifo=fifo)
    return app.topology.queue("mail")


def test_a_fifo_queue_can_t_gather() -> None:
    lane = Lane(visibility=60, start_within=60, share=0.0, gather=0.05)
    with pytest.raises(ConfigurationError, match=r"'mail' is FIFO.*leave out the lane's gather="):
        App("shop").queue(
            "mail", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: lane}, fifo=True
        )


@pytest.mark.parametrize(
    ("start_within", "gather"), [(0, 0.01), (60, 6.1), (1, timedelta(seconds=2))]
)
def test_a_pause_longer_than_the_lane_s_other_numbers_allow_is_refused(
    start_within: float, gather: float | timedelta
) -> None:
    with pytest.raises(ConfigurationError, match="gather must lie between 0 and"):
        Lane(visibility=60, start_within=start_within, share=0.0, gather=gather)
