"""Coalesced calls: requested any number of times, made once in the event loop's next turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class OncePerTurn:
    """Calls a function once in the next turn of the event loop, however often it is requested.

    Args:
        act: the function to call.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._asked = False

    def __call__(self) -> None:
        """Request the call."""
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().call_soon(self._do)

    def _do(self) -> None:
        self._asked = False
        self._act()
