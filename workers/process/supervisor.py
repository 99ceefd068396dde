"""The supervisor of several worker processes: keeps them running, and stops them together.

No worker process outlives it. A process that ends is replaced after a delay, which grows while
processes end early. Two endings stop all processes instead, since they would recur in each: a wrong
configuration, and queues none of which exists.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.values.own_log import OwnLog
from headgate.workers.process.ecs_protection import ScaleInProtection, protecting
from headgate.workers.process.exit_codes import (
    EXIT_CLEAN,
    EXIT_CONFIGURATION,
    EXIT_FAULT,
    EXIT_NO_QUEUES,
    EXIT_UNFINISHED,
    weight,
)
from headgate.workers.process.supervisor_link import SupervisorsEnd, left_for
from headgate.workers.shutdown import on_signals

_log = OwnLog("headgate.supervisor")

SETTLED_S = 10.0
"""Run time after which a process counts as well started: the delays restart when it ends."""

RESTARTS = Backoff.exponential(base=1, cap=30, jitter="equal")
"""The delays before a process is replaced, spread so that a fleet does not start in step."""


_WRONG_FOR_ALL = {
    EXIT_CONFIGURATION: "the configuration is wrong",
    EXIT_NO_QUEUES: "the queues are missing",
}
"""By exit code, the faults that every other process would have as well."""


class WorkerProcess(Protocol):
    """One worker process."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    @property
    def busy(self) -> bool:
        """True while long jobs run in it, as far as it has reported."""
        ...

    def terminate(self) -> None:
        """Send it SIGTERM; does nothing if it has ended already."""
        ...

    async def ended(self) -> int:
        """Wait for its end; return the exit code, negative for a signal."""
        ...


Spawn = Callable[[int], Awaitable[WorkerProcess]]
"""Starts the worker process of a place, counted from 1. It may raise OSError, which counts as a
process that died immediately."""


class Supervisor:
    """Keeps a number of worker processes running until it is stopped.

    Args:
        spawn: starts one process.
        processes: the number of processes.
        clock: measures how long a process has run.
        rng: adds jitter to the delays.
    """

    def __init__(self, spawn: Spawn, processes: int, *, clock: Clock, rng: random.Random) -> None:
        self._spawn = spawn
        self._processes = processes
        self._clock = clock
        self._rng = rng
        self._stopping = asyncio.Event()
        self._terminations = 0
        self._children: dict[int, WorkerProcess] = {}
        self._exits: dict[int, int] = {}

    @property
    def busy(self) -> bool:
        """True while long jobs run in any of the processes."""
        return any(child.busy for child in self._children.values())

    def stop(self) -> None:
        """Send SIGTERM to all, so that they drain, and replace none from now on."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._terminate()

    def hurry(self) -> None:
        """Send SIGTERM to all once more, which ends them at once."""
        self.stop()
        self._terminate()

    async def run(self) -> int:
        """Run until `stop` is called and all processes have ended; return their worst exit code.

        Only the last process in each place counts: one that died and was replaced does not. When
        cancelled, it stops them, and waits until they have drained.
        """
        keepers = {
            asyncio.create_task(self._keep(place), name=f"headgate-process-{place}")
            for place in range(1, self._processes + 1)
        }
        try:
            await asyncio.wait(keepers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self.stop()
            await asyncio.wait(keepers)
        for keeper in keepers:
            keeper.result()
        return max(self._exits.values(), key=weight, default=EXIT_CLEAN)

    async def _keep(self, place: int) -> None:
        """Keep a process in this place until all are stopped."""
        delays = self._delays()
        while not self._stopping.is_set():
            started_at = self._clock.monotonic()
            code = self._exits[place] = self._read(place, await self._life(place))
            if why := _WRONG_FOR_ALL.get(code):
                _log.error("%s for all processes; stopping them", why)
                self.stop()
            if self._clock.monotonic() - started_at >= SETTLED_S:
                delays = self._delays()
            await self._pause(place, next(delays))

    def _delays(self) -> Iterator[float]:
        return RESTARTS.delays(self._rng)

    async def _life(self, place: int) -> int:
        """Start a process and wait for its end; return its exit code."""
        try:
            child = await self._spawn(place)
        except OSError as error:
            _log.error("process %d could not be started: %s", place, error)
            return EXIT_FAULT
        _log.info("process %d started, with pid %d", place, child.pid)
        self._children[place] = child
        if self._terminations:  # they came before it could be signalled
            child.terminate()
        try:
            return await child.ended()
        finally:
            del self._children[place]

    def _read(self, place: int, code: int) -> int:
        """Log the end of a process; return its exit code as it counts for the supervisor."""
        if self._stopping.is_set() and code == -signal.SIGTERM:
            # The signal's default action: it had not begun to work, or had finished.
            return EXIT_CLEAN
        how = f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
        _log.log(_level(code, stopping=self._stopping.is_set()), "process %d ended: %s", place, how)
        return code if code in (EXIT_CLEAN, EXIT_UNFINISHED, *_WRONG_FOR_ALL) else EXIT_FAULT

    async def _pause(self, place: int, delay_s: float) -> None:
        if self._stopping.is_set():
            return
        _log.info("replacing process %d in %.1f s", place, delay_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._stopping.wait()

    def _terminate(self) -> None:
        self._terminations += 1
        for child in self._children.values():
            child.terminate()


def _level(code: int, *, stopping: bool) -> int:
    return logging.INFO if stopping and code == EXIT_CLEAN else logging.WARNING


class _Process:
    """A `WorkerProcess` as an operating system process."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        line: asyncio.BaseTransport,
        end: SupervisorsEnd,
    ) -> None:
        self._process = process
        self._line = line
        self._end = end

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def busy(self) -> bool:
        return self._end.busy

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            # Not `Process.terminate`: it would reap a process that has just ended, and lose its
            # exit code.
            os.kill(self.pid, signal.SIGTERM)

    async def ended(self) -> int:
        try:
            return await self._process.wait()
        finally:
            self._line.close()


def spawner(argv: Sequence[str], environ: Mapping[str, str]) -> Spawn:
    """Return a `Spawn` for processes that run ``argv`` and share this one's standard streams.

    Each gets its own process group: the terminal's Ctrl-C reaches only this process, which passes
    it on, since a second signal would make workers hurry.
    """

    async def spawn(place: int) -> WorkerProcess:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    env={**environ, **left_for(theirs.fileno(), place)},
                    pass_fds=[theirs.fileno()],
                    process_group=0,
                )
            except BaseException:
                ours.close()
                raise
        loop = asyncio.get_running_loop()
        line, end = await loop.create_connection(SupervisorsEnd, sock=ours)
        return _Process(process, line, end)

    return spawn


async def supervise(
    argv: Sequence[str],
    processes: int,
    environ: Mapping[str, str],
    *,
    on_fault: Callable[[str], None],
) -> int:
    """Run ``argv`` in several processes until SIGTERM or SIGINT; return the exit code.

    On ECS only this process holds the task's scale-in protection, while long jobs run in any.

    Args:
        argv: the command line of one worker; it finds its end of the leash in ``environ``.
        processes: the number of processes.
        environ: the environment of the processes, also read for ECS.
        on_fault: called with the reason why the scale-in protection can't be held.
    """
    clock = SystemClock()
    rng = random.Random()  # noqa: S311 - spreads delays, guards no secret
    supervisor = Supervisor(spawner(argv, environ), processes, clock=clock, rng=rng)
    protection = ScaleInProtection.from_env(
        environ, busy=lambda: supervisor.busy, clock=clock, rng=rng, on_fault=on_fault
    )
    with on_signals(supervisor.stop, supervisor.hurry):
        async with protecting(protection):
            return await supervisor.run()


def run_several(processes: int) -> int:
    """Supervise this process's own command line in a new event loop; return the exit code."""
    argv = [sys.executable, *sys.orig_argv[1:]]
    return asyncio.run(supervise(argv, processes, os.environ, on_fault=_warn))


def _warn(fault: str) -> None:
    _log.warning("no scale-in protection: %s", fault)
