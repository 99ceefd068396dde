"""The leases of all limits of the fleet: renewed while they are of use, then given back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, LeaseFailed
from headgate.jobs.core.ports import Table
from headgate.jobs.errors import ConfigurationError, TransportError
from headgate.workers.limits.lease import Lease

_SOONEST_S = 0.001
"""A timer may fire a little before its time; what is due is looked at again no sooner than this."""

_IDLE_S = 60.0
"""A lease for one key of a limit that nobody has asked for so long is given back."""


@dataclass(slots=True)
class _Kept:
    lease: Lease
    in_use: Callable[[], int]
    asked_at: float


class Fleet:
    """Keeps this worker's leases.

    Args:
        table: where they are; None if there are no limits of the fleet.
        worker: this worker's name.
        clock: tells the time.
        events: hears of renewals that failed.
        rng: spreads renewals.
        on_change: called when there may be more tokens than before.
    """

    def __init__(
        self,
        table: Table | None,
        worker: str,
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
        on_change: Callable[[], None],
    ) -> None:
        self._table = table
        self._worker = worker
        self._clock = clock
        self._events = events
        self._rng = rng
        self._on_change = on_change
        self._kept: dict[str, _Kept] = {}
        self._news = asyncio.Event()

    def lease(self, name: str, limit: int, *, lasting_s: float, in_use: Callable[[], int]) -> Lease:
        """The lease of a limit; made when it is first asked for, and empty until it is renewed.

        Args:
            name: of the limit, with the key if it counts by key.
            limit: tokens of the fleet.
            lasting_s: how long a token that was used is out although its worker has died.
            in_use: how many this worker has out.

        Raises:
            ConfigurationError: there is no table.
        """
        now = self._clock.monotonic()
        if (kept := self._kept.get(name)) is not None:
            kept.asked_at = now
            return kept.lease
        if self._table is None:
            raise ConfigurationError(f"the limit {name!r} of the fleet is leased in a table")
        lease = Lease(
            self._table,
            name,
            self._worker,
            limit,
            in_use=in_use,
            lasting_s=lasting_s,
            clock=self._clock,
            rng=self._rng,
        )
        self._kept[name] = _Kept(lease, in_use, now)
        self._news.set()
        return lease

    @property
    def stands(self) -> bool:
        """True if every lease does, so that the table has told how much each limit leaves."""
        return all(kept.lease.stands for kept in self._kept.values())

    async def run(self) -> NoReturn:
        """Renew what is due, until cancelled."""
        while True:
            self._news.clear()
            now = self._clock.monotonic()
            due = [kept for kept in self._kept.values() if kept.lease.next_renewal <= now]
            if due:
                await asyncio.gather(*(self._renew(kept) for kept in due))
                await self._drop_idle()
                self._on_change()
            await self._until_due()

    async def close(self) -> None:
        """Give everything back; what fails runs out by itself."""
        for kept in self._kept.values():
            with suppress(TransportError):
                await kept.lease.close()
        self._kept.clear()

    async def _renew(self, kept: _Kept) -> None:
        before = kept.lease.fault
        await kept.lease.renew()
        if kept.lease.fault and kept.lease.fault != before:
            self._events.emit(
                LeaseFailed(at=self._clock.now(), limit=kept.lease.name, error=kept.lease.fault)
            )

    async def _drop_idle(self) -> None:
        """Keys come and go: what nobody asks for any more must not be renewed for ever."""
        oldest = self._clock.monotonic() - _IDLE_S
        for name, kept in [*self._kept.items()]:
            if "#" in name and kept.asked_at < oldest and not kept.in_use():
                del self._kept[name]
                with suppress(TransportError):
                    await kept.lease.close()

    async def _until_due(self) -> None:
        due_at = min((kept.lease.next_renewal for kept in self._kept.values()), default=None)
        wait_s = None if due_at is None else max(_SOONEST_S, due_at - self._clock.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._news.wait()
