"""Settlement of the messages that this worker holds, and what becomes of their holds.

The requests, of deletes too, are made by `jobs.execution.settling.settler`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from headgate.jobs.core.batcher import Pacing
from headgate.jobs.execution.settling.actions import Ack
from headgate.jobs.execution.settling.keeper import Keeper
from headgate.jobs.execution.settling.settler import Settler
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.retry.backoff import Backoff
from headgate.workers.held import Hold, Holdings

SETTLEMENT_PACING = Pacing(patient=False)
"""The settler itself repeats rounds of tries, and at the worker's end two rounds have to fit into
the flush's bound."""

_ROUNDS = Backoff.exponential(base=1, factor=2, cap=30, jitter="equal")
"""Pauses between rounds of tries that all failed."""


class HoldSettler:
    """Settles the messages that this worker holds, and insists on it until the worker ends.

    Args:
        holdings: all holds; settled ones are dropped from it.
        rng: adds jitter to the pauses between tries.
        make: makes the settler of a keeper.
    """

    ends_at: float | None = None

    def __init__(
        self,
        holdings: Holdings,
        *,
        rng: random.Random,
        make: Callable[[Keeper[Hold]], Settler[Hold]],
    ) -> None:
        self._holdings = holdings
        self._rng = rng
        self._closing = asyncio.Event()
        self._settler = make(self)
        self.given_up = 0
        """Number of verdicts that were not carried out because the worker had to end."""

    async def settle(self, hold: Hold, verdict: Verdict, *, regardless: bool = False) -> bool:
        """Carry out a verdict and emit its event; on failure the message is delivered again.

        Args:
            hold: the message.
            verdict: the verdict.
            regardless: True to carry it out even if another worker may have the message.

        Returns:
            True if it was carried out.
        """
        is_elsewhere = (hold.lost or hold.shared) and not regardless
        try:
            if is_elsewhere and not isinstance(verdict.action, Ack):
                return False  # it is visible, or held by another worker, whose verdict counts
            return await self._settler.settle(hold, verdict) != "failed"
        finally:
            self._holdings.drop(hold)

    def hurry(self) -> None:
        """Send the deletes that linger now."""
        self._settler.hurry()

    def close(self) -> None:
        """Stop insisting: requests that fail from now on are given up after one more round."""
        self._closing.set()

    async def drain(self) -> None:
        """Send all requests that still linger."""
        await self._settler.drain()

    # --- the keeper of its settler ---------------------------------------------------------------

    def deletes(self, kept: Hold) -> bool:
        """Return True, unless SQS has deleted the message itself."""
        return not kept.outlived

    def lost(self, kept: Hold) -> bool:
        """Return True if the hold's receipt was lost."""
        return kept.lost

    async def insists(self, kept: Hold, refusals: int) -> bool:
        """Pause, and return True until the worker ends; the heartbeat keeps the message hidden."""
        if self._closing.is_set():
            self.given_up += 1
            return False
        self._holdings.set_aside(kept)
        with suppress(TimeoutError):
            async with asyncio.timeout(_ROUNDS.delay_s(min(refusals, 10), self._rng)):
                await self._closing.wait()
        return True

    def waiting(self, kept: Hold) -> None:
        """Let others be received while a job of a bundle waits for the rest."""
        self._holdings.set_aside(kept)

    def deleting(self, kept: Hold) -> None:
        """Note that an unknown receipt is no loss from now on."""
        for hold in self._holdings.together(kept):
            hold.deleting = True

    async def showing(self, kept: Hold) -> None:
        """End the extensions of a hold."""
        kept.closing = True
        if kept.beats:
            # An extension that overtook this change would undo it.
            await asyncio.wait(kept.beats)
