"""The name under which what somebody does by a command or a page is noted."""

from __future__ import annotations

import getpass
import socket


def actor() -> str:
    """Return who runs this process, and where."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a user without a name, as in a container
        return socket.gethostname()
