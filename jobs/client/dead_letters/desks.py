"""``client.dead_letters``: what became of jobs that were given up, and what is to become of them.

`AsyncDeadLetters` is the awaited form of `DeadLetters`.
"""

from __future__ import annotations

from headgate.jobs.client.dead_letters.copying import AsyncCopyDesk, CopyDesk
from headgate.jobs.client.dead_letters.looking import AsyncLetterDesk, LetterDesk
from headgate.jobs.client.dead_letters.replaying import AsyncReplayer, Replayer
from headgate.jobs.client.lookup import Lookup
from headgate.jobs.client.services import ClientServices
from headgate.jobs.core.backend import AsyncPorts, Ports
from headgate.jobs.core.immediate import (
    ImmediateObjectStore,
    ImmediateTable,
    ImmediateTransport,
    immediate,
)
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.dead_letters.search import LetterSearch
from headgate.jobs.messages.keyring import Keyring


class AsyncDeadLetters(AsyncLetterDesk, AsyncCopyDesk, AsyncReplayer):
    """The awaited form of `DeadLetters`, which also drives this class."""

    def __init__(self, services: ReplayServices, lookup: Lookup) -> None:
        AsyncLetterDesk.__init__(self, LetterSearch(services=services), lookup)
        AsyncCopyDesk.__init__(self, services, lookup.services)
        AsyncReplayer.__init__(self, services, lookup.services.auditor)


class DeadLetters(LetterDesk, CopyDesk, Replayer):
    """The dead letters of an app: of its dead-letter queues, its quarantine and failed firings.

    Its looks are those of `jobs.client.dead_letters.looking.LetterDesk`, its copies those of
    `jobs.client.dead_letters.copying.CopyDesk`, its replays those of
    `jobs.client.dead_letters.replaying.Replayer`.

    Every method may raise a `TransportError`.
    """

    def __init__(self, engine: AsyncDeadLetters) -> None:
        LetterDesk.__init__(self, engine)
        CopyDesk.__init__(self, engine)
        Replayer.__init__(self, engine)


def async_dead_letters(
    ports: AsyncPorts, lookup: Lookup, keyring: Keyring | None
) -> AsyncDeadLetters:
    """Return the dead letters of an asynchronous client."""
    return AsyncDeadLetters(async_services(ports, lookup.services, keyring), lookup)


def dead_letters(ports: Ports, lookup: Lookup, keyring: Keyring | None) -> DeadLetters:
    """Return the dead letters of a synchronous client."""
    return DeadLetters(AsyncDeadLetters(services(ports, lookup.services, keyring), lookup))


def async_services(
    ports: AsyncPorts, client: ClientServices, keyring: Keyring | None = None
) -> ReplayServices:
    """Return what the dead letters of an asynchronous client are handled with."""
    return ReplayServices(
        app=client.app,
        transport=ports.transport,
        table=ports.table,
        store=ports.store,
        clock=ports.clock,
        sleep=ports.sleep,
        rng=ports.rng,
        concurrency=client.concurrency,
        seals=client.seals,
        look_wait_s=ports.look_wait_s,
        keyring=keyring,
    )


def services(
    ports: Ports, client: ClientServices, keyring: Keyring | None = None
) -> ReplayServices:
    """Return what the dead letters of a synchronous client are handled with."""
    return ReplayServices(
        app=client.app,
        transport=ImmediateTransport(ports.transport),
        table=ImmediateTable(ports.table),
        store=ImmediateObjectStore(ports.store),
        clock=ports.clock,
        sleep=immediate(ports.sleep),
        rng=ports.rng,
        concurrency=client.concurrency,
        seals=client.seals,
        look_wait_s=ports.look_wait_s,
        keyring=keyring,
    )
