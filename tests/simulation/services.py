"""AWS in a life: the project's in-memory services, observed from within."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from unittest import mock

from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.topology import Topology
from headgate.jobs.testing import MemoryScheduler, MemorySqs, MemoryStore, MemoryTable, MemoryTopic
from headgate.jobs.testing.memory import sqs as memory_module
from headgate.jobs.testing.memory.keys import MemoryKeys
from headgate.jobs.testing.memory.secrets import MemorySecrets
from tests.simulation.actors import Actor, ActorClock
from tests.simulation.entropy import stream
from tests.simulation.faults import Faults
from tests.simulation.ledger import Ledger
from tests.simulation.links import Link
from tests.simulation.plan import Plan
from tests.simulation.queues import Watch, WatchedQueue


class Aws:
    """The services of one life."""

    def __init__(
        self, plan: Plan, topology: Topology, ledger: Ledger, *, fire: Callable[[str], None]
    ) -> None:
        self.clock = ActorClock(0.0)
        self.ledger = ledger
        self.watch = Watch(ledger, topology, stream(plan.seed, "queues"))
        self.sqs = MemorySqs(self.clock, old_receipts_work=plan.old_receipts_work)
        watched = type("WatchedQueue", (WatchedQueue,), {"watch": self.watch})
        with mock.patch.object(memory_module, "MemoryQueue", watched):
            self.sqs.provision(topology)
            self.sqs.create_queue(topology.failed_firings_name, retention=timedelta(days=14))
        self.table = MemoryTable(self.clock)
        self.store = MemoryStore(clock=self.clock)
        self.scheduler = MemoryScheduler(self.clock, fire=fire)
        self.topic = MemoryTopic()
        self.keys = MemoryKeys()
        self.secrets = MemorySecrets()
        self.faults = Faults(plan, ledger)

    def queue(self, name: str) -> WatchedQueue:
        found = self.sqs._queues[name]
        assert isinstance(found, WatchedQueue)
        return found

    async def take(self, poller: Actor, name: str, limit: int) -> list[ReceivedMessage]:
        """Receive from a queue, however long that takes."""
        queue = self.queue(name)
        with queue.bell.listening() as rung:
            while True:
                rung.clear()
                with poller.acting():
                    received = self.sqs.receive_now(name, limit, None)
                if received:
                    return received
                wait_s = queue.next_appearance_s() - self.clock.monotonic()
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if wait_s == math.inf else max(wait_s, 0.001)):
                        await rung.wait()

    def link(self, actor: Actor) -> Link:
        """Make an actor's connection to AWS."""
        return Link(self, actor)
