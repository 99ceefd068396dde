"""Reading of the jobs in an app's in-memory queues, wherever their payloads are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports.transport import ReceivedMessage
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
        backend: holds the messages, those in schedules that wait for longer than SQS delays any,
            and payloads that are too large for them.
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
                received = ReceivedMessage(
                    message_id=message.message_id,
                    receipt="",
                    body=message.body,
                    receive_count=message.receive_count,
                    sent_at=message.sent_at,
                    attributes=message.attributes,
                )
                yield Delivery(message=received, queue=spec, received_at=0)

    def _in_schedules(self) -> Iterator[Delivery]:
        queues = {spec.name: spec for spec in self._app.topology.queues}
        for schedule in self._scheduler.schedules:
            if schedule.name.startswith(PREFIX):
                held = DelayedJob.model_validate_json(schedule.input)
                received = ReceivedMessage(
                    message_id="",  # it has none yet, and Headgate's own jobs have their ids within
                    receipt="",
                    body=held.body,
                    receive_count=0,
                    sent_at=held.delayed_until,
                    attributes=held.attributes,
                )
                yield Delivery(message=received, queue=queues[held.queue_name], received_at=0)


async def _whole(envelope: Envelope, store: MemoryStore, seals: Seals | None) -> Envelope:
    """Return an envelope with its payload in it, opened by ``seals``."""
    payload = envelope.payload
    if (ref := envelope.payload_ref) is not None:
        payload = unpacked(ref, store.objects.get(ref.key))
    if envelope.sealed is not None:
        payload = await opened_payload(seals, envelope, payload)
    return envelope.model_copy(update={"payload": payload, "payload_ref": None, "sealed": None})
