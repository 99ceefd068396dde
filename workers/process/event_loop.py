"""The event loop of a worker's process: uvloop's if that is installed, or else asyncio's.

uvloop (``headgate[fast]``) runs the same code for less CPU; it has no release for Windows.
https://uvloop.readthedocs.io/
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the event loop, for `asyncio.Runner`; None makes asyncio's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
