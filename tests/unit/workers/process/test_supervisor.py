"""The supervisor of several worker processes, in virtual time, with simulated processes."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.testing import LoopClock
from headgate.workers.process.exit_codes import (
    EXIT_CLEAN,
    EXIT_CONFIGURATION,
    EXIT_FAULT,
    EXIT_NO_QUEUES,
    EXIT_UNFINISHED,
)
from headgate.workers.process.supervisor import SETTLED_S, Supervisor, WorkerProcess
from headgate.workers.process.supervisor_link import (
    VARIABLE,
    Leash,
    SupervisorsEnd,
    is_supervised,
    left_for,
    tied,
)
from tests.support.journal import GENEROUS_S
from tests.unit.workers.rig import LIMIT_S

KILLED = -signal.SIGKILL
TERMINATED = -signal.SIGTERM


class Played:
    """A worker process that lives as the test says."""

    def __init__(self, pid: int, at: float, on_signal: Callable[[Played], None]) -> None:
        self.pid = pid
        self.started_at = at
        self.busy = False
        self.signals = 0
        self._on_signal = on_signal
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def alive(self) -> bool:
        return not self._code.done()

    def end(self, code: int) -> None:
        if self.alive:
            self._code.set_result(code)

    def terminate(self) -> None:
        self.signals += 1
        self._on_signal(self)

    async def ended(self) -> int:
        return await asyncio.shield(self._code)


class Machine:
    """Starts the simulated processes."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.children: list[Played] = []
        self.on_start: Callable[[Played], None] = lambda _child: None
        self.on_signal: Callable[[Played], None] = lambda child: child.end(EXIT_CLEAN)
        self.takes_s = 0.0
        self.refuses = False
        self.attempts: list[float] = []

    @property
    def alive(self) -> list[Played]:
        return [child for child in self.children if child.alive]

    async def spawn(self, _place: int) -> WorkerProcess:
        self.attempts.append(self.clock.monotonic())
        await asyncio.sleep(self.takes_s)
        if self.refuses:
            raise BlockingIOError("no more processes")
        child = Played(len(self.children) + 1, self.clock.monotonic(), self.on_signal)
        self.children.append(child)
        self.on_start(child)
        return child

    def supervisor(self, processes: int = 3) -> Supervisor:
        rng = random.Random(7)  # noqa: S311 - spreads delays
        return Supervisor(self.spawn, processes, clock=self.clock, rng=rng)


@asynccontextmanager
async def supervising(
    machine: Machine, processes: int = 3
) -> AsyncIterator[tuple[Supervisor, asyncio.Task[int]]]:
    """Yield a running supervisor with its processes; it must end, and leave nothing behind."""
    before = asyncio.all_tasks()
    supervisor = machine.supervisor(processes)
    run = asyncio.create_task(supervisor.run())
    await asyncio.sleep(0.1)
    try:
        yield supervisor, run
    finally:
        supervisor.stop()
        await asyncio.wait_for(asyncio.wait([run]), LIMIT_S)
    assert machine.alive == []
    assert asyncio.all_tasks() == before


@pytest.mark.looptime
async def test_so_many_processes_run_and_a_stop_ends_them_all() -> None:
    machine = Machine()
    async with supervising(machine, 4) as (supervisor, run):
        assert len(machine.alive) == 4
        supervisor.stop()
        assert await run == EXIT_CLEAN
    assert [child.signals for child in machine.children] == [1] * 4


@pytest.mark.looptime
async def test_a_process_that_dies_is_replaced_and_the_others_go_on() -> None:
    machine = Machine()
    async with supervising(machine) as (supervisor, run):
        await asyncio.sleep(60)
        machine.children[1].end(KILLED)
        await asyncio.sleep(1.1)
        assert [child.pid for child in machine.alive] == [1, 3, 4]
        assert machine.children[0].signals == 0
        supervisor.stop()
        assert await run == EXIT_CLEAN


@pytest.mark.looptime
@pytest.mark.parametrize("code", [EXIT_CLEAN, EXIT_UNFINISHED, EXIT_FAULT, TERMINATED, 86])
async def test_a_process_that_ends_of_its_own_accord_is_replaced_whatever_it_says(
    code: int,
) -> None:
    machine = Machine()
    async with supervising(machine, 1):
        machine.children[0].end(code)
        await asyncio.sleep(1.1)
        assert [child.pid for child in machine.alive] == [2]


@pytest.mark.looptime
async def test_processes_that_die_at_start_up_come_back_ever_more_slowly_up_to_30_s() -> None:
    machine = Machine()
    machine.on_start = lambda child: child.end(EXIT_FAULT)
    async with supervising(machine, 1):
        await asyncio.sleep(600)
    waits = [later - earlier for earlier, later in pairwise(machine.attempts)]
    assert 0.5 <= waits[0] <= 1
    assert waits[:4] == sorted(waits[:4])
    assert all(15 <= wait <= 30 for wait in waits[5:])
    assert len(set(waits)) == len(waits), "without jitter a fleet starts in step"


@pytest.mark.looptime
async def test_a_machine_that_can_start_no_process_is_asked_as_slowly() -> None:
    machine = Machine()
    machine.refuses = True
    async with supervising(machine, 1):
        await asyncio.sleep(600)
        assert len(machine.attempts) < 50
        machine.refuses = False
        await asyncio.sleep(30)
        assert len(machine.alive) == 1


@pytest.mark.looptime
async def test_a_process_that_has_worked_for_a_while_is_replaced_at_once_again() -> None:
    machine = Machine()
    async with supervising(machine, 1):
        for _ in range(20):
            [child] = machine.alive
            await asyncio.sleep(SETTLED_S)
            child.end(KILLED)
            await asyncio.sleep(1.1)
        assert len(machine.children) == 21


@pytest.mark.looptime
async def test_one_place_that_keeps_dying_delays_no_other() -> None:
    machine = Machine()
    async with supervising(machine, 2):
        machine.on_start = lambda child: child.end(EXIT_FAULT)
        machine.children[0].end(EXIT_FAULT)
        await asyncio.sleep(100)
        machine.on_start = lambda _child: None
        machine.children[1].end(KILLED)
        await asyncio.sleep(1.1)
        assert len(machine.alive) == 1


@pytest.mark.looptime
@pytest.mark.parametrize("code", [EXIT_CONFIGURATION, EXIT_NO_QUEUES])
async def test_what_is_wrong_for_all_stops_the_others_and_is_not_tried_again(code: int) -> None:
    machine = Machine()
    async with supervising(machine) as (_, run):
        machine.children[1].end(code)
        assert await run == code
    assert len(machine.children) == 3
    assert [child.signals for child in machine.children] == [1, 0, 1]


@pytest.mark.looptime
async def test_a_signal_after_a_configuration_error_lets_the_others_drain() -> None:
    machine = Machine()
    machine.on_signal = lambda _child: None  # they drain
    async with supervising(machine, 2) as (supervisor, run):
        machine.children[0].end(EXIT_CONFIGURATION)
        await asyncio.sleep(1)
        supervisor.stop()
        assert machine.children[1].signals == 1
        machine.children[1].end(EXIT_CLEAN)
        assert await run == EXIT_CONFIGURATION


@pytest.mark.looptime
async def test_a_stop_waits_until_the_last_one_has_drained() -> None:
    machine = Machine()
    machine.on_signal = lambda _child: None
    async with supervising(machine, 2) as (supervisor, run):
        supervisor.stop()
        await asyncio.sleep(100)
        machine.children[0].end(EXIT_CLEAN)
        await asyncio.sleep(100)
        assert not run.done()
        machine.children[1].end(EXIT_CLEAN)
        assert await run == EXIT_CLEAN
    assert [child.signals for child in machine.children] == [1, 1]


@pytest.mark.looptime
async def test_a_second_signal_reaches_those_that_still_run() -> None:
    machine = Machine()
    machine.on_signal = lambda child: child.end(EXIT_UNFINISHED) if child.signals == 2 else None
    async with supervising(machine, 2) as (supervisor, run):
        supervisor.stop()
        machine.children[0].end(EXIT_CLEAN)
        await asyncio.sleep(1)
        supervisor.hurry()
        assert await run == EXIT_UNFINISHED
    assert [child.signals for child in machine.children] == [1, 2]


@pytest.mark.looptime
async def test_a_process_that_was_just_being_started_hears_of_the_stop_as_well() -> None:
    machine = Machine()
    machine.takes_s = 5
    async with supervising(machine, 2) as (supervisor, run):
        supervisor.stop()
        assert await run == EXIT_CLEAN
    assert [child.signals for child in machine.children] == [1, 1]


@pytest.mark.looptime
async def test_a_stop_does_not_wait_for_a_delay_to_end() -> None:
    machine = Machine()
    machine.on_start = lambda child: child.end(EXIT_FAULT)
    async with supervising(machine, 1) as (supervisor, run):
        await asyncio.sleep(100)
        stopped_at = machine.clock.monotonic()
        supervisor.stop()
        assert await run == EXIT_FAULT
        assert machine.clock.monotonic() == stopped_at


@pytest.mark.looptime
async def test_a_supervisor_stopped_before_it_runs_starts_nothing() -> None:
    machine = Machine()
    supervisor = machine.supervisor()
    supervisor.stop()
    assert await supervisor.run() == EXIT_CLEAN
    assert machine.children == []


@pytest.mark.looptime
async def test_a_cancelled_supervisor_has_its_processes_drain_first() -> None:
    machine = Machine()
    machine.on_signal = lambda _child: None
    async with supervising(machine, 2) as (_, run):
        run.cancel()
        await asyncio.sleep(10)
        assert [child.signals for child in machine.children] == [1, 1]
        assert not run.done()
        for child in machine.children:
            child.end(EXIT_CLEAN)
        with pytest.raises(asyncio.CancelledError):
            await run


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ((EXIT_CLEAN, EXIT_CLEAN), EXIT_CLEAN),
        ((EXIT_CLEAN, EXIT_UNFINISHED), EXIT_UNFINISHED),
        ((EXIT_UNFINISHED, EXIT_FAULT), EXIT_FAULT),
        ((EXIT_FAULT, EXIT_CONFIGURATION), EXIT_CONFIGURATION),
        ((EXIT_CLEAN, KILLED), EXIT_FAULT),
        ((EXIT_CLEAN, 86), EXIT_FAULT),
        ((EXIT_CLEAN, TERMINATED), EXIT_CLEAN),
    ],
)
async def test_the_exit_code_is_the_worst_of_the_processes(
    codes: tuple[int, int], worst: int
) -> None:
    machine = Machine()
    machine.on_signal = lambda child: child.end(codes[child.pid - 1])
    async with supervising(machine, 2) as (supervisor, run):
        supervisor.stop()
        assert await run == worst


@pytest.mark.looptime
async def test_the_task_is_busy_while_jobs_run_in_any_living_process() -> None:
    machine = Machine()
    async with supervising(machine, 2) as (supervisor, _):
        seen = [supervisor.busy]
        machine.children[0].busy = machine.children[1].busy = True
        seen.append(supervisor.busy)
        machine.children[1].busy = False
        seen.append(supervisor.busy)
        machine.children[0].end(KILLED)
        await asyncio.sleep(0.1)
        seen.append(supervisor.busy)
    assert seen == [False, True, True, False]


# --- the leash -----------------------------------------------------------------------------------


class Ends:
    """A worker's end of the leash in its environment, and the supervisor's in the test."""

    def __init__(self) -> None:
        self.ours, theirs = socket.socketpair()
        self.environ = {**left_for(theirs.detach(), 1), "PATH": "/"}

    def leash(self) -> Leash:
        leash = Leash.from_env(self.environ)
        assert leash is not None
        return leash


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    with made.ours:
        yield made


def test_the_worker_takes_its_end_and_passes_it_on_to_no_other_program(ends: Ends) -> None:
    os.set_inheritable(int(ends.environ[VARIABLE].partition(":")[0]), True)
    assert is_supervised(ends.environ)
    with ends.leash().connection as connection:
        assert not connection.get_inheritable()
        assert ends.environ == {"PATH": "/"}


def test_without_a_supervisor_there_is_no_leash() -> None:
    assert not is_supervised({"PATH": "/"})
    assert Leash.from_env({"PATH": "/"}) is None


@pytest.mark.parametrize("value", ["", "x", "-5", "1000000", "9" * 30])
def test_a_variable_that_no_supervisor_has_set_is_refused(value: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"{VARIABLE} is set by .* unset it"):
        Leash.from_env({VARIABLE: value})


async def test_the_worker_is_stopped_when_the_supervisor_s_end_closes(ends: Ends) -> None:
    stopped = asyncio.Event()
    async with tied(ends.leash(), stop=stopped.set, busy=lambda: False):
        assert not stopped.is_set()
        ends.ours.close()
        await asyncio.wait_for(stopped.wait(), GENEROUS_S)


async def test_so_it_is_when_the_supervisor_died_with_unread_news_of_it(ends: Ends) -> None:
    stopped, told = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(ends.ours, told.set)
    async with tied(ends.leash(), stop=stopped.set, busy=lambda: True):
        await asyncio.wait_for(told.wait(), GENEROUS_S)
        loop.remove_reader(ends.ours)
        ends.ours.close()
        await asyncio.wait_for(stopped.wait(), GENEROUS_S)


async def test_so_it_is_when_the_supervisor_died_before_the_worker_was_ready(ends: Ends) -> None:
    stopped = asyncio.Event()
    ends.ours.close()
    async with tied(ends.leash(), stop=stopped.set, busy=lambda: True):
        await asyncio.wait_for(stopped.wait(), GENEROUS_S)


async def test_letting_go_of_the_leash_is_no_stop_and_closes_it(ends: Ends) -> None:
    stops: list[None] = []
    ends.ours.setblocking(False)
    async with tied(ends.leash(), stop=lambda: stops.append(None), busy=lambda: False):
        pass
    assert await asyncio.get_running_loop().sock_recv(ends.ours, 1) == b""
    assert stops == []


async def test_without_a_leash_nothing_happens() -> None:
    before = asyncio.all_tasks()
    async with tied(None, stop=lambda: None, busy=lambda: True):
        assert asyncio.all_tasks() == before


async def test_the_supervisor_hears_when_a_worker_becomes_busy_and_idle(ends: Ends) -> None:
    heard = asyncio.Condition()
    busy = True

    class Listening(SupervisorsEnd):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            wakes.append(asyncio.ensure_future(_wake(heard)))

    wakes: list[asyncio.Future[None]] = []
    loop = asyncio.get_running_loop()
    line, end = await loop.create_connection(Listening, sock=ends.ours)
    assert not end.busy
    async with (
        tied(ends.leash(), stop=lambda: None, busy=lambda: busy),
        asyncio.timeout(GENEROUS_S),
        heard,
    ):
        await heard.wait_for(lambda: end.busy)
        busy = False
        await heard.wait_for(lambda: not end.busy)
    await asyncio.gather(*wakes)
    line.close()


async def test_a_worker_that_is_gone_is_not_busy() -> None:
    end = SupervisorsEnd()
    end.data_received(b"01")
    assert end.busy
    end.connection_lost(ConnectionResetError())
    assert not end.busy


async def _wake(condition: asyncio.Condition) -> None:
    async with condition:
        condition.notify_all()
