"""This worker's part of a limit that holds for the fleet, leased from the table.

A limit is so many tokens: slots, or starts within a while. Each worker leases some of them, counts
with those alone, and tells the others in one item per limit:

    pk  limit#NAME   sk  leases   data  {WORKER: {"tokens", "until", "hungry"}}

The leased tokens never add up to more than there are, so the limit holds by construction. A job
costs no request, a lease one each time that it is renewed. Who finds too few left says that it is
hungry; the others then give back what they have beyond an equal part, as far as it is not in use.
The tokens of a worker that died are free again once its lease, and whatever it may have used until
then, has run out. Clocks may differ by `SKEW_S`.

The item is replaced on the condition that nobody else has meanwhile, which also tells what the
others have. See `jobs.ports.Table.replace`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.clock import Clock
from jobs.errors import TransportError
from jobs.ports import Item, Table

LEASE_S = 20.0
"""How long a lease lasts."""

RENEW_S = 5.0
"""How often it is renewed."""

SKEW_S = 5.0
"""By how much the clocks of two workers may differ."""

_FORGOTTEN = timedelta(hours=1)
"""When an item that nobody renews any more may go."""

_TRIES = 5
"""So often a lease is asked for at once, if others come first."""


@dataclass(frozen=True, slots=True)
class _Other:
    """What another worker has, as it says."""

    tokens: int
    until: float
    hungry: bool


class Lease:
    """One worker's part of one limit.

    Args:
        table: where the leases are.
        name: of the limit, with the key if it counts by key.
        worker: this worker's name.
        limit: how many tokens there are.
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
        lasting_s: float,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.name = name
        self._table = table
        self._worker = worker
        self._limit = limit
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
        self.hungry = True
        """A job waited for a token since the last renewal, or may have before the first."""
        self.fault = ""
        """Why it could not be renewed, the last time that it was tried."""

    @property
    def tokens(self) -> int:
        """How many this worker may use now; none once its lease has run out."""
        return self._tokens if self._clock.monotonic() < self._ends_at else 0

    async def renew(self, in_use: int) -> None:
        """Renew it, and ask for more or give back what others need. A failure stands in `fault`.

        Args:
            in_use: tokens that are out.
        """
        now = self._clock.monotonic()
        self.next_renewal = now + RENEW_S * self._rng.uniform(0.8, 1.2)
        self.fault = "too many workers asked at once"
        try:
            for _ in range(_TRIES):
                if await self._try(in_use):
                    self.fault, self.hungry = "", False
                    return
        except TransportError as error:
            self.fault = str(error)

    async def close(self, in_use: int) -> None:
        """Give it back; best effort, since otherwise it runs out by itself."""
        if self._ends_at == float("-inf"):
            return
        self._ends_at = float("-inf")
        for _ in range(_TRIES):
            mine = _entry(in_use, self._clock.now().timestamp(), hungry=False) if in_use else None
            if await self._write(mine):
                return

    async def _try(self, in_use: int) -> bool:
        started = self._clock.monotonic()
        wanted = self._fair(in_use)
        # What is given back is given up before it is said, and what is new is used after.
        self._tokens = min(self._tokens, wanted)
        until = self._clock.now().timestamp() + LEASE_S
        if not await self._write(_entry(wanted, until, hungry=self.hungry and wanted <= in_use)):
            return False
        self._tokens, self._ends_at = wanted, started + LEASE_S
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

    def _fair(self, in_use: int) -> int:
        """How many to have: all that are left, or an equal part while others are hungry."""
        others = [
            _Other(entry["tokens"], entry["until"], entry["hungry"])
            for entry in self._living().values()
        ]
        left = max(0, self._limit - sum(other.tokens for other in others))
        if not any(other.hungry for other in others):
            return left
        equal = max(1, self._limit // (len(others) + 1))
        return min(left, max(equal, in_use))

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
