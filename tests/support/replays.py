"""Replays over services in memory, which can be cut off at any of their requests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Unpack, cast

from headgate import App, DeadLetterFilter
from headgate.jobs.core.concurrency import Tasks
from headgate.jobs.core.events import Events
from headgate.jobs.dead_letters.replaying.options import (
    ReplayOptions,
    ReplaySettings,
    check_options,
)
from headgate.jobs.dead_letters.replaying.replays import Replays
from headgate.jobs.dead_letters.replaying.report import ReplayReport
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.definitions.policies import keyring_of
from headgate.jobs.definitions.sealing import seals_of
from headgate.testing import Harness, MemoryBackend

EVERYTHING = DeadLetterFilter()

Moment = Literal["before", "after"]
"""The moment at which a process is killed: before a request has effect, or before its answer."""


class Killed(BaseException):
    """The process is gone; no code of it runs any more."""


class Cut:
    """Counts the requests of one process, and kills it at one of them.

    Args:
        at: the number of the request, from 0; None kills it at none.
        moment: see `Moment`.
    """

    def __init__(self, at: int | None = None, moment: Moment = "before") -> None:
        self.requests: list[str] = []
        self._at = at
        self._moment = moment

    def around(self, service: Any) -> Any:
        """Return a service whose requests are counted."""
        return _Counted(service, self)

    async def make(self, name: str, request: Callable[[], Awaitable[Any]]) -> Any:
        """Make a request, or end the process."""
        number = len(self.requests)
        self.requests.append(name)
        if self._at is None or number < self._at:
            return await request()
        if number == self._at and self._moment == "after":
            await request()
        raise Killed


class _Counted:
    def __init__(self, service: Any, cut: Cut) -> None:
        self._service = service
        self._cut = cut

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._service, name)
        return lambda *args, **options: self._cut.make(name, lambda: call(*args, **options))


class ReplayBench:
    """An app on services in memory, whose dead letters are replayed.

    Args:
        app: the app.
        backend: the services; None makes them.
    """

    def __init__(self, app: App, backend: MemoryBackend | None = None) -> None:
        self.app = app
        self.backend = backend or MemoryBackend(app)
        self.sqs = self.backend.sqs
        self.clock = self.backend.clock

    @staticmethod
    def options(**settings: Any) -> ReplayOptions:
        """Return the settings of a replay, checked."""
        return check_options(cast("ReplaySettings", settings))

    def replays(self, cut: Cut | None = None) -> Replays:
        """Return the replays of one process; ``cut`` may end it."""
        return Replays(self.services(cut or Cut()))

    def services(self, cut: Cut) -> ReplayServices:
        """Return the surroundings of one process, which ``cut`` may end."""
        ports = self.backend.async_ports
        return ReplayServices(
            app=self.app,
            transport=cut.around(ports.transport),
            table=cut.around(ports.table),
            store=cut.around(ports.store),
            clock=ports.clock,
            sleep=ports.sleep,
            rng=random.Random(0),  # noqa: S311 - spreads pauses
            concurrency=Tasks(),
            seals=seals_of(self.app, ports.keys, Tasks()),
            look_wait_s=ports.look_wait_s,
            keyring=keyring_of(self.app, ports.secrets, Tasks(), ports.clock, Events()),
        )

    async def start(
        self,
        chosen: DeadLetterFilter = EVERYTHING,
        *,
        cut: Cut | None = None,
        **settings: Unpack[ReplaySettings],
    ) -> ReplayReport:
        """Replay what is chosen, in a process of its own."""
        return await self.replays(cut).start(chosen, check_options(settings), actor="ada")

    def replay(
        self, chosen: DeadLetterFilter = EVERYTHING, **settings: Unpack[ReplaySettings]
    ) -> ReplayReport:
        """`start`, for tests without an event loop."""
        return asyncio.run(self.start(chosen, **settings))


def bench_of(harness: Harness) -> ReplayBench:
    """Return a bench over the services of a harness, which runs the jobs."""
    backend = MemoryBackend(harness.app, clock=harness.clock)
    backend.sqs, backend.table = harness.sqs, harness.table
    backend.store, backend.scheduler = harness.store, harness.scheduler
    backend.secrets = harness.secrets
    return ReplayBench(harness.app, backend)
