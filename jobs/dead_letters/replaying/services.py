"""The surroundings of replays, and what they look through."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.replaying.options import ReplayOptions
from headgate.jobs.dead_letters.search import may_hold
from headgate.jobs.dead_letters.surroundings import LetterServices
from headgate.jobs.dead_letters.walk import AT_ONCE, Walk
from headgate.jobs.deployment.sweep_plan import ParkingQueue
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.messages.sealing import Seals
from headgate.jobs.values.light_dataclass import light_dataclass

WITHIN = timedelta(minutes=2)
"""The longest time for which one pass receives."""

HOLD = timedelta(minutes=3)
"""Time after which letters show again if the process is killed."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ReplayServices(LetterServices):
    """The surroundings of replays."""

    table: AsyncTable
    store: AsyncObjectStore
    seals: Seals | None
    """Seals and opens payloads; None: the app seals nothing."""
    keyring: Keyring | None = None
    """Checks the letters' signatures, and signs the messages that are sent in their place; None:
    the app's messages are not signed."""


def new_walk(
    services: ReplayServices, at_once: int = AT_ONCE, *, within: timedelta = WITHIN
) -> Walk:
    """Return a pass through the dead-letter queues, with so many receives at the same time."""
    return services.walk(within=within, hold=HOLD, at_once=at_once)


def places_of(services: LetterServices, chosen: DeadLetterFilter) -> Sequence[ParkingQueue]:
    """Return the queues that may hold letters that are chosen."""
    return [queue for queue in services.parking if may_hold(queue, chosen)]


def passed_through(
    services: LetterServices, chosen: DeadLetterFilter, options: ReplayOptions
) -> Sequence[ParkingQueue]:
    """Return the queues that a replay looks through: those that may hold letters that are chosen,
    and those that its jobs may die into again.

    These are the same unless it sends the jobs elsewhere, or the filter names a queue that has
    letters of several. Letters of the others stay visible to whoever needs them meanwhile.
    """
    parking, named = services.parking, {*chosen.queues}
    moves = options.priority is not None or options.as_type is not None
    if moves or any(each.kind != "dead-letters" and each.name in named for each in parking):
        return parking
    return places_of(services, chosen)
