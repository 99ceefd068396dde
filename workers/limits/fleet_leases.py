"""The leases of all fleet limits: renewed while they are in use, then given back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events, ItemsSkipped, LeaseFailed
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.errors import ConfigurationError, TransportError
from headgate.workers.limits.lease import Lease

_SOONEST_S = 0.001
"""Minimum wait before leases are checked again, since a timer may fire slightly early."""

_IDLE_S = 60.0
"""Time after which an unused lease for one key of a limit is given back."""


@dataclass(slots=True)
class _Kept:
    lease: Lease
    in_use: Callable[[], int]
    asked_at: float
    fault: str = ""
    """Reason why the last renewal failed; empty if it succeeded."""


class FleetLeases:
    """Keeps this worker's leases.

    Args:
        table: the table that holds them; None if there are no fleet limits.
        worker: this worker's name.
        clock: tells the time.
        events: receives an event when renewals fail, once for each fault.
        rng: adds jitter to renewals.
        may_run: returns True unless another worker is known to run nothing any more.
        on_renewed: called with the names of the limits that may have more tokens than before.
    """

    def __init__(
        self,
        table: AsyncTable | None,
        worker: str,
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
        may_run: Callable[[str], bool],
        on_renewed: Callable[[Sequence[str]], None],
    ) -> None:
        self._table = table
        self._worker = worker
        self._clock = clock
        self._events = events
        self._rng = rng
        self._may_run = may_run
        self._on_renewed = on_renewed
        self._kept: dict[str, _Kept] = {}
        self._news = asyncio.Event()

    def lease(
        self,
        name: str,
        limit: int,
        *,
        lasting_s: float | None,
        rank: int,
        in_use: Callable[[], int],
    ) -> Lease:
        """Return the lease of a limit, made on the first call, and empty until it is renewed.

        Args:
            name: the limit's name, with the key if it counts by key.
            limit: the fleet's number of tokens.
            lasting_s: how long a used token stays out after its worker has died; None until its job
                ends.
            rank: the rank of the most urgent priority whose jobs this worker can start under it.
            in_use: returns the number of tokens that this worker has out.

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
            may_run=self._may_run,
            rank=rank,
            clock=self._clock,
            rng=self._rng,
        )
        self._kept[name] = _Kept(lease, in_use, now)
        self._news.set()
        return lease

    @property
    def stands(self) -> bool:
        """True while every lease is valid, so that the table has shown what each limit leaves."""
        return all(kept.lease.stands for kept in self._kept.values())

    @property
    def fault(self) -> str:
        """A limit whose lease can't be renewed now, and the reason; empty without one."""
        return next(
            (f"{name}: {kept.fault}" for name, kept in self._kept.items() if kept.fault), ""
        )

    async def run(self) -> NoReturn:
        """Renew leases when they are due, until cancelled."""
        while True:
            self._news.clear()
            now = self._clock.monotonic()
            due = [kept for kept in self._kept.values() if kept.lease.next_renewal <= now]
            if due:
                await asyncio.gather(*(self._renew(kept) for kept in due))
                await self._drop_idle()
                self._on_renewed([kept.lease.name for kept in due])
            await self._until_due()

    async def close(self) -> None:
        """Give all leases back; those that fail to be returned expire."""
        for kept in self._kept.values():
            with suppress(TransportError):
                await kept.lease.close()
        self._kept.clear()

    async def _renew(self, kept: _Kept) -> None:
        before, skipped = kept.fault, kept.lease.skipped
        await kept.lease.renew()
        kept.fault = kept.lease.fault
        if kept.lease.skipped > skipped:
            self._tell_skipped(kept.lease)
        if kept.fault and kept.fault != before:
            self._events.emit(
                LeaseFailed(at=self._clock.now(), limit=kept.lease.name, error=kept.fault)
            )

    def _tell_skipped(self, lease: Lease) -> None:
        at = self._clock.now()
        told = ItemsSkipped(at=at, kind="lease", items=lease.skipped, detail=lease.name)
        self._events.emit(told)

    async def _drop_idle(self) -> None:
        """Give back leases of unused keys, which must not be renewed forever."""
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
