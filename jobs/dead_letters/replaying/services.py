"""The surroundings of replays, and what they look through."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.ports import AsyncObjectStore, AsyncTable, AsyncTransport
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.reading import read_letter, unread
from headgate.jobs.dead_letters.walk import AT_ONCE, HeldLetter, Walk
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.sweep_plan import ParkingQueue

WITHIN = timedelta(minutes=2)
"""Time for which one pass receives."""

HOLD = timedelta(minutes=3)
"""Time after which letters show again if the process is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayServices:
    """The surroundings of replays."""

    app: App
    transport: AsyncTransport
    table: AsyncTable
    store: AsyncObjectStore
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]
    rng: random.Random
    concurrency: Parallelism
    look_wait_s: float
    parking: Sequence[ParkingQueue]
    """The queues to look into."""
    is_stopping: Callable[[], bool] = lambda: False
    """Returns True once the process wants to end."""


def new_walk(services: ReplayServices, at_once: int = AT_ONCE) -> Walk:
    """Return a look through the dead-letter queues, with so many receives at the same time."""
    return Walk(
        services.transport,
        concurrency=services.concurrency,
        clock=services.clock,
        sleep=services.sleep,
        rng=services.rng,
        within=WITHIN,
        hold=HOLD,
        wait_s=services.look_wait_s,
        at_once=at_once,
    )


def safely_read(services: ReplayServices, held: HeldLetter) -> DeadLetter:
    """Read a message of a dead-letter queue, whoever has sent it there."""
    try:
        return read_letter(held.message, held.queue, services.app.topology)
    except Exception:  # noqa: BLE001 - of a stranger's message, which must not stop the others
        return unread(held.message, held.queue)
