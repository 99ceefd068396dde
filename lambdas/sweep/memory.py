"""The state that sweeps of the dead letters keep between runs, in the app's table.

    pk  dead-letters#QUEUE   sk  MESSAGE_ID   data  {"told": BOOLEAN, "saved": BOOLEAN, "left"?}
    pk  sweep                sk  lease        while a sweep is under way, until it would have ended
    pk  sweep                sk  summary      after a summary, until the next one is due

A message with an item has been counted. Only the sweep with the lease writes, so nothing else needs
a condition. An item outlives its message, and then expires.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta

from headgate.jobs.core.batching import TRIES, pause_s
from headgate.jobs.core.clock import SKEW_S, Clock
from headgate.jobs.core.naming import SWEEP, SWEPT
from headgate.jobs.core.ports.table import MAX_PUT, Item, Table
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.deployment.sweep_plan import SUMMARY_EVERY, ParkingQueue
from headgate.jobs.errors import ItemUnreadable, Throttled
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog

_MARGIN = timedelta(days=1)
"""Time for which an item outlives its message, since clocks and SQS's deletion may differ."""

_log = OwnLog("headgate.sweep")

_LEASE, _SUMMARY = "lease", "summary"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The state of a message."""

    told: bool = False
    """True once people have been told."""
    saved: bool = False
    """True once there is a copy in the bucket."""
    left: bool = False
    """True once a policy could not have it sent back, so that it waits for a person."""


class SweepMemory:
    """The sweeps' view of the table. Any method may raise a `TransportError`."""

    def __init__(
        self, table: Table, clock: Clock, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._table = table
        self._clock = clock
        self._sleep = sleep
        self._rng = random.Random()  # noqa: S311 - spreads tries, keeps no secret

    @contextmanager
    def leased(self, lasting: timedelta) -> Iterator[bool]:
        """Hold the lease for at most ``lasting``; yields False if another sweep has it."""
        until = self._clock.now() + lasting
        # Version 1 is refused while there is a lease that has not expired.
        lease = Item(pk=SWEEP, sk=_LEASE, version=1, expires_at=until)
        if not self._took(lease, until):
            yield False
            return
        try:
            yield True
        finally:
            if self._clock.now() < until:  # otherwise another sweep may have it by now
                self._table.delete([(SWEEP, _LEASE)])

    def known(self, queue: ParkingQueue) -> Mapping[str, Known]:
        """Return the states of a queue's messages, by their SQS ids."""
        items = self._table.query(_partition(queue))
        found = {item.sk: known for item in items if (known := _read(item)) is not None}
        if strange := len(items) - len(found):
            _log.warning(
                "%d items of %s are none that a sweep has written: left out", strange, queue.name
            )
        return found

    def remember(self, queue: ParkingQueue, changed: Iterable[tuple[DeadLetter, Known]]) -> None:
        """Write the states of some messages."""
        self._put([_item(queue, letter, known) for letter, known in changed])

    def summary_is_due(self) -> bool:
        """Return True if the last summary is long enough ago."""
        try:
            standing = self._table.get(SWEEP, _SUMMARY)
        except ItemUnreadable as error:
            _log.warning("%s", error)
            return True
        return standing is None or self._outlasts(standing, self._clock.now() + SUMMARY_EVERY)

    def summarized(self) -> None:
        """Record that a summary was sent just now."""
        quiet_until = self._clock.now() + SUMMARY_EVERY
        self._put([Item(pk=SWEEP, sk=_SUMMARY, expires_at=quiet_until)])

    def _took(self, lease: Item, until: datetime) -> bool:
        """Write the lease, unless another sweep has it."""
        try:
            standing = self._table.replace(lease)
        except ItemUnreadable as error:
            _log.warning("%s", error)
        else:
            if standing is None or not self._outlasts(standing, until):
                return standing is None
        # No sweep has written it, and it would keep all of them away.
        self._table.delete([(lease.pk, lease.sk)])
        return self._table.replace(lease) is None

    def _outlasts(self, standing: Item, longest: datetime) -> bool:
        """Return True if an item stands for longer than any that a sweep writes, or for ever."""
        skew = timedelta(seconds=SKEW_S)
        return standing.expires_at is None or standing.expires_at > longest + skew

    def _put(self, items: list[Item]) -> None:
        for start in range(0, len(items), MAX_PUT):
            left = self._table.put(items[start : start + MAX_PUT])
            for tries in range(1, TRIES):
                if left:
                    self._sleep(pause_s(tries, self._rng))
                    left = self._table.put(left)
            if left:
                raise Throttled(
                    f"the table did not take {len(left)} items of what a sweep remembers: the next "
                    "sweep counts and reports these dead letters again"
                )


def _item(queue: ParkingQueue, letter: DeadLetter, known: Known) -> Item:
    return Item(
        pk=_partition(queue),
        sk=letter.message_id,
        data={"told": known.told, "saved": known.saved} | ({"left": True} if known.left else {}),
        expires_at=letter.deleted_at(queue.retention) + _MARGIN,
    )


def _read(item: Item) -> Known | None:
    told, saved = item.data.get("told"), item.data.get("saved")
    if not isinstance(told, bool) or not isinstance(saved, bool):
        return None
    return Known(told=told, saved=saved, left=item.data.get("left") is True)


def _partition(queue: ParkingQueue) -> str:
    return f"{SWEPT}{queue.name}"
