"""Sockets that a server of pages listens on, and their addresses for a browser."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress

from headgate.jobs.errors import ConfigurationError

CONSOLE_PORT = 8484
"""The port of the web console, unless another one is asked for."""

_NEARBY = 20
"""Number of ports that `listen_nearby` tries, one after the other."""


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
            f"the console can't listen on {host}:{port}: {_reason(error)}. Another --port may be "
            "free; --port 0 finds one"
        ) from error


def _reason(error: OSError) -> str:
    # In Python's own text the address stands a second time. A name's errors are not the system's.
    if error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    return str(error.strerror)


def listen_nearby(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port or, if that is taken, on one of those after it.

    Raises:
        ConfigurationError: the address is not this machine's, or no port is free.
    """
    for each in range(port, port + _NEARBY):
        with suppress(ConfigurationError):
            return listen(host, each)
    return listen(host, 0)


def url_of(listener: socket.socket) -> str:
    """Return the address of a console that listens here, for a browser on this machine."""
    address, port = listener.getsockname()[:2]
    host = {"127.0.0.1": "localhost", "0.0.0.0": socket.gethostname(), "::": socket.gethostname()}  # noqa: S104 - named, and not bound
    shown = host.get(address, f"[{address}]" if ":" in address else address)
    return f"http://{shown}:{port}/"
