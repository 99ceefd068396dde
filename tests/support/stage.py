"""One test's own stage of the fixture app on a real server: queues, journal, clients, workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import uuid4

from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.core.ports.transport import QueueDepth
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.core.topology import Priority, QueueSpec
from tests.support.backends import async_over
from tests.support.fixture_app import FIXTURE, RECORDS, Fixture, Work, gate_in, journal_in
from tests.support.journal import GENEROUS_S
from tests.support.workers import READY, Terminal, WorkerProcess, environment, everything

EMPTY = QueueDepth(visible=0, in_flight=0, delayed=0)
"""The depth of an empty queue."""


class Stage:
    """Everything a test needs to submit fixture jobs, run them, and see their outcome.

    Args:
        endpoint_url: the server's URL.
        directory: the directory of the journal and the gate.
        sqs: reaches the server directly, even if workers go through a proxy.
        owned: ends the workers.
        fixture: the stage's app.
    """

    def __init__(
        self,
        endpoint_url: str,
        directory: Path,
        sqs: AsyncSqsTransport,
        owned: AsyncExitStack,
        fixture: Fixture = FIXTURE,
    ) -> None:
        self.endpoint_url = endpoint_url
        self.sqs = sqs
        self.name = f"t{uuid4().hex[:12]}"
        self.fixture = fixture
        self.app = fixture.make(self.name)
        self.records: RecordsLevel = "off"
        """The level of records that workers started from now on write."""
        self.journal = journal_in(directory)
        self._directory = directory
        self._owned = owned

    async def provision(self) -> None:
        """Create the queues."""
        await provision(self.app.topology, endpoint_url=self.endpoint_url)

    def environment(self, *, endpoint_url: str | None = None) -> dict[str, str]:
        """Return the environment of a command in this stage."""
        found = environment(endpoint_url or self.endpoint_url, self.name, self._directory)
        return found | {RECORDS: self.records}

    async def worker(
        self,
        queue: str,
        *arguments: str,
        endpoint_url: str | None = None,
        terminal: Terminal | None = None,
    ) -> WorkerProcess:
        """Start a worker on one queue group; it ends with the test at the latest."""
        process = self.process(queue, *arguments, endpoint_url=endpoint_url, terminal=terminal)
        return await self._owned.enter_async_context(process)

    def process(
        self,
        queue: str,
        *arguments: str,
        endpoint_url: str | None = None,
        ready: str | None = READY,
        keep: Callable[[str], bool] = everything,
        terminal: Terminal | None = None,
    ) -> WorkerProcess:
        """Return a worker on one queue group, not yet started, which belongs to the caller."""
        return WorkerProcess(
            "--queues",
            queue,
            *arguments,
            env=self.environment(endpoint_url=endpoint_url),
            app=self.fixture.path,
            ready=ready,
            keep=keep,
            terminal=terminal,
        )

    async def submit(
        self, job_type: str, count: int = 1, *, seconds: float = 0, note: str = ""
    ) -> list[str]:
        """Submit jobs of one type; return their ids."""
        async with AsyncClient(self.app, backend=async_over(self.sqs)) as client:
            handles = await client.submit_many(
                self.app.find_type(job_type), [Work(seconds=seconds, note=note)] * count
            )
        return [handle.id for handle in handles]

    def open_gate(self) -> None:
        """Let the ``gated`` jobs continue."""
        gate_in(self._directory).touch()

    def queue(self, group: str) -> QueueSpec:
        """Return the one SQS queue of a group."""
        return self.app.topology.queue(group, Priority.NORMAL)

    async def depth(self, group: str) -> QueueDepth:
        """Return the depth of a group's queue, as the server reports it."""
        return await self.sqs.depth(self.queue(group).name)

    async def dead(self, group: str) -> int:
        """Return the number of a group's dead letters."""
        return (await self.sqs.depth(self.queue(group).dlq_name)).visible

    async def quarantined(self) -> int:
        """Return the number of messages in the app's quarantine."""
        return (await self.sqs.depth(self.app.topology.quarantine_name)).visible

    async def empties(self, group: str) -> None:
        """Wait until a group's queue is empty.

        Raises:
            TimeoutError: with the depth that it has instead.
        """
        found = None
        try:
            async with asyncio.timeout(GENEROUS_S):
                while (found := await self.depth(group)) != EMPTY:  # noqa: ASYNC110 - see `until`
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            raise TimeoutError(f"the queue of {group!r} still has {found}") from error


@asynccontextmanager
async def stage_on(
    endpoint_url: str, directory: Path, fixture: Fixture = FIXTURE
) -> AsyncIterator[Stage]:
    """Yield a stage without its queues; the environment must hold test credentials."""
    async with AsyncSqsTransport(endpoint_url=endpoint_url) as sqs, AsyncExitStack() as owned:
        yield Stage(endpoint_url, directory, sqs, owned, fixture)
