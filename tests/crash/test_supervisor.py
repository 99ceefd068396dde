"""A supervisor of real processes: it keeps them running, and leaves none behind."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from aiohttp import web

from headgate.workers.process.exit_codes import EXIT_CLEAN, EXIT_CONFIGURATION, EXIT_UNFINISHED
from tests.support.journal import GENEROUS_S
from tests.support.supervised import DEAF, MISCONFIGURED, STEADY, STUBBORN, SupervisedWorkers


async def test_a_killed_process_is_replaced_and_the_others_go_on() -> None:
    async with SupervisedWorkers(3, STEADY) as workers:
        first, *others = await workers.hear("ready", 3)
        os.kill(first, signal.SIGKILL)
        await workers.hear("ready", 4)
        assert workers.alive
        assert workers.said("draining") == []
        os.kill(workers.pid, signal.SIGTERM)
        assert await workers.ended() == EXIT_CLEAN
        await workers.everyone_is_gone()
        assert set(others) < set(workers.said("drained"))
        assert len(workers.said("drained")) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_has_all_processes_drain_and_leaves_nobody(number: signal.Signals) -> None:
    async with SupervisedWorkers(3, STEADY) as workers:
        started = await workers.hear("ready", 3)
        os.kill(workers.pid, number)
        assert await workers.ended() == EXIT_CLEAN
        await workers.everyone_is_gone()
        assert sorted(workers.said("drained")) == sorted(started)


async def test_ctrl_c_in_a_terminal_is_one_signal_for_the_processes_not_two() -> None:
    async with SupervisedWorkers(2, STUBBORN) as workers:
        started = await workers.hear("ready", 2)
        os.killpg(os.getpgid(workers.pid), signal.SIGINT)  # as a terminal does
        await workers.hear("draining", 2)
        assert {os.getpgid(pid) for pid in started}.isdisjoint({os.getpgid(workers.pid)})
        assert workers.said(f"exits-{EXIT_UNFINISHED}") == []
        os.kill(workers.pid, signal.SIGTERM)
        assert await workers.ended() == EXIT_UNFINISHED


async def test_a_second_signal_ends_those_that_do_not_drain_and_says_so() -> None:
    async with SupervisedWorkers(2, STUBBORN) as workers:
        await workers.hear("ready", 2)
        os.kill(workers.pid, signal.SIGTERM)
        await workers.hear("draining", 2)
        os.kill(workers.pid, signal.SIGINT)
        assert await workers.ended() == EXIT_UNFINISHED
        await workers.everyone_is_gone()
        assert len(workers.said(f"exits-{EXIT_UNFINISHED}")) == 2


async def test_processes_that_handle_no_signal_yet_end_with_the_supervisor() -> None:
    async with SupervisedWorkers(2, DEAF) as workers:
        await workers.hear("ready", 2)
        os.kill(workers.pid, signal.SIGTERM)
        assert await workers.ended() == EXIT_CLEAN
        await workers.everyone_is_gone()


async def test_processes_whose_supervisor_is_killed_drain_and_end_by_themselves() -> None:
    async with SupervisedWorkers(3, STEADY) as workers:
        started = await workers.hear("ready", 3)
        os.kill(workers.pid, signal.SIGKILL)
        assert await workers.ended() == -signal.SIGKILL
        await workers.everyone_is_gone()
        assert sorted(workers.said("drained")) == sorted(started)


async def test_a_wrong_configuration_ends_all_and_is_not_tried_again() -> None:
    async with SupervisedWorkers(2, MISCONFIGURED) as workers:
        assert await workers.ended() == EXIT_CONFIGURATION
        await workers.everyone_is_gone()
        assert len(workers.said(f"exits-{EXIT_CONFIGURATION}")) <= 2
        assert workers.said("ready") == []


async def test_only_the_supervisor_protects_the_ecs_task() -> None:
    requests: asyncio.Queue[object] = asyncio.Queue()

    async def answer(request: web.Request) -> web.Response:
        asked = await request.json()
        requests.put_nowait(asked)
        return web.json_response({"protection": {"ProtectionEnabled": asked["ProtectionEnabled"]}})

    application = web.Application()
    application.router.add_put("/api/task/task-protection/v1/state", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    environ = {"ECS_AGENT_URI": f"http://{host}:{port}/api/task"}
    try:
        async with SupervisedWorkers(2, STEADY, environ=environ) as workers:
            held = await asyncio.wait_for(requests.get(), GENEROUS_S)
            assert held == {"ProtectionEnabled": True, "ExpiresInMinutes": 10}
            os.kill(workers.pid, signal.SIGTERM)
            assert await workers.ended() == EXIT_CLEAN
        assert requests.get_nowait() == {"ProtectionEnabled": False}
        assert requests.empty()
    finally:
        await runner.cleanup()
