"""The surroundings of looks through an app's dead letters."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.ports.transport import AsyncTransport
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.reading import read_letter, unread
from headgate.jobs.dead_letters.walk import AT_ONCE, HeldLetter, Walk
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.sweep_plan import ParkingQueue, parking_queues
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class LetterServices:
    """The app whose dead letters are looked at, and services that are awaited."""

    app: App
    transport: AsyncTransport
    concurrency: Parallelism
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]
    rng: random.Random
    look_wait_s: float
    """Seconds that a receive waits for a message."""

    @property
    def parking(self) -> Sequence[ParkingQueue]:
        """The app's queues of dead letters."""
        return [*parking_queues(self.app.topology, has_bridge=True)]

    def walk(self, *, within: timedelta, hold: timedelta, at_once: int = AT_ONCE) -> Walk:
        """Return a look through queues of dead letters; the arguments are `Walk`'s."""
        return Walk(
            self.transport,
            concurrency=self.concurrency,
            clock=self.clock,
            sleep=self.sleep,
            rng=self.rng,
            within=within,
            hold=hold,
            wait_s=self.look_wait_s,
            at_once=at_once,
        )

    def read(self, held: HeldLetter) -> DeadLetter:
        """Read a message of a dead-letter queue, whoever has sent it there."""
        try:
            return read_letter(held.message, held.queue, self.app.topology)
        except Exception:  # noqa: BLE001 - of a stranger's message, which must not stop the others
            return unread(held.message, held.queue)
