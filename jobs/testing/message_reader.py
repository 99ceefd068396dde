"""Reading of the jobs in an app's in-memory queues, wherever their payloads are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain

from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import MessageError
from headgate.jobs.execution.adoption import envelope_of
from headgate.jobs.execution.delivery import Delivery, deliveries_of_jobs
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.messages.large_payloads import unpacked
from headgate.jobs.messages.sealing import Seals, opened_payload
from headgate.jobs.schedules.delayed_job import PREFIX, DelayedJob
from headgate.jobs.testing.backend import MemoryBackend
from headgate.jobs.testing.memory.store import MemoryStore


class MessageReader:
    """Reads jobs without receiving them.

    Args:
        app: the app whose queues they are in.
        backend: holds the messages, in queues and, for as long as SQS can't delay them, in
            schedules; and payloads that are too large for messages.
        seals: opens sealed payloads, and never suspends; None if the app seals none.
    """

    def __init__(self, app: App, backend: MemoryBackend, seals: Seals | None) -> None:
        self._app = app
        self._sqs = backend.sqs
        self._scheduler = backend.scheduler
        self._store = backend.store
        self._seals = seals

    def waiting(self) -> Iterator[tuple[Envelope, int]]:
        """Yield each job that waits in a queue, or in a schedule for its time, with the receive
        count of its message."""
        for whole in chain(self._in_queues(), self._in_schedules()):
            for delivery in deliveries_of_jobs(whole):
                if (envelope := self.envelope_of(delivery)) is not None:
                    yield envelope, whole.message.receive_count

    def envelope_of(self, delivery: Delivery) -> Envelope | None:
        """Return a message's job, with its payload wherever that is; None if it isn't a job."""
        try:
            envelope, _ = envelope_of(self._app, delivery.message, delivery.queue)
            return drive(_whole(envelope, self._store, self._seals))
        except MessageError:
            return None

    def _in_queues(self) -> Iterator[Delivery]:
        for spec in self._app.topology.queues:
            for message in self._sqs.messages(spec.name):
                yield _delivery(
                    spec,
                    message.body,
                    message.attributes,
                    sent_at=message.sent_at,
                    receives=message.receive_count,
                )

    def _in_schedules(self) -> Iterator[Delivery]:
        queues = {spec.name: spec for spec in self._app.topology.queues}
        for schedule in self._scheduler.schedules:
            if schedule.name.startswith(PREFIX):
                held = DelayedJob.model_validate_json(schedule.input)
                due = held.delayed_until
                yield _delivery(queues[held.queue_name], held.body, held.attributes, sent_at=due)


async def _whole(envelope: Envelope, store: MemoryStore, seals: Seals | None) -> Envelope:
    """Return an envelope with its payload in it, opened by ``seals``."""
    payload = envelope.payload
    if (ref := envelope.payload_ref) is not None:
        payload = unpacked(ref, store.objects.get(ref.key))
    if envelope.sealed is not None:
        payload = await opened_payload(seals, envelope, payload)
    return envelope.model_copy(update={"payload": payload, "payload_ref": None, "sealed": None})


def _delivery(
    queue: QueueSpec,
    body: str,
    attributes: Mapping[str, str],
    *,
    sent_at: datetime,
    receives: int = 0,
) -> Delivery:
    """Return a message as if it had been received, without receiving it."""
    message = ReceivedMessage(
        message_id="",
        receipt="",
        body=body,
        receive_count=receives,
        sent_at=sent_at,
        attributes=attributes,
    )
    return Delivery(message=message, queue=queue, received_at=0)
