"""Doing once, in the event loop's next turn, what many ask for in this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class OncePerTurn:
    """Does something soon, and once, however often it is asked until then.

    Args:
        act: what.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._asked = False

    def __call__(self) -> None:
        """Ask for it."""
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().call_soon(self._do)

    def _do(self) -> None:
        self._asked = False
        self._act()
