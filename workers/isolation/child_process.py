"""The processes of children: started with a channel, measured, and their exit codes described."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from pythonjsonlogger.json import JsonFormatter

import headgate

# Not `-m`, which would put the current directory first: a project may have modules of any name.
_BOOT = (
    "import sys; sys.path.append(sys.argv[2]); "
    "from headgate.workers.isolation.child_main import main; main(int(sys.argv[1]))"
)
_ROOT = str(Path(headgate.__file__).parents[1])


async def start_process() -> tuple[
    asyncio.subprocess.Process, asyncio.StreamReader, asyncio.StreamWriter
]:
    """Start a process with a channel to this one; return it with this end's reader and writer.

    Raises:
        OSError: the system can't start another process.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-c",
                _BOOT,
                str(theirs.fileno()),
                _ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # a process group of its own, to be killed as a whole
            )
        except BaseException:
            writer.transport.abort()
            raise
    return process, reader, writer


def memory_of(pid: int) -> Callable[[], int]:
    """Return a function that measures the resident memory of a process, in bytes."""
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return lambda: 0  # dead already
    return lambda: process.memory_info().rss


def logging_here() -> dict[str, Any] | None:
    """Return the log settings of this process, so that handlers log the same way in a child."""
    root = logging.getLogger()
    if not root.handlers:
        return None
    json = any(isinstance(handler.formatter, JsonFormatter) for handler in root.handlers)
    return {"level": root.level, "json": json}


def ending_of(code: int) -> str:
    """Describe an exit code in words that follow "the process"."""
    if code >= 0:
        return f"exited with code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = " (Linux does so when memory runs out)" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
