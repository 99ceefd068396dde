"""The surroundings of replays, and what they look through."""

from __future__ import annotations

from datetime import timedelta

from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.dead_letters.surroundings import LetterServices
from headgate.jobs.dead_letters.walk import AT_ONCE, Walk
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
