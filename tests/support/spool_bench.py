"""Spools on an in-memory SQS that can be cut off, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from headgate import App, AsyncClient, Events, JobType, Priority, Spool
from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.flights import THREADS
from headgate.jobs.client.spool.sending import SpoolSending
from headgate.jobs.core.batcher import Pacing
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Event
from headgate.jobs.core.immediate import drive, immediate
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.errors import ServiceUnavailable, TransportError
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.submission.prepare import Submission, prepare
from headgate.jobs.testing import MemoryBackend, VirtualClock
from tests.support.clients import Kind, client_of

NORMAL = "shop-test-jobs-normal"
CRITICAL = "shop-test-jobs-critical"
FIFO = "shop-test-orders-normal.fifo"

ONE_TRY = Pacing(tries=1)

FOR_EVER = 1_000_000
"""Number of times for a fault that lasts until it is cleared."""


class Email(BaseModel):
    """The payload of the tests' jobs."""

    to: str = "ada@example.com"
    body: str = ""


EMAIL = Email()


class Bench:
    """An app, its queues, and a file in a directory of the test's own.

    Args:
        directory: where the file is to be.
        kind: the kind of `client`.
    """

    def __init__(self, directory: Path, kind: Kind = "Client") -> None:
        self._kind = kind
        self.app = App("shop", priorities="all", stage="test")
        self.email: JobType[Email, Any] = self.app.define("send-email", Email)
        self.noted: JobType[Email, Any] = self.app.define("noted", Email, records="full")
        orders = self.app.queue("orders", priorities=[Priority.NORMAL], fifo=True)
        self.order: JobType[Email, Any] = orders.define("place-order", Email)
        self.clock = VirtualClock()
        self.backend = MemoryBackend(self.app, clock=self.clock)
        self.sqs, self.table, self.store = (
            self.backend.sqs,
            self.backend.table,
            self.backend.store,
        )
        self.spool = Spool(directory / f"{uuid4().hex}.spool")
        self.events: list[Event] = []
        self.hub = Events(self.events.append)

    def client(
        self, clock: Clock | None = None, pacing: Pacing = ONE_TRY, **options: Any
    ) -> AsyncClient:
        """Return a client with the spool; a synchronous one is called in threads."""
        given: dict[str, Any] = {"spool": self.spool, "events": self.hub}
        return client_of(
            self._kind,
            self.app,
            self.sqs,
            table=self.table,
            store=self.store,
            clock=clock or self.clock,
            pacing=pacing,
            in_thread=True,
            **given | options,
        )

    def cut(self, error: TransportError | None = None) -> None:
        """Fail every send from now on."""
        outage = error or ServiceUnavailable("no connection")
        self.sqs.faults.raise_on("send", outage, times=FOR_EVER)

    def heal(self) -> None:
        """Make SQS reachable again."""
        self.sqs.faults.clear()

    def submission(
        self, job: JobType[Email, Any] | None = None, payload: Email = EMAIL, **overrides: Any
    ) -> Submission:
        """Return a checked submission, of an email by default."""
        wanted: SubmitOptions = overrides  # type: ignore[assignment]  # whatever the test gives
        now = self.clock.now()
        topology = self.app.topology
        return prepare(
            self.app, topology, job or self.email, payload, wanted, now=now, job_id=new_job_id(now)
        )

    def submissions(self, count: int, **overrides: Any) -> list[Submission]:
        """Return that many submissions."""
        return [self.submission(**overrides) for _ in range(count)]

    def open(self) -> SpoolFile:
        """Open the file, as another process would."""
        return SpoolFile(self.spool, self.clock)

    def drain(self, file: SpoolFile) -> bool:
        """Send the file's jobs, as a client's thread does, but one request after the other."""
        return drive(self.sending(file, parallel=1).drain())

    def sending(self, file: SpoolFile, **options: Any) -> SpoolSending:
        """Return what sends from the file in threads, and never suspends."""
        send = immediate(self.sqs.sync.send)
        return SpoolSending(
            file, send, lambda _sent: None, self.clock, self.hub, THREADS, **options
        )

    def sent(self, queue: str = NORMAL) -> list[str]:
        """Return the ids of the jobs that SQS has, in the order of arrival."""
        return [str(parse(message.body).id) for message in self.sqs.messages(queue)]

    def told(self, kind: type[Event]) -> list[Any]:
        """Return the events of one kind."""
        return [event for event in self.events if type(event) is kind]


def ids(submissions: Sequence[Submission]) -> list[str]:
    """Return the ids of the submissions' jobs."""
    return [submission.id for submission in submissions]
