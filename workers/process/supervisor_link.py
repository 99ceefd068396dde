"""The link between a worker process and its supervisor: one socket.

When the supervisor dies, for whatever reason, its end closes, and the worker stops by itself. In
the other direction the worker reports whether long jobs run, so that the supervisor can hold the
scale-in protection of the ECS task for all its processes.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import NoReturn

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.worker")

VARIABLE = "HEADGATE_SUPERVISOR"
"""The variable with the socket's file descriptor and the worker's place; set by the supervisor."""

_BUSY, _IDLE = b"1", b"0"

_LOOK_S = 1.0
"""Seconds between a worker's checks whether it has become busy or idle."""


def is_supervised(environ: Mapping[str, str]) -> bool:
    """Return True if a supervisor started this process, which then must not start others."""
    return VARIABLE in environ


class Leash:
    """The worker's end. It is inert until `tied` uses it.

    Args:
        connection: a connected socket; it is closed when `tied` ends.
        place: this process's place among the supervisor's, from 1.
    """

    def __init__(self, connection: socket.socket, place: int) -> None:
        self.connection = connection
        self.place = place

    @classmethod
    def from_env(cls, environ: MutableMapping[str, str]) -> Leash | None:
        """Take the leash that the supervisor left in the environment; None without a supervisor.

        The variable is removed, and programs that this process starts do not inherit the
        descriptor.

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
                f"{value!r} is not a value that it sets: unset it"
            ) from error
        leash.connection.set_inheritable(False)
        return leash


def left_for(descriptor: int, place: int) -> dict[str, str]:
    """Return the variables that a supervisor adds to the environment of one worker."""
    return {VARIABLE: f"{descriptor}:{place}"}


@asynccontextmanager
async def tied(
    leash: Leash | None, *, stop: Callable[[], None], busy: Callable[[], bool]
) -> AsyncIterator[None]:
    """Call ``stop`` if the supervisor dies while the block runs, and report ``busy`` to it.

    Without a leash this does nothing.

    Args:
        leash: this worker's end.
        stop: stops the worker.
        busy: returns True while jobs run that may outlast draining.
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
        """Note that this side closes the connection from now on."""
        self._stop = None

    def connection_lost(self, _error: Exception | None) -> None:
        self.closed.set()
        if self._stop is not None:
            _log.error("the supervisor is gone; stopping")
            self._stop()


async def _tell(line: asyncio.WriteTransport, busy: Callable[[], bool]) -> NoReturn:
    told = False  # the supervisor assumes that a new process is idle
    while True:
        if (now := busy()) is not told and not line.is_closing():
            line.write(_BUSY if now else _IDLE)
            told = now
        await asyncio.sleep(_LOOK_S)


def _log_fault(task: asyncio.Task[NoReturn]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("reporting long-running jobs to the supervisor failed", exc_info=error)


class SupervisorsEnd(asyncio.Protocol):
    """The supervisor's end of one worker's socket: ``busy`` is True while long jobs run there."""

    def __init__(self) -> None:
        self.busy = False

    def data_received(self, data: bytes) -> None:
        self.busy = data.endswith(_BUSY)

    def connection_lost(self, _error: Exception | None) -> None:
        self.busy = False
