"""Real commands and worker processes, which never outlive their test."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.environment import REGION
from tests.support.fixture_app import APP_PATH, DIRECTORY
from tests.support.journal import GENEROUS_S

READY = "working on "
"""Logged by a worker once its signal handlers are installed."""

STOPPING = "stopping: jobs may run for"
"""Logged by a worker at the first stop signal."""

_ROOT = Path(__file__).parents[2]
_PYTHON = Path(sys.executable)
_INHERITED = ("HOME", "LANG", "LC_ALL", "PATH", "VIRTUAL_ENV")

# A worker whose stdin ends has lost its test, however the test died.
_LEASHED = """
import os, signal, threading

def hang_on():
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=hang_on, name="leash", daemon=True).start()
from headgate.ops import main
main()
"""

# If the test dies, its end of the terminal is closed, which ends the worker as well. The processes
# that a supervisor starts have its terminal anyway, and only the leader of a session may ask for
# one.
_AT_A_TERMINAL = """
import fcntl, os, termios

if os.getsid(0) == os.getpid():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from headgate.ops import main
main()
"""


class Terminal:
    """A terminal for one `WorkerProcess`; a context manager."""

    def __enter__(self) -> Self:
        self._keys, self.screen = pty.openpty()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._keys)
        os.close(self.screen)

    def press_ctrl_c(self) -> None:
        """Send SIGINT to all processes in the foreground, as a terminal does."""
        os.write(self._keys, b"\x03")


def environment(endpoint_url: str, stage: str, directory: Path) -> dict[str, str]:
    """Return a command's whole environment, with credentials that no account accepts."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return inherited | {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_CONFIG_FILE": str(directory / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(directory / "no-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_REGION": REGION,
        "HEADGATE_ALLOW_HTTP": "1",
        "HEADGATE_STAGE": stage,
        "PYTHONWARNINGS": "error",
        DIRECTORY: str(directory),
    }


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str


async def command(*arguments: str, env: Mapping[str, str], directory: Path = _ROOT) -> Finished:
    """Run ``headgate`` to its end."""
    async with started(*arguments, env=env, directory=directory) as process:
        async with asyncio.timeout(GENEROUS_S):
            out, err = await asyncio.gather(_whole(process.stdout), _whole(process.stderr))
            code = await process.wait()
    return Finished(code, out, err)


@asynccontextmanager
async def started(
    *arguments: str, env: Mapping[str, str], directory: Path = _ROOT
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Yield ``headgate`` in a process of its own, which is killed at the end if it still runs."""
    process = await _spawn(arguments, env, stdout=asyncio.subprocess.PIPE, directory=directory)
    try:
        yield process
    finally:
        await _kill(process)


def everything(_line: str) -> bool:
    """Keep each line of a log."""
    return True


class WorkerProcess:
    """``headgate worker`` on an app, the fixture app by default, in a process of its own.

    Entering starts it, and returns when it is ready; leaving kills it if it still runs.

    Args:
        arguments: the command's arguments.
        env: its whole environment.
        app: the app's path.
        ready: the text in the log that entering waits for; None waits for nothing.
        keep: selects the lines of the log to keep; a long-lived worker writes very many.
        terminal: the worker's terminal, opened; None for none.
        python: the interpreter; the one that runs the tests by default.
        directory: its working directory; the repository's root by default.
    """

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str],
        app: str = APP_PATH,
        ready: str | None = READY,
        keep: Callable[[str], bool] = everything,
        terminal: Terminal | None = None,
        python: Path = _PYTHON,
        directory: Path = _ROOT,
    ) -> None:
        self._terminal = terminal
        self._python = python
        self._directory = directory
        self._arguments = ("worker", app, *arguments)
        self._env = env
        self._ready = ready
        self._keep = keep
        self._log: list[str] = []
        self._logged = asyncio.Condition()
        self._log_ended = False

    async def __aenter__(self) -> Self:
        self._process = await _spawn(
            self._arguments,
            self._env,
            stdout=asyncio.subprocess.DEVNULL,
            terminal=self._terminal,
            python=self._python,
            directory=self._directory,
        )
        self._reader = asyncio.create_task(self._read(), name="worker-log")
        try:
            if self._ready is not None:
                await self.logged(self._ready)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._end()
        # pytest shows it with a failing test.
        sys.stderr.write(f"the log of worker {self.pid}:\n{self.log}")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return self._process.returncode is None

    @property
    def log(self) -> str:
        """The log so far."""
        return "".join(self._log)

    async def logged(self, text: str, *, times: int = 1) -> None:
        """Wait until that many lines of the log contain ``text``.

        Raises:
            TimeoutError: they did not come in time.
            EOFError: the process has ended without them.
        """

        def enough() -> bool:
            return sum(text in line for line in self._log) >= times

        await self._wait_for(lambda: enough() or self._log_ended)
        if not enough():
            raise EOFError(f"the worker ended without logging {text!r}: {self.log}")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    async def ended(self) -> int:
        """Wait for its end; return the exit code, negative for a signal.

        Raises:
            TimeoutError: it did not end in time.
        """
        async with asyncio.timeout(GENEROUS_S):
            code = await self._process.wait()
            await self._reader
        return code

    async def kill(self) -> None:
        """``kill -9``, and wait until it is gone."""
        self.send(signal.SIGKILL)
        await self.ended()

    async def _wait_for(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(GENEROUS_S), self._logged:
            await self._logged.wait_for(happened)

    async def _read(self) -> None:
        assert self._process.stderr is not None
        while not self._log_ended:
            line = await self._process.stderr.readline()
            text = line.decode()
            if line and not self._keep(text):
                continue
            async with self._logged:
                self._log.append(text)
                self._log_ended = not line
                self._logged.notify_all()

    async def _end(self) -> None:
        await _kill(self._process)
        await self._reader


async def _spawn(
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    stdout: int,
    terminal: Terminal | None = None,
    python: Path = _PYTHON,
    directory: Path = _ROOT,
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        python,
        "-c",
        _LEASHED if terminal is None else _AT_A_TERMINAL,
        *arguments,
        stdin=asyncio.subprocess.PIPE if terminal is None else terminal.screen,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        env=env,
        cwd=directory,
        start_new_session=True,
        limit=1 << 20,
    )


async def _whole(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    return (await stream.read()).decode()


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            # Not process.kill(): it would reap a child that has just ended, and lose its exit code.
            os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    if process.stdin is not None:
        process.stdin.close()
