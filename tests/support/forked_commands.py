"""Hundreds of commands, forked from a process that has imported everything once.

Each runs as its installed script does, apart from the second that its imports take; its exit code
is told. `tests.support.forks` forks workers, which are only ever killed.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from headgate.jobs.aws.dynamo.table import AsyncDynamoTable
from headgate.jobs.aws.s3 import AsyncS3Store
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.core.naming import Bucket
from headgate.ops import main as run_command

_ROOT = Path(__file__).parents[2]
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG, prctl(2)


@dataclass(frozen=True, slots=True)
class Fork:
    """A command in a process of its own."""

    pid: int
    _ended: asyncio.Future[int]

    @property
    def is_running(self) -> bool:
        """True until its end has been told."""
        return not self._ended.done()

    async def wait(self) -> int:
        """Wait for its end; return the exit code, negative for a signal."""
        return await asyncio.shield(self._ended)


class ForkedCommands:
    """Forks commands; made by `forking_commands`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._started: asyncio.Queue[int] = asyncio.Queue()
        self._ends: defaultdict[int, asyncio.Future[int]] = defaultdict(asyncio.Future)
        self._one_at_a_time = asyncio.Lock()

    @asynccontextmanager
    async def started(self, *arguments: str, env: Mapping[str, str]) -> AsyncIterator[Fork]:
        """Yield ``headgate`` as it runs, which is killed at the end if it still does."""
        fork = await self._fork({"arguments": arguments, "env": {**env}})
        try:
            yield fork
        finally:
            if fork.is_running:  # else its number may be another process's
                with suppress(ProcessLookupError):
                    os.kill(fork.pid, signal.SIGKILL)
            await fork.wait()

    async def _fork(self, order: Mapping[str, object]) -> Fork:
        assert self._process.stdin is not None
        async with self._one_at_a_time:
            self._process.stdin.write(f"{json.dumps(order)}\n".encode())
            pid = await self._started.get()
        return Fork(pid, self._ends[pid])

    async def read(self) -> None:
        """Hear of starts and ends until the forking process is gone."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            if "started" in told:
                self._started.put_nowait(told["started"])
            else:
                self._ends[told["ended"]].set_result(told["code"])


@asynccontextmanager
async def forking_commands(*modules: str, env: Mapping[str, str]) -> AsyncIterator[ForkedCommands]:
    """Yield what forks commands; leaving the context ends them all.

    Args:
        modules: what is imported once for all.
        env: the environment of the process that is forked; each command has one of its own.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        *modules,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=env,
        cwd=_ROOT,
    )
    forks = ForkedCommands(process)
    reader = asyncio.create_task(forks.read(), name="forks")
    try:
        yield forks
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await reader
        await process.wait()


def main(modules: Sequence[str]) -> None:
    """Fork a process for each line of stdin, and end them all at the end of the input."""
    for each in modules:
        importlib.import_module(each)
    asyncio.run(_warm_up())
    gc.freeze()  # so that no process copies what was imported as it looks for cycles
    living: set[int] = set()

    def reap(_number: int, _frame: FrameType | None) -> None:
        while living:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            living.discard(pid)
            _tell({"ended": pid, "code": os.waitstatus_to_exitcode(status)})

    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if not pid:
            _run(json.loads(line))
        living.add(pid)
        _tell({"started": pid})
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    for pid in [*living]:
        os.kill(pid, signal.SIGKILL)  # it is not reaped before
    while living:
        signal.pause()


def _tell(what: Mapping[str, int]) -> None:
    os.write(sys.stdout.fileno(), f"{json.dumps(what)}\n".encode())


async def _warm_up() -> None:
    """Import AWS's clients, which takes longer than all that a command does."""
    async with (
        AsyncSqsTransport(),
        AsyncDynamoTable("none"),
        AsyncS3Store(Bucket(prefix="none", name="none")),
    ):
        pass


def _run(order: Mapping[str, object]) -> NoReturn:
    """Be a command; what it prints is not read."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, sys.stdin.fileno())
    os.dup2(nothing, sys.stdout.fileno())
    match order:
        case {"arguments": [*arguments], "env": {**env}}:
            os.environ.clear()
            os.environ.update({str(name): str(value) for name, value in env.items()})
            sys.argv = ["headgate", *map(str, arguments)]
            run_command()
    raise AssertionError("a command ends its process")


if __name__ == "__main__":
    main(sys.argv[1:])
