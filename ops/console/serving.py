"""The server of the console, by itself."""

from __future__ import annotations

import socket

from starlette.types import ASGIApp
from uvicorn import Config, Server

from headgate.workers.process.exit_codes import EXIT_INTERRUPTED, exit_at_once

_PATIENCE_S = 1
"""Seconds that an answer under way may take once the console is to end."""


def server_of(pages: ASGIApp) -> Server:
    """Return a server that has not begun; ``should_exit`` ends it, in whichever thread it runs."""
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
    return Server(config)


def serve(pages: ASGIApp, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, with which the process ends.

    It ends at once: threads that still wait for AWS would hold it up for most of a minute.
    """
    try:
        server_of(pages).run(sockets=[listener])
    except KeyboardInterrupt:
        exit_at_once(EXIT_INTERRUPTED)
