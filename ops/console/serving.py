"""Serving the console by itself, until Ctrl-C."""

from __future__ import annotations

import socket

from starlette.types import ASGIApp
from uvicorn import Config, Server

from headgate.jobs.errors import ConfigurationError

_PATIENCE_S = 1
"""Seconds that an answer under way may take once the console is to end."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        ConfigurationError: the address is not this machine's, or the port is taken.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=128)
    except OSError as error:
        raise ConfigurationError(
            f"the console can't listen on {host}:{port}: {error.strerror}. Another --port may be "
            "free; --port 0 finds one"
        ) from error


def url_of(listener: socket.socket) -> str:
    """Return the address of a console that listens here, for a browser on this machine."""
    address, port = listener.getsockname()[:2]
    host = {"127.0.0.1": "localhost", "0.0.0.0": socket.gethostname(), "::": socket.gethostname()}  # noqa: S104 - named, and not bound
    shown = host.get(address, f"[{address}]" if ":" in address else address)
    return f"http://{shown}:{port}/"


def serve(pages: ASGIApp, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, which is raised again once the server has ended."""
    config = Config(
        pages,
        log_level="warning",
        access_log=False,
        lifespan="auto",
        ws="none",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_PATIENCE_S,
        h11_max_incomplete_event_size=64 * 1024,
    )
    Server(config).run(sockets=[listener])
