"""This worker's part of a limit that holds for the fleet, leased from the table.

A limit is so many tokens: slots, or starts within a while. Each worker leases some of them, counts
with those alone, and tells the others in one item per limit:

    pk  limit#NAME   sk  leases   data  {WORKER: {"tokens", "until", "hungry"}}

The leased tokens never add up to more than there are, so the limit holds by construction. A job
costs no request, a lease one each time that it is renewed. Who gets how many:
`workers.limits.fair_shares`. What a worker gives up it uses no more from then on, and says so once
it is back. The tokens of a worker that died are free again once its lease, and whatever it may have
used until then, has run out. Clocks may differ by `jobs.core.clock.SKEW_S`.

The item is replaced on the condition that nobody else has meanwhile, which also tells what the
others have. See `jobs.core.ports.Table.replace`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from headgate.jobs.core.clock import SKEW_S, Clock
from headgate.jobs.core.ports import Item, Table
from headgate.jobs.errors import TransportError
from headgate.workers.limits.fair_shares import Claim, Need, wanted

LEASE_S = 20.0
"""How long a lease lasts."""

RENEW_S = 5.0
"""How often it is renewed."""

_FORGOTTEN = timedelta(hours=1)
"""When an item that nobody renews any more may go."""

_TRIES = 6
"""So often a renewal is tried, if others come first."""

_PAUSE_S = 0.02
"""About so long until a third try, and twice as long each time. The first mostly just tells what
others have written meanwhile, so the second follows at once."""


class Lease:
    """One worker's part of one limit.

    Args:
        table: where the leases are.
        name: of the limit, with the key if it counts by key.
        worker: this worker's name.
        limit: how many tokens there are.
        in_use: tells how many this worker has out.
        lasting_s: how long a token that was used is out although its worker has died.
        clock: tells the time.
        rng: picks the moment of renewals.
    """

    def __init__(
        self,
        table: Table,
        name: str,
        worker: str,
        limit: int,
        *,
        in_use: Callable[[], int],
        lasting_s: float,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.name = name
        self._table = table
        self._worker = worker
        self._limit = limit
        self._in_use = in_use
        self._lasting_s = lasting_s
        self._clock = clock
        self._rng = rng
        self._known = Item(pk=f"limit#{name}", sk="leases")
        """What stands there, as far as it is known."""
        self._tokens = 0
        self._ends_at = float("-inf")
        """When this lease ends, on the monotonic clock."""
        self.next_renewal = float("-inf")
        """When it should be renewed, on the monotonic clock."""
        self._need = Need.HUNGRY  # a job may have waited before the first renewal
        self.fault = ""
        """Why it could not be renewed, the last time that it was tried."""
        self._closed = False
        self._writing = asyncio.Lock()

    @property
    def tokens(self) -> int:
        """How many this worker may use now; none once its lease has run out."""
        return self._tokens if self.stands else 0

    @property
    def stands(self) -> bool:
        """True if it was renewed, and has not run out since: the table says what it holds."""
        is_over = self._closed or self._clock.monotonic() >= self._ends_at
        return not is_over

    def ask(self, *, enough: bool) -> None:
        """Let it know that jobs are there, or looked for, and whether the tokens did."""
        if not enough:
            self._need = Need.HUNGRY
        elif self._need is Need.IDLE:
            self._need = Need.ENOUGH

    async def renew(self) -> None:
        """Renew it, and ask for more or give back what others need. A failure stands in `fault`."""
        now = self._clock.monotonic()
        self.next_renewal = now + RENEW_S * self._rng.uniform(0.8, 1.2)
        self.fault = "too many workers asked at once"
        try:
            async with self._writing:
                await self._renewed()
        except TransportError as error:
            self.fault = str(error)

    async def _renewed(self) -> None:
        for attempt in range(_TRIES):
            if self._closed or await self._try():
                self.fault, self._need = "", Need.IDLE
                return
            if attempt:
                await asyncio.sleep(self._rng.random() * _PAUSE_S * 2**attempt)

    async def close(self) -> None:
        """Give it back for good; best effort, since otherwise it runs out by itself."""
        self._closed = True
        async with self._writing:  # a renewal that came after would take it again
            if self._ends_at > float("-inf"):
                await self._give_back()

    async def _give_back(self) -> None:
        for _ in range(_TRIES):
            now, in_use = self._clock.now().timestamp(), self._in_use()
            if await self._write(_entry(in_use, now, hungry=False) if in_use else None):
                return

    async def _try(self) -> bool:
        started, in_use, hungry = self._clock.monotonic(), self._in_use(), self._need is Need.HUNGRY
        others = {
            name: Claim(entry["tokens"], entry["hungry"]) for name, entry in self._living().items()
        }
        goal = wanted(self._limit, self._worker, self.tokens, in_use, self._need, others)
        # What is given up is no longer used before it is said, and what is new is used after.
        self._tokens = min(self._tokens, goal)
        until = self._clock.now().timestamp() + LEASE_S
        if not await self._write(_entry(max(goal, in_use), until, hungry=hungry)):
            return False
        self._tokens, self._ends_at = goal, started + LEASE_S
        return True

    async def _write(self, mine: Mapping[str, Any] | None) -> bool:
        """Replace the item if it still is what is known; else it is known what it is now."""
        leases = dict(self._living())
        if mine is not None:
            leases[self._worker] = mine
        known = self._known
        item = Item(
            pk=known.pk,
            sk=known.sk,
            data={"leases": leases},
            version=known.version + 1,
            expires_at=self._clock.now() + timedelta(seconds=self._lasting_s) + _FORGOTTEN,
        )
        standing = await self._table.replace(item)
        self._known = item if standing is None else standing
        return standing is None

    def _living(self) -> dict[str, Mapping[str, Any]]:
        """The leases of others that have not run out for good."""
        leases: Mapping[str, Mapping[str, Any]] = self._known.data.get("leases", {})
        oldest = self._clock.now().timestamp() - SKEW_S - self._lasting_s
        return {
            name: entry
            for name, entry in leases.items()
            if name != self._worker and entry["until"] > oldest
        }


def _entry(tokens: int, until: float, *, hungry: bool) -> dict[str, Any]:
    return {"tokens": tokens, "until": until, "hungry": hungry}
