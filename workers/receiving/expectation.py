"""The messages expected from a receive under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_STEPS = 5
"""Number of timers, one after the other, in which the patience passes. A busy event loop reads
answers late, and lets each timer pass late as well."""


class Expectation:
    """The messages expected from one receive, for as long as they can still be on their way.

    Args:
        expect: called with each change of the number of expected messages.
        count: the number of messages.
        patience_s: how long they are expected.
        expect_at_once: called with each change of the number of slots kept free for them.
        imminent_s: how long slots are kept free; 0 for not at all.
        on_free: called when slots are no longer kept free.
        on_late: called when the messages are no longer expected.
    """

    def __init__(
        self,
        expect: Callable[[int], None],
        count: int,
        patience_s: float,
        expect_at_once: Callable[[int], None],
        imminent_s: float,
        *,
        on_free: Callable[[], None],
        on_late: Callable[[], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._expect = expect
        self._count = count
        self._expect_at_once = expect_at_once
        self._imminent = count if imminent_s else 0
        self._on_free = on_free
        self._on_late = on_late
        expect(count)
        self._step_s, self._steps = patience_s / _STEPS, _STEPS
        self._timer = loop.call_later(self._step_s, self._step)
        if self._imminent:
            expect_at_once(count)
            self._first_timer = loop.call_later(imminent_s, self._free_slots)

    def end(self) -> None:
        """Expect nothing more: the receive has returned, or never began."""
        self._timer.cancel()
        self._hold_no_slots()
        self._expect(-self._count)
        self._count = 0

    def _free_slots(self) -> None:
        self._hold_no_slots()
        self._on_free()

    def _hold_no_slots(self) -> None:
        if self._imminent:
            self._first_timer.cancel()
            held, self._imminent = self._imminent, 0
            self._expect_at_once(-held)

    def _step(self) -> None:
        self._steps -= 1
        if self._steps:
            self._timer = asyncio.get_running_loop().call_later(self._step_s, self._step)
        else:
            self._give_up()

    def _give_up(self) -> None:
        self.end()
        self._on_late()
