"""``client.dead_letters``: what became of jobs that were given up, and what is to become of them.

`AsyncDeadLetters` is the awaited form of `DeadLetters`.
"""

from __future__ import annotations

from headgate.jobs.client.replaying import AsyncReplayer, Replayer
from headgate.jobs.core.backend import AsyncPorts, Ports
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.immediate import (
    ImmediateObjectStore,
    ImmediateTable,
    ImmediateTransport,
    immediate,
)
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.sweep_plan import parking_queues


class AsyncDeadLetters(AsyncReplayer):
    """The awaited form of `DeadLetters`, which also drives this class."""


class DeadLetters(Replayer):
    """The dead letters of an app: of its dead-letter queues, its quarantine and failed firings.

    Every method may raise a `TransportError`.
    """


def async_dead_letters(app: App, ports: AsyncPorts, concurrency: Parallelism) -> AsyncDeadLetters:
    """Return the dead letters of an asynchronous client."""
    return AsyncDeadLetters(
        ReplayServices(
            app=app,
            transport=ports.transport,
            table=ports.table,
            store=ports.store,
            clock=ports.clock,
            sleep=ports.sleep,
            rng=ports.rng,
            concurrency=concurrency,
            look_wait_s=ports.look_wait_s,
            parking=tuple(parking_queues(app.topology, has_bridge=True)),
        )
    )


def dead_letters(app: App, ports: Ports, concurrency: Parallelism) -> DeadLetters:
    """Return the dead letters of a synchronous client."""
    services = ReplayServices(
        app=app,
        transport=ImmediateTransport(ports.transport),
        table=ImmediateTable(ports.table),
        store=ImmediateObjectStore(ports.store),
        clock=ports.clock,
        sleep=immediate(ports.sleep),
        rng=ports.rng,
        concurrency=concurrency,
        look_wait_s=ports.look_wait_s,
        parking=tuple(parking_queues(app.topology, has_bridge=True)),
    )
    return DeadLetters(AsyncDeadLetters(services))
