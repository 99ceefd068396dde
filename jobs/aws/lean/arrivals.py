"""Bytes that have come in on a connection and that nobody has read."""

from __future__ import annotations

import selectors
import socket
import ssl

_Selector: type[selectors.BaseSelector] = getattr(
    selectors, "PollSelector", selectors.SelectSelector
)


class Arrivals:
    """Tells whether an idle connection has been closed, or has data that nobody asked for.

    Asks the operating system, so that it knows of what an event loop has yet to read.

    Args:
        opened: the connection's socket.
    """

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._selector = _Selector()
        self._selector.register(opened, selectors.EVENT_READ)

    def any(self, within_s: float = 0) -> bool:
        """Return True if there are any, or will be within that many seconds."""
        pending = self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0
        return bool(pending or self._selector.select(within_s))

    def close(self) -> None:
        """Stop watching; the socket stays as it is. Idempotent."""
        self._selector.close()
