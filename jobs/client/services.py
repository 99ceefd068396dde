"""The services of one client, which its look-ups and desks share."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from headgate.jobs.client.auditing.auditor import Auditor
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.definitions.app import App
from headgate.jobs.messages.sealing import Seals
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ClientServices:
    """The services of one client, over ports that are awaited."""

    app: App
    table: AsyncTable
    clock: Clock
    rng: random.Random
    concurrency: Parallelism
    sleep: Callable[[float], Awaitable[None]]
    store: AsyncObjectStore
    """Holds large payloads and results."""
    seals: Seals | None
    """Opens payloads, results and progress; None: the app seals nothing."""
    unworked_wait_s: float | None
    """As in `Ports`."""
    auditor: Auditor
    """Enters into the audit what is done through the client."""
