"""An in-memory app with dead letters, and the sweep that reads them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel

from headgate import App, Priority
from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.immediate import (
    ImmediateObjectStore,
    ImmediateTable,
    ImmediateTransport,
    immediate,
)
from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage
from headgate.jobs.dead_letters.policy_replay import PolicyReplay
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.deployment.replay_plan import outline_of
from headgate.jobs.deployment.sweep_plan import HOLD, ParkingQueue, SweepPlan, sweep_plan
from headgate.jobs.execution.outcome import Attempt, Reason
from headgate.jobs.execution.settling.actions import DeadLetter, Quarantine
from headgate.jobs.execution.settling.dead_letter import dead_letter
from headgate.jobs.messages.envelope import VERSION, Envelope, parse
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.messages.outgoing import message_of
from headgate.jobs.testing import MemorySqs, MemoryStore, MemoryTable, MemoryTopic, VirtualClock
from headgate.lambdas.sweep.memory import SweepMemory
from headgate.lambdas.sweep.sweeper import Kind, Sweeper, Swept

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECRET = "4111-1111"  # noqa: S105 - a payload's, that must not be told


class Order(BaseModel):
    card: str = SECRET


def make_app() -> App:
    app = App("shop", stage="test")
    app.define("send-email", Order)
    ledger = app.queue("ledger", priorities=[Priority.NORMAL], fifo=True)
    ledger.define("book", Order, group_by=lambda _: "g")
    payments = app.queue("payments", priorities=[Priority.CRITICAL])
    payments.define("capture", Order, alert_at_once=True)
    return app


@dataclass
class SweepBench:
    """An in-memory app with its dead letters."""

    app: App = field(default_factory=make_app)
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(NOON))
    counted: Counter[Kind] = field(default_factory=Counter)
    keyring: Keyring | None = None
    """The keys that the sweep's replays sign with."""
    console: str = ""
    """The address of the app's web console."""

    def __post_init__(self) -> None:
        self.sqs, self.table = MemorySqs(self.clock), MemoryTable(self.clock)
        self.store = MemoryStore(clock=self.clock)
        self.topic, self.tickets = MemoryTopic(), MemoryTopic()
        self.sqs.provision(self.app.topology)
        self.sqs.create_queue(self.app.topology.failed_firings_name, retention=timedelta(days=14))

    @property
    def plan(self) -> SweepPlan:
        return sweep_plan(self.app, has_bridge=True, console=self.console)

    def parking(self, job_type: str) -> ParkingQueue:
        job = self.app.find_type(job_type)
        name = self.app.topology.queue(job.queue, job.priority).dlq_name
        [found] = [queue for queue in self.plan.queues if queue.name == name]
        return found

    def sweep(self) -> Swept | None:
        """Sweep once, as one invocation does in an execution environment of its own."""
        memory = SweepMemory(self.table.sync, self.clock, sleep=lambda _: None)
        return Sweeper(
            self.plan,
            queues=self.sqs.sync,
            memory=memory,
            store=self.store.sync,
            topic=self.topic,
            tickets=self.tickets,
            clock=self.clock,
            count=self._count,
            sleep=lambda _: None,
            replay=self._replay(),
        ).sweep()

    def _replay(self) -> PolicyReplay | None:
        if (plan := self.plan.replay) is None:
            return None
        services = ReplayServices(
            app=outline_of(plan),
            transport=ImmediateTransport(self.sqs.sync),
            table=ImmediateTable(self.table.sync),
            store=ImmediateObjectStore(self.store.sync),
            clock=self.clock,
            sleep=immediate(lambda _: None),
            rng=random.Random(1),  # noqa: S311 - spreads tries
            concurrency=Threads(),
            look_wait_s=0.0,
            seals=None,
            keyring=self.keyring,
        )
        return PolicyReplay(plan, services, hold=HOLD)

    def swept(self) -> Swept:
        found = self.sweep()
        assert found is not None
        return found

    def _count(self, counts: Mapping[Kind, int]) -> None:
        self.counted.update(counts)

    def envelope(self, job_type: str, **changed: Any) -> Envelope:
        job = self.app.find_type(job_type)
        whole = {
            "v": VERSION,
            "id": new_job_id(self.clock.now()),
            "type": job.name,
            "payload": {"card": SECRET},
            "queue": job.queue,
            "priority": job.priority,
            "submitted_at": self.clock.now(),
        }
        return Envelope(**(whole | changed))

    def die(self, job_type: str, *, error: str = "CardError", **changed: Any) -> str:
        """Let the worker give up a job; return its id."""
        envelope = self.envelope(job_type, **changed)
        action = DeadLetter(
            reason=Reason.ATTEMPTS_EXHAUSTED, error_type=error, error_message=f"card {SECRET}"
        )
        self.send(self.parking(job_type).name, self._given_up(envelope, action))
        return str(envelope.id)

    def crash(self, job_type: str) -> str:
        """Let the worker quarantine a job; return its id."""
        envelope = self.envelope(job_type)
        letter = self._given_up(envelope, Quarantine(detail="killed"))
        self.send(self.app.topology.quarantine_name, letter)
        return str(envelope.id)

    def _given_up(self, envelope: Envelope, action: DeadLetter | Quarantine) -> OutgoingMessage:
        queue = self.app.topology.queue(envelope.queue, envelope.priority)
        group = "g" if queue.fifo else None
        message = message_of(envelope, fifo_group=group)
        received = ReceivedMessage(
            message_id="1",
            receipt="1",
            body=message.body,
            receive_count=3,
            sent_at=self.clock.now(),
            attributes=message.attributes,
            group=message.group,
        )
        return self._parked(received, envelope, action, fifo=queue.fifo)

    def die_again(self, queue: str) -> None:
        """Let the worker give up all jobs that have been sent to a queue."""
        for received in self.sqs.sync.receive(queue, limit=10, wait_s=0, visibility_s=60):
            assert self.sqs.sync.delete(queue, [received.receipt]) == []
            envelope = parse(received.body)
            action = DeadLetter(
                reason=Reason.ATTEMPTS_EXHAUSTED, error_type="CardError", error_message=""
            )
            self.send(f"{queue}-dlq", self._parked(received, envelope, action))

    def _parked(
        self,
        received: ReceivedMessage,
        envelope: Envelope,
        action: DeadLetter | Quarantine,
        *,
        fifo: bool = False,
    ) -> OutgoingMessage:
        attempt = Attempt(job_id=str(envelope.id), number=3, max_attempts=3, receives=3)
        now = self.clock.now()
        return dead_letter(received, action, attempt, envelope.type, now, fifo=fifo)

    def send(self, queue: str, message: OutgoingMessage) -> None:
        assert self.sqs.sync.send(queue, [message]) == []

    def everything(self) -> list[str]:
        """Return the SQS ids of all parked messages."""
        return sorted(
            message.message_id
            for queue in self.plan.queues
            for message in self.sqs.messages(queue.name)
        )

    def visible(self) -> int:
        return sum(self.sqs.sync.depth(queue.name).visible for queue in self.plan.queues)

    def texts(self) -> str:
        """Return the text of all notifications."""
        told = [*self.topic.published, *self.tickets.published]
        return "\n".join(f"{subject}\n{text}" for subject, text in told)
