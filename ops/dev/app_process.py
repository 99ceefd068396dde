"""The process that runs the app, as `headgate dev` starts, hears and stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import BinaryIO

from headgate.workers.process.supervisor_link import left_for

_CHUNK = 65_536
_HURRIED_S = 0.3
"""Seconds from when a process that was asked to stop is asked to hurry until it is killed. Not
more: in a hurry it cuts its receives, whose messages may then stay hidden."""
Hear = Callable[[str], None]


class AppProcess:
    """One process of the app: `ops.dev.child`, in a session of its own.

    Once started it imports all that is not the app's, which takes most of the time, and waits for
    `run`; so the one for the next edit is started before there is one.

    Ctrl-C in the terminal reaches only the parent, which then stops it; if the parent dies, however
    that be, the process stops by itself.

    Args:
        path: the app's.
        console: the socket that the web console listens on; None serves none.
        environment: all variables of the process.
        hear: called with each line that it writes from `run` on, in the event loop.
    """

    def __init__(
        self,
        path: str,
        *,
        console: socket.socket | None,
        environment: Mapping[str, str],
        hear: Hear,
    ) -> None:
        self._passed = [] if console is None else [console.fileno()]
        self._path = path
        self._environment = environment
        self._hear = hear
        self._is_run = False
        self._process: asyncio.subprocess.Process | None = None
        self._leash: socket.socket | None = None
        self._hearing: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start it; it loads the app with `run`."""
        self._leash, theirs = socket.socketpair()
        lines, writer = await _pipe()
        with theirs, writer:
            passed = (theirs.fileno(), writer.fileno(), *self._passed)
            console = "".join(map(str, self._passed))
            self._process = await asyncio.create_subprocess_exec(
                # -P: the app's folder must not hide the modules that are imported before the app
                *(sys.executable, "-P", "-u", "-m", "headgate.ops.dev.child"),
                *(self._path, str(writer.fileno()), console),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**self._environment, **left_for(theirs.fileno(), 1)},
                pass_fds=passed,
                start_new_session=True,
            )
        for stream in (self._process.stdout, self._process.stderr, lines):
            assert stream is not None  # noqa: S101 - all are pipes
            self._hearing.append(asyncio.create_task(_lines(stream, self._heard)))

    def run(self, provisioned: str) -> None:
        """Have it load the app, and run it.

        Args:
            provisioned: the digests of what is provisioned already, or an empty text.
        """
        assert self._process is not None  # noqa: S101 - it was started
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        self._is_run = True
        self._process.stdin.write(f"{provisioned}\n".encode())
        self._process.stdin.close()

    @property
    def has_ended(self) -> bool:
        """True once it has ended, in whatever way."""
        return self._process is not None and self._process.returncode is not None

    async def wait(self) -> int:
        """Wait until it has ended, and all that it wrote was heard; return its exit code."""
        assert self._process is not None  # noqa: S101 - it was started
        code = await self._process.wait()
        await asyncio.wait(self._hearing)
        return code

    async def stop(self, within_s: float) -> None:
        """End it, in order if it can be; idempotent.

        Args:
            within_s: seconds after which it is killed, at least 0.3.
        """
        if self._process is None:
            return
        for number, wait_s in (
            (signal.SIGTERM, within_s - _HURRIED_S),
            (signal.SIGTERM, _HURRIED_S),
            (signal.SIGKILL, None),
        ):
            self._signal(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._process.wait()
                    break
        with suppress(ProcessLookupError):  # children of its own that it left
            os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.wait(self._hearing)
        if self._leash is not None:
            self._leash.close()

    def _heard(self, line: str) -> None:
        if self._is_run:  # else it was not needed, and says that it ends
            self._hear(line)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None  # noqa: S101 - asked by the caller
        with suppress(ProcessLookupError):
            self._process.send_signal(number)


async def _pipe() -> tuple[asyncio.StreamReader, BinaryIO]:
    """Return both ends of a new pipe; the reading one closes once the other does."""
    read, write = os.pipe()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", buffering=0)
    )
    return reader, os.fdopen(write, "wb")


async def _lines(stream: asyncio.StreamReader, hear: Hear) -> None:
    """Pass on each line of a stream, of any length, until it ends."""
    begun = b""
    while chunk := await stream.read(_CHUNK):
        *whole, begun = (begun + chunk).split(b"\n")
        for line in whole:
            hear(line.decode(errors="replace"))
    if begun:
        hear(begun.decode(errors="replace"))
