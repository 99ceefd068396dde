"""A process that submits jobs of the fixture app with a spool: both ends of it.

It reads lines ``TYPE COUNT``, and answers each with the ids once ``submit`` has returned. It shuts
down in order at the end of its input.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from headgate import App, AsyncClient, Client, Spool
from headgate.jobs.definitions.app_path import load_app
from tests.support.fixture_app import APP_PATH, Work
from tests.support.journal import GENEROUS_S

Kind = Literal["plain", "async"]

_ROOT = Path(__file__).parents[2]


class Submitter:
    """Starts the process; leaving the context kills it if it still runs.

    Args:
        spool: the file.
        env: as from `tests.support.stage.Stage.environment`.
        kind: the client's kind.
        lease_s: the spool's.
        app: the path of the app whose jobs it submits.
    """

    def __init__(
        self,
        spool: Path,
        env: Mapping[str, str],
        *,
        kind: Kind = "plain",
        lease_s: int = 5,
        app: str = APP_PATH,
    ) -> None:
        self._arguments = (str(spool), kind, str(lease_s), app)
        self._env = env

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.support.submitter",
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._env,
            cwd=_ROOT,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.kill()

    async def submit(self, job_type: str, count: int) -> list[str]:
        """Have jobs submitted one after the other; return their ids.

        Raises:
            TimeoutError: they were not submitted in time.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{job_type} {count}\n".encode())
        async with asyncio.timeout(GENEROUS_S):
            answer = await self._process.stdout.readline()
        return answer.decode().split()

    async def kill(self) -> None:
        """``kill -9``, and wait until it is gone."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.communicate()

    async def end(self) -> int:
        """Let it end in order; return its exit code."""
        async with asyncio.timeout(GENEROUS_S):
            await self._process.communicate(b"")  # closes its input
            return await self._process.wait()


def main(path: str, kind: str, lease_s: str, app: str) -> None:
    """Run the process itself."""
    spool = Spool(path, lease=timedelta(seconds=int(lease_s)))
    if kind == "plain":
        _plain(load_app(app), spool)
    else:
        asyncio.run(_async(load_app(app), spool))


def _plain(app: App, spool: Spool) -> None:
    with Client(app, spool=spool) as client:
        while line := sys.stdin.readline():
            job_type, count = line.split()
            job = app.find_type(job_type)
            _say([client.submit(job, Work()).id for _ in range(int(count))])


async def _async(app: App, spool: Spool) -> None:
    async with AsyncClient(app, spool=spool) as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            job_type, count = line.split()
            job = app.find_type(job_type)
            _say([(await client.submit(job, Work())).id for _ in range(int(count))])


def _say(ids: list[str]) -> None:
    sys.stdout.write(" ".join(ids) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
