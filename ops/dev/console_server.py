"""The web console of `headgate dev`: served by the app's process, on its parent's socket.

The parent listens, so the address is the same after every edit, and a page that is asked for while
one is loaded waits for the new process.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headgate.jobs.definitions.app import App
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.own_log import OwnLog
from headgate.ops.dev import notes

if TYPE_CHECKING:
    from uvicorn import Server

    from headgate.jobs.deployment.deployment import Deployment

_LOOK_S = 0.2
"""Seconds between two looks whether the process is to end, while no browser has asked."""

_PATIENCE_S = 0.5
"""Seconds that the end of the process waits for the server's."""

_REQUEST = 65_536
_FAILURE = (
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"The console has failed: headgate dev shows why. The next edit of the app starts it again.\n"
)
"""The answer to every request after the console has failed."""

_log = OwnLog(notes.LOGGER)


@contextmanager
def console_served(app: App, descriptor: str) -> Iterator[Callable[[], None]]:
    """Serve an app's console within the block, and yield what makes it accept no more requests.

    Args:
        app: the app.
        descriptor: of the socket that listens; an empty text serves nothing.
    """
    if not descriptor:
        yield lambda: None
        return
    listener = socket.socket(fileno=int(descriptor))
    listener.set_inheritable(False)
    server = ConsoleServer(app, listener)
    server.start()
    try:
        yield server.stop
    finally:
        server.stop()
        server.wait()


class ConsoleServer:
    """Serves an app's console in a thread, from the first browser that asks for a page on.

    Until then it imports nothing, so whoever doesn't look waits no longer after an edit.

    Args:
        app: the app.
        listener: the socket, which listens already; it is closed in the end.
    """

    def __init__(self, app: App, listener: socket.socket) -> None:
        self._app = app
        self._listener = listener
        self._stopping = threading.Event()
        self._server: Server | None = None
        self._thread = threading.Thread(target=self._run, name="headgate-dev-console", daemon=True)

    def start(self) -> None:
        """Begin to wait for a browser."""
        self._thread.start()

    def stop(self) -> None:
        """Accept no more requests; those under way are answered. Idempotent."""
        self._stopping.set()
        if self._server is not None:
            self._server.should_exit = True

    def wait(self) -> None:
        """Wait a moment until those under way are answered."""
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        with self._listener:
            while not self._stopping.is_set():
                if self._is_asked():
                    self._serve()
                    break
            while not self._stopping.is_set():  # the console has failed
                if self._is_asked():
                    _answer(self._listener, _FAILURE)

    def _is_asked(self) -> bool:
        return bool(select.select([self._listener], [], [], _LOOK_S)[0])

    def _serve(self) -> None:
        try:
            self._server = server = _server(self._app)
            server.should_exit = self._stopping.is_set()  # it was asked while this was imported
            server.run(sockets=[self._listener.dup()])  # which it closes
        except Exception:  # noqa: BLE001 - told, and the worker runs on
            _log.exception("the console of headgate dev failed")


def _server(app: App) -> Server:
    from headgate.ops.actor import actor
    from headgate.ops.console import console
    from headgate.ops.console.access.rules import LOOPBACK_HOSTS, everybody
    from headgate.ops.console.serving import server_of

    return server_of(
        console(app, access=everybody(actor()), hosts=LOOPBACK_HOSTS, deployment=_deployment(app))
    )


def _deployment(app: App) -> Deployment | None:
    """Return the deployment in the current folder's ``cdk.json``, or None if it has none."""
    from headgate.ops.cdk_context import deployment_from_cdk_json
    from headgate.ops.cdk_json import FILE

    try:
        return deployment_from_cdk_json(None, app.stage) if FILE.exists() else None
    except ConfigurationError as error:
        _log.warning("the console knows nothing of cdk.json until the app is edited: %s", error)
        return None


def _answer(listener: socket.socket, answer: bytes) -> None:
    """Answer one request, whatever it is."""
    # The browser may have gone, or another process of the app's have answered it.
    with suppress(OSError):
        listener.settimeout(_PATIENCE_S)
        with listener.accept()[0] as connection:
            connection.settimeout(_PATIENCE_S)
            connection.recv(_REQUEST)
            connection.sendall(answer)
