"""Hundreds of worker processes, forked from one that has imported everything once."""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

from headgate.jobs.aws.dynamo.table import AsyncDynamoTable
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.definitions.app import App
from headgate.workers.configuration import WorkerSettings
from headgate.workers.process.entry import run

_ROOT = Path(__file__).parents[2]
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG, prctl(2)


class Forks:
    """Forks workers; made by `forking`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._one_at_a_time = asyncio.Lock()

    async def worker(self, concurrency: int) -> int:
        """Fork a worker of that concurrency; return its process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._one_at_a_time:
            self._process.stdin.write(f"{concurrency}\n".encode())
            return int(await self._process.stdout.readline())


@asynccontextmanager
async def forking(app_module: str, *, env: Mapping[str, str]) -> AsyncIterator[Forks]:
    """Yield what forks workers of the app in a module; leaving the context ends them all."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        app_module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=env,
        cwd=_ROOT,
    )
    try:
        yield Forks(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def main(app_module: str) -> None:
    """Fork a worker for each line of stdin, and end them all at the end of the input."""
    app: App = importlib.import_module(app_module).app
    asyncio.run(_warm_up())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that nothing has to wait for them
    pids = set()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _work(app, int(line))
        pids.add(pid)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # the test has killed it


async def _warm_up() -> None:
    """Import AWS's clients, which takes longer than all that a worker does."""
    async with AsyncSqsTransport(), AsyncDynamoTable("none"):
        pass


def _work(app: App, concurrency: int) -> NoReturn:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os._exit(run(app, WorkerSettings(concurrency=concurrency)))


if __name__ == "__main__":
    main(sys.argv[1])
