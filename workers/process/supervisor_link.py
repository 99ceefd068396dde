"""What ties a worker process to its supervisor: one socket between the two.

When the supervisor dies, however that comes about, its end closes, and the worker stops by itself.
In the other direction the worker says whether jobs run, so that the supervisor can hold the
scale-in protection of the ECS task for all its processes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import NoReturn

from headgate.jobs.errors import SettingsInvalid

_log = logging.getLogger("headgate.worker")

VARIABLE = "HEADGATE_SUPERVISOR"
"""The file descriptor of the socket and the worker's place; set by the supervisor alone."""

_BUSY, _IDLE = b"1", b"0"

_LOOK_S = 1.0
"""How often a worker looks whether it has become busy or idle."""


def is_supervised(environ: Mapping[str, str]) -> bool:
    """Whether a supervisor has started this process, which therefore must not start others."""
    return VARIABLE in environ


class Leash:
    """The worker's end. It is inert until `tied` uses it.

    Args:
        connection: connected; it is closed when `tied` ends.
        place: which of the supervisor's processes this is, from 1.
    """

    def __init__(self, connection: socket.socket, place: int) -> None:
        self.connection = connection
        self.place = place

    @classmethod
    def from_env(cls, environ: MutableMapping[str, str]) -> Leash | None:
        """Take over what the supervisor has left in the environment; None without a supervisor.

        The variable is removed, and the descriptor closed in programs that this one starts:
        neither is theirs.

        Raises:
            SettingsInvalid: the variable names no socket, so it was not set by a supervisor.
        """
        if (value := environ.pop(VARIABLE, None)) is None:
            return None
        try:
            descriptor, _, place = value.partition(":")
            leash = cls(socket.socket(fileno=int(descriptor)), int(place))
        except (ValueError, OSError, OverflowError) as error:
            raise SettingsInvalid(
                f"{VARIABLE} is set by `headgate worker --processes` for its own processes, and "
                f"{value!r} is nothing that it sets: unset it"
            ) from error
        leash.connection.set_inheritable(False)
        return leash


def left_for(descriptor: int, place: int) -> dict[str, str]:
    """What a supervisor puts into the environment of one worker."""
    return {VARIABLE: f"{descriptor}:{place}"}


@asynccontextmanager
async def tied(
    leash: Leash | None, *, stop: Callable[[], None], busy: Callable[[], bool]
) -> AsyncIterator[None]:
    """While the block runs, call ``stop`` when the supervisor dies, and tell it of ``busy``:
    whether jobs run that may outlast draining.

    Without a leash this does nothing.
    """
    if leash is None:
        yield
        return
    loop = asyncio.get_running_loop()
    end = _WorkersEnd(stop)
    line, _ = await loop.create_connection(lambda: end, sock=leash.connection)
    telling = asyncio.create_task(_tell(line, busy), name="headgate-leash")
    telling.add_done_callback(_log_fault)
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait([telling])
        end.let_go()
        line.close()
        await end.closed.wait()


class _WorkersEnd(asyncio.Protocol):
    def __init__(self, stop: Callable[[], None]) -> None:
        self.closed = asyncio.Event()
        self._stop: Callable[[], None] | None = stop

    def let_go(self) -> None:
        """What closes from now on is closed by this side."""
        self._stop = None

    def connection_lost(self, _error: Exception | None) -> None:
        self.closed.set()
        if self._stop is not None:
            _log.error("the supervisor is gone: stopping")
            self._stop()


async def _tell(line: asyncio.WriteTransport, busy: Callable[[], bool]) -> NoReturn:
    told = False  # what a supervisor takes for granted of a process that has just started
    while True:
        if (now := busy()) is not told and not line.is_closing():
            line.write(_BUSY if now else _IDLE)
            told = now
        await asyncio.sleep(_LOOK_S)


def _log_fault(task: asyncio.Task[NoReturn]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("the supervisor can't be told whether long jobs run", exc_info=error)


class SupervisorsEnd(asyncio.Protocol):
    """The supervisor's end of one worker's socket: whether jobs run there."""

    def __init__(self) -> None:
        self.busy = False

    def data_received(self, data: bytes) -> None:
        self.busy = data.endswith(_BUSY)

    def connection_lost(self, _error: Exception | None) -> None:
        self.busy = False
