"""This worker's part of a fleet limit, leased from the table.

A limit is a number of tokens: slots, or starts within a period. Each worker leases some of them,
uses only those, and publishes them to the others in one item per limit:

    pk  limit#NAME   sk  leases   data  {"leases": {WORKER: {"tokens", "until", "hungry", "rank"}}}

The rank is that of the most urgent priority whose jobs the worker could start; older versions leave
it out. A worker with a job that needs more tokens at once than it has adds ``large``: how many, and
since when.

The leased tokens never add up to more than the limit, so it holds by construction. A job costs no
request, a lease one request per renewal. `workers.limits.fair_shares` divides the tokens. A worker
stops using tokens before it publishes that it gives them up, and publishes those in use until they
are back. The tokens of a worker that died are free again once its lease, and any token that it may
have used until then, has expired. Clocks may differ by `jobs.core.clock.SKEW_S`.

A worker that can't reach the table starts nothing once its lease has expired, but what it runs goes
on. So slots are free only once their worker shows no sign of life either.

The item is replaced on the condition that no other worker has replaced it meanwhile; if one has,
the result shows the others' leases. See `jobs.core.ports.table.AsyncTable.replace`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from headgate.jobs.core.clock import SKEW_S, Clock
from headgate.jobs.core.naming import LIMIT
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.errors import ItemUnreadable, TransportError
from headgate.jobs.values.stored import mapping, number, whole
from headgate.workers.limits.fair_shares import (
    UNRANKED,
    LargeNeed,
    Need,
    ShareClaim,
    turn_of,
    wanted,
)

LEASE_S = 20.0
"""Duration of a lease."""

RENEW_S = 5.0
"""Seconds between renewals."""

_LARGE_S = 3 * RENEW_S
"""Time after which a job that needs several tokens, and is not asked about, has left."""

_FORGOTTEN = timedelta(hours=1)
"""Time after which an item that is no longer renewed expires."""

_MOST_TOKENS = 10**9

_TRIES = 6
"""Number of tries of a renewal, if other workers come first."""

_PAUSE_S = 0.02
"""Base of the pause before a third try; it doubles each time. The first try mostly just shows the
latest writes of other workers, so the second follows immediately."""


class Lease:
    """One worker's part of one limit.

    Args:
        table: the table that holds the leases.
        name: the limit's name, with the key if it counts by key.
        worker: this worker's name.
        limit: the total number of tokens.
        in_use: returns the number of tokens that this worker has out.
        lasting_s: how long a used token stays out after its worker has died; None until its job
            ends, as a slot does.
        may_run: returns True unless another worker is known to run nothing any more.
        rank: the rank of the most urgent priority whose jobs this worker can start under it.
        clock: tells the time.
        rng: adds jitter to renewals.
    """

    def __init__(
        self,
        table: AsyncTable,
        name: str,
        worker: str,
        limit: int,
        *,
        in_use: Callable[[], int],
        lasting_s: float | None,
        may_run: Callable[[str], bool],
        rank: int,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.name = name
        self._table = table
        self._worker = worker
        self._limit = limit
        self._in_use = in_use
        self._lasting_s = lasting_s or 0.0
        self._may_run = may_run if lasting_s is None else _runs_nothing
        self._rank = rank
        self._clock = clock
        self._rng = rng
        self._known = Item(pk=f"{LIMIT}{name}", sk="leases")
        """The item as last known."""
        self._tokens = 0
        self._ends_at = float("-inf")
        """End of this lease, on the monotonic clock."""
        self.next_renewal = float("-inf")
        """Time at which it should be renewed, on the monotonic clock."""
        self._need = Need.HUNGRY  # a job may have waited before the first renewal
        self._large: LargeNeed | None = None
        self._large_asked_at = float("-inf")
        """Time at which that was last asked for, on the monotonic clock."""
        self.fault = ""
        """Reason why the last renewal failed; empty if it succeeded."""
        self.skipped = 0
        """Leases of others that no worker can have written, when the item was read last."""
        self._closed = False
        self._writing = asyncio.Lock()

    @property
    def tokens(self) -> int:
        """The number of tokens that this worker may use now; 0 once its lease has expired."""
        return self._tokens if self.stands else 0

    @property
    def stands(self) -> bool:
        """True while the lease has been renewed and has not expired: the table shows its tokens."""
        is_over = self._closed or self._clock.monotonic() >= self._ends_at
        return not is_over

    def ask(self, *, enough: bool, needs: int | None = None) -> None:
        """Note that jobs wait or are looked for, and whether the tokens were enough.

        Args:
            enough: whether they were.
            needs: the tokens that the next job needs at once; 0 once it has them.
        """
        if needs is not None:
            self._ask_large(needs)
        if not enough:
            self._need = Need.HUNGRY
        elif self._need is Need.IDLE:
            self._need = Need.ENOUGH

    def _ask_large(self, needs: int) -> None:
        if not needs:
            self._large = None
        elif self._large is None or self._large.tokens != needs:
            self._large = LargeNeed(self._clock.now().timestamp(), needs)
        self._large_asked_at = self._clock.monotonic()

    async def renew(self) -> None:
        """Renew it; ask for more tokens, or give back those that others need.

        A failure is not raised but stored in `fault`.
        """
        now = self._clock.monotonic()
        self.next_renewal = now + RENEW_S * self._rng.uniform(0.8, 1.2)
        self.fault = "too many workers asked at once"
        try:
            async with self._writing:
                await self._renewed()
        except ItemUnreadable as error:
            self.fault = str(error)
            await self._clear()
        except TransportError as error:
            self.fault = str(error)

    async def _renewed(self) -> None:
        for attempt in range(_TRIES):
            if self._closed or await self._try():
                self.fault, self._need = "", Need.IDLE
                return
            if attempt:
                await asyncio.sleep(self._rng.random() * _PAUSE_S * 2**attempt)

    async def _clear(self) -> None:
        """Delete an item that no worker can have written: it would stop all that is limited."""
        self._known = Item(pk=self._known.pk, sk=self._known.sk)
        try:
            await self._table.delete([(self._known.pk, self._known.sk)])
        except TransportError as error:
            self.fault = str(error)

    async def close(self) -> None:
        """Give it back for good; best effort, since it expires otherwise."""
        self._closed = True
        async with self._writing:  # a later renewal would take the lease again
            if self._ends_at > float("-inf"):
                await self._give_back()

    async def _give_back(self) -> None:
        for _ in range(_TRIES):
            now, in_use = self._clock.now().timestamp(), self._in_use()
            if await self._write(_entry(in_use, now) if in_use else None):
                return

    async def _try(self) -> bool:
        started, now = self._clock.monotonic(), self._clock.now().timestamp()
        in_use, need = self._in_use(), self._need
        others = {name: _claim(entry, self._limit, now) for name, entry in self._living().items()}
        large = self._waiting_large(started)
        mine = ShareClaim(self.tokens, need is Need.HUNGRY, large, self._rank)
        goal = wanted(self._limit, self._worker, mine, in_use, need, others, turn_of(now))
        # Tokens given up are unused before that is published; new ones are used only after.
        self._tokens = min(self._tokens, goal)
        if not await self._write(_entry(max(goal, in_use), now + LEASE_S, mine)):
            return False
        self._tokens, self._ends_at = goal, started + LEASE_S
        return True

    def _waiting_large(self, now: float) -> LargeNeed | None:
        """Return the job that needs more tokens at once than are leased, unless it has left."""
        if self._large_asked_at + _LARGE_S <= now:
            self._large = None
        return self._large

    async def _write(self, mine: Mapping[str, Any] | None) -> bool:
        """Replace the item if it is unchanged; otherwise learn its new state and return False."""
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
        """Return the leases of others whose tokens may still be out."""
        now = self._clock.now().timestamp()
        found = mapping(self._known.data.get("leases", {})) or {}
        leases = {name: entry for name, entry in found.items() if _is_lease(entry, now)}
        self.skipped = len(found) - len(leases)
        oldest = now - SKEW_S - self._lasting_s
        return {
            name: entry
            for name, entry in leases.items()
            if name != self._worker and (entry["until"] > oldest or self._may_run(name))
        }


def _runs_nothing(_worker: str) -> bool:
    return False


_NOTHING = ShareClaim(0, hungry=False)


def _entry(tokens: int, until: float, claim: ShareClaim = _NOTHING) -> dict[str, Any]:
    entry: dict[str, Any] = {"tokens": tokens, "until": until, "hungry": claim.hungry}
    if claim.large is not None:
        entry["large"] = {"tokens": claim.large.tokens, "since": claim.large.since}
    if claim.rank != UNRANKED:
        entry["rank"] = claim.rank
    return entry


def _claim(entry: Mapping[str, Any], limit: int, now: float) -> ShareClaim:
    if entry["until"] <= now - SKEW_S:
        return ShareClaim(entry["tokens"], hungry=False)  # out, and of no use to its worker
    large = mapping(entry.get("large")) or {}
    tokens, since = whole(large.get("tokens"), most=limit), number(large.get("since"))
    need = None if tokens is None or since is None else LargeNeed(since, tokens)
    rank = whole(entry.get("rank", UNRANKED), most=UNRANKED)
    return ShareClaim(entry["tokens"], entry["hungry"], need, UNRANKED if rank is None else rank)


def _is_lease(entry: Any, now: float) -> bool:
    """Return True if a worker can have written an entry: none lasts for longer than `LEASE_S`."""
    return (
        isinstance(entry, Mapping)
        and whole(entry.get("tokens"), most=_MOST_TOKENS) is not None
        and number(entry.get("until"), most=now + LEASE_S + SKEW_S) is not None
        and isinstance(entry.get("hungry"), bool)
    )
