"""Ports of the loopback that are known before a process listens on them, or that nobody answers."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

NOBODY_LISTENS = 9
"""The port of ``discard``: nothing answers there, and the kernel gives it to no process."""

NOWHERE = f"http://127.0.0.1:{NOBODY_LISTENS}"
"""An endpoint that refuses connections."""

_BELOW_EPHEMERAL = range(20_000, 30_000)
_TRIES = 100


@contextmanager
def reserved_ports(count: int = 1) -> Iterator[int]:
    """Yield the first of consecutive ports that no process gets by chance until the block ends.

    They stay bound here, without a listener. A process that asks for one of them by its number can
    listen on it nevertheless, if it sets SO_REUSEADDR as asyncio's servers do.

    Raises:
        OSError: so many ports in a row are not free.
    """
    for first in random.Random().sample(_BELOW_EPHEMERAL, _TRIES):  # noqa: S311 - any will do
        with ExitStack() as held, suppress(OSError):
            for port in range(first, first + count):
                _hold(held.enter_context(socket.socket()), port)
            kept = held.pop_all()
            break
    else:
        raise OSError(f"no {count} ports in a row are free")
    with kept:
        yield first


def _hold(one: socket.socket, port: int) -> None:
    one.bind(("127.0.0.1", port))  # ahead of the option: so that another's reservation refuses it
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
