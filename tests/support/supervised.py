"""A supervisor and its workers as real processes; the workers only start, wait and end.

``python -m tests.support.supervised 3 steady`` supervises three; without arguments it is a worker.
All report what they do on standard output, one line each; its end means that all are gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from headgate.workers.process.exit_codes import EXIT_CLEAN, EXIT_CONFIGURATION, EXIT_UNFINISHED
from headgate.workers.process.supervisor import supervise
from headgate.workers.process.supervisor_link import Leash, tied
from headgate.workers.shutdown import on_signals
from tests.support.journal import GENEROUS_S

_ROOT = Path(__file__).parents[2]
_MODULE = "tests.support.supervised"
_BEHAVIOUR = "FIXTURE_BEHAVIOUR"

STEADY = "steady"
"""Works until it is told to stop, then drains at once."""
STUBBORN = "stubborn"
"""Drains forever; only a second signal ends it."""
MISCONFIGURED = "misconfigured"
"""Ends at once with the exit code of a wrong configuration."""
DEAF = "deaf"
"""Reports that it runs before signals are handled, and never handles any."""


# --- in the processes ----------------------------------------------------------------------------


async def _work(behaviour: str) -> int:
    if behaviour == MISCONFIGURED:
        return EXIT_CONFIGURATION
    leash = Leash.from_env(os.environ)
    stop, hurry = asyncio.Event(), asyncio.Event()
    async with tied(leash, stop=stop.set, busy=lambda: True):
        if behaviour == DEAF:
            _say("ready")
            await asyncio.Event().wait()
        with on_signals(stop.set, hurry.set):
            _say("ready")
            await stop.wait()
            _say("draining")
            if behaviour == STUBBORN:
                await hurry.wait()
                return EXIT_UNFINISHED
            _say("drained")
            return EXIT_CLEAN


def _say(event: str) -> None:
    os.write(1, f"{event} {os.getpid()}\n".encode())  # one write: lines never mix


def _die_with_the_test() -> None:
    """End the process when the test ends: its standard input is a pipe that the test holds."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def _main(arguments: list[str]) -> int:
    threading.Thread(target=_die_with_the_test, name="leash of the test", daemon=True).start()
    if not arguments:
        code = asyncio.run(_work(os.environ[_BEHAVIOUR]))
        _say(f"exits-{code}")
        return code
    argv = [sys.executable, "-m", _MODULE]
    return asyncio.run(supervise(argv, int(arguments[0]), os.environ, on_fault=_say_fault))


def _say_fault(error: str) -> None:
    _say("fault-" + error.replace(" ", "-"))


# --- in the test ---------------------------------------------------------------------------------


class SupervisedWorkers:
    """Starts them and reads their reports; on exit, kills those that still run."""

    def __init__(
        self, processes: int, behaviour: str, *, environ: Mapping[str, str] | None = None
    ) -> None:
        self._processes = processes
        self._environ = {
            "PATH": os.environ["PATH"],
            "PYTHONWARNINGS": "error",
            _BEHAVIOUR: behaviour,
            **(environ or {}),
        }
        self._said: dict[str, list[int]] = defaultdict(list)
        self._news = asyncio.Condition()
        self._silent = False

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", _MODULE, str(self._processes)],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environ,
            cwd=_ROOT,
            start_new_session=True,
        )
        self._listening = asyncio.create_task(self._listen(), name="supervised-output")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # which ends all that are left
        await self._process.wait()
        await self._listening

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True while the supervisor runs."""
        return self._process.returncode is None

    def said(self, event: str) -> list[int]:
        """Return the process ids that have reported the event, in order."""
        return list(self._said[event])

    async def hear(self, event: str, times: int) -> list[int]:
        """Wait until the event was reported that many times; return the process ids.

        Raises:
            TimeoutError: it was not reported that often in time.
            EOFError: all processes are gone.
        """
        async with asyncio.timeout(GENEROUS_S), self._news:
            await self._news.wait_for(lambda: len(self._said[event]) >= times or self._silent)
        if len(self._said[event]) < times:
            raise EOFError(f"{event!r} was not said {times} times: {dict(self._said)}")
        return self.said(event)

    async def everyone_is_gone(self) -> None:
        """Wait until neither the supervisor nor a worker of any generation runs.

        Raises:
            TimeoutError: one still does.
        """
        async with asyncio.timeout(GENEROUS_S):
            await asyncio.shield(self._listening)

    async def ended(self) -> int:
        """Wait for the supervisor's end; return its exit code.

        Raises:
            TimeoutError: it did not end in time.
        """
        async with asyncio.timeout(GENEROUS_S):
            return await self._process.wait()

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        with suppress(asyncio.CancelledError):
            async for line in self._process.stdout:
                event, pid = line.decode().split()
                await self._note(event, int(pid))
        async with self._news:
            self._silent = True
            self._news.notify_all()

    async def _note(self, event: str, pid: int) -> None:
        async with self._news:
            self._said[event].append(pid)
            self._news.notify_all()


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
