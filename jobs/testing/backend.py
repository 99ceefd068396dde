"""AWS in memory as the backend of clients, workers and functions; see `jobs.core.backend`."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Generic, overload

from pydantic_core import from_json
from typing_extensions import TypeVar  # with a default

from headgate.jobs.core.backend import AsyncPorts, Ports
from headgate.jobs.core.batcher import Pacing
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.events import Events
from headgate.jobs.core.immediate import ImmediateKeys, ImmediateLock, ImmediateSecretStore
from headgate.jobs.core.keys.key_ring import KeyRing
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import keyring_of
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.inputs import read_input
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.testing.clock import VirtualClock
from headgate.jobs.testing.memory.keys import MemoryKeys
from headgate.jobs.testing.memory.metrics import MemoryMetrics
from headgate.jobs.testing.memory.scheduler import MemoryScheduler
from headgate.jobs.testing.memory.secrets import MemorySecrets
from headgate.jobs.testing.memory.sqs import MemorySqs
from headgate.jobs.testing.memory.store import MemoryStore
from headgate.jobs.testing.memory.table import MemoryTable

C = TypeVar("C", bound=Clock, default=VirtualClock)

_UNWORKED_WAIT_S = 3600.0
"""Time enough for a `Harness.adrain` beside the wait, in the same event loop, to run the job."""


class MemoryBackend(Generic[C]):
    """AWS in memory, for one app: the ``backend=`` of clients, workers and functions in tests.

    All that are given the same one share its queues, table, schedules, objects and time.

    Args:
        app: the app, whose queues are created, now or as it declares them.
        clock: tells the time; None makes a `VirtualClock`, which pauses move on instead of waiting.
        has_worker: False says that nothing runs the jobs while somebody waits for them: a wait
            without a timeout is given up after an hour, since it would never end.

    Example:
        >>> backend = MemoryBackend(app)  # doctest: +SKIP
        >>> with Client(app, backend=backend) as client:
        ...     client.submit(send_email, Email(to="a@b.example"), delay=timedelta(days=3))
        >>> backend.clock.advance(timedelta(days=3))
        >>> [message] = backend.sqs.messages("shop-jobs-normal")
    """

    @overload
    def __init__(
        self: MemoryBackend[VirtualClock], app: App, *, has_worker: bool = True
    ) -> None: ...
    @overload
    def __init__(self, app: App, *, clock: C, has_worker: bool = True) -> None: ...
    def __init__(self, app: App, *, clock: Clock | None = None, has_worker: bool = True) -> None:
        self._app = app
        self._unworked_wait_s = None if has_worker else _UNWORKED_WAIT_S
        self.clock: C = clock or VirtualClock()  # type: ignore[assignment]  # as in the overloads
        """The time of all that runs on this backend."""
        self.sqs = MemorySqs(self.clock, declared=lambda: app.topology)
        """The app's queues, those too that it declares later."""
        self.sqs.provision(app.topology)
        self.table = MemoryTable(self.clock)
        """The app's table."""
        self.store = MemoryStore(clock=self.clock)
        """The app's bucket."""
        self.keys = MemoryKeys()
        """The key service of an app with ``encryption=``."""
        self._ring = KeyRing(ImmediateKeys(self.keys.sync), lock=ImmediateLock, clock=self.clock)
        self._async_ring = KeyRing(self.keys, lock=asyncio.Lock, clock=self.clock)
        self.metrics = MemoryMetrics()
        """CloudWatch's metrics of the queues: none, unless a test puts some."""
        self.secrets = MemorySecrets()
        """The key that the app's messages are signed with."""
        self.scheduler = MemoryScheduler(self.clock, fire=self._fire)
        """Schedules and long delays; what is due is submitted as the clock moves on."""
        self.rng = random.Random(0)  # noqa: S311 - spreads pauses
        """Spreads pauses, in the same way in each test."""

    @property
    def ports(self) -> Ports:
        """The surroundings of synchronous code."""
        return Ports(
            transport=self.sqs.sync,
            table=self.table.sync,
            scheduler=self.scheduler.sync,
            store=self.store.sync,
            keys=self._ring,
            metrics=self.metrics.sync,
            secrets=self.secrets.sync,
            clock=self.clock,
            sleep=self._pass,
            rng=self.rng,
            look_wait_s=self._look_wait_s,
            unworked_wait_s=self._unworked_wait_s,
        )

    @property
    def async_ports(self) -> AsyncPorts:
        """The surroundings of code in an event loop."""
        return AsyncPorts(
            transport=self.sqs,
            table=self.table,
            scheduler=self.scheduler,
            store=self.store,
            keys=self._async_ring,
            metrics=self.metrics,
            secrets=self.secrets,
            clock=self.clock,
            sleep=self._async_pass,
            rng=self.rng,
            pacing=Pacing(on_landing=True),
            look_wait_s=self._look_wait_s,
            unworked_wait_s=self._unworked_wait_s,
        )

    @property
    def _look_wait_s(self) -> float:
        return 0.0 if isinstance(self.clock, VirtualClock) else 1.0

    def _fire(self, text: str) -> None:
        """Submit a firing's job, as the bridge does when a schedule invokes it."""
        routes = Routes.of(self._app)
        secrets = ImmediateSecretStore(self.secrets.sync)
        bridge = Bridge(
            self.sqs.sync,
            self.table.sync,
            self.clock.now,
            routes=routes,
            keyring=keyring_of(self._app, secrets, Threads(), self.clock, Events()),
        )
        bridge.submit(read_input(from_json(text)))

    def _pass(self, seconds: float) -> None:
        if isinstance(self.clock, VirtualClock):
            self.clock.advance(seconds)
        else:
            time.sleep(seconds)

    async def _async_pass(self, seconds: float) -> None:
        if isinstance(self.clock, VirtualClock):
            self.clock.advance(seconds)
            seconds = 0
        await asyncio.sleep(seconds)
