"""Backends made of given parts; the parts that a test doesn't give are in memory."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from headgate.jobs.core.backend import (
    AsyncMetricReader,
    AsyncPorts,
    AsyncSecretStore,
    MetricReader,
    Ports,
    SecretStore,
)
from headgate.jobs.core.batcher import Pacing
from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.immediate import ImmediateKeys, ImmediateLock
from headgate.jobs.core.keys.key_ring import AsyncKeys, KeyRing, Keys
from headgate.jobs.core.ports.object_store import AsyncObjectStore, ObjectStore
from headgate.jobs.core.ports.scheduler import AsyncScheduler, Scheduler
from headgate.jobs.core.ports.table import AsyncTable, Table
from headgate.jobs.core.ports.transport import AsyncTransport, Sender, Transport
from headgate.jobs.testing.memory.keys import MemoryKeys
from headgate.testing import (
    MemoryMetrics,
    MemoryScheduler,
    MemorySecrets,
    MemoryStore,
    MemoryTable,
    VirtualClock,
)


@dataclass(frozen=True, slots=True)
class Given:
    """A `jobs.core.backend.Backend` of given ports."""

    ports: Ports


@dataclass(frozen=True, slots=True)
class AsyncGiven:
    """A `jobs.core.backend.AsyncBackend` of given ports."""

    async_ports: AsyncPorts


def over(
    transport: Sender,
    *,
    table: Table | None = None,
    scheduler: Scheduler | None = None,
    store: ObjectStore | None = None,
    keys: Keys | None = None,
    metrics: MetricReader | None = None,
    secrets: SecretStore | None = None,
    clock: Clock | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Given:
    """Return a backend for synchronous code over a transport."""
    clock = clock or SystemClock()
    return Given(
        Ports(
            transport=cast("Transport", transport),  # tests of submissions stand in for `send`
            table=table or MemoryTable(clock).sync,
            scheduler=scheduler or MemoryScheduler(clock).sync,
            store=store or MemoryStore().sync,
            keys=KeyRing(ImmediateKeys(keys or MemoryKeys().sync), lock=ImmediateLock, clock=clock),
            metrics=metrics or MemoryMetrics().sync,
            secrets=secrets or MemorySecrets().sync,
            clock=clock,
            sleep=sleep,
            rng=random.Random(0),  # noqa: S311 - spreads pauses
            look_wait_s=_look_wait_s(clock),
        )
    )


def async_over(
    transport: AsyncTransport,
    *,
    table: AsyncTable | None = None,
    scheduler: AsyncScheduler | None = None,
    store: AsyncObjectStore | None = None,
    keys: AsyncKeys | None = None,
    metrics: AsyncMetricReader | None = None,
    secrets: AsyncSecretStore | None = None,
    clock: Clock | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    pacing: Pacing = Pacing(),  # noqa: B008 - frozen
    rng: random.Random | None = None,
) -> AsyncGiven:
    """Return a backend for an event loop over a transport."""
    clock = clock or SystemClock()
    return AsyncGiven(
        AsyncPorts(
            transport=transport,
            table=table or MemoryTable(clock),
            scheduler=scheduler or MemoryScheduler(clock),
            store=store or MemoryStore(),
            keys=KeyRing(keys or MemoryKeys(), lock=asyncio.Lock, clock=clock),
            metrics=metrics or MemoryMetrics(),
            secrets=secrets or MemorySecrets(),
            clock=clock,
            sleep=sleep,
            rng=rng or random.Random(0),  # noqa: S311 - spreads pauses
            pacing=pacing,
            look_wait_s=_look_wait_s(clock),
        )
    )


def _look_wait_s(clock: Clock) -> float:
    return 0.0 if isinstance(clock, VirtualClock) else 1.0
