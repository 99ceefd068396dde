"""SQS's queues in a life, which keep no order, deliver twice, and report their messages' fate."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.topology import Topology
from headgate.jobs.testing.memory.ordering import Message as StoredIn
from headgate.jobs.testing.memory.ordering import MessageState, StandardOrdering
from headgate.jobs.testing.memory.queue import MemoryQueue, QueueSettings
from tests.simulation.actors import START, Actor, current_actor
from tests.simulation.ledger import Delivery, Ledger, Message, jobs_of


class Shuffled(StandardOrdering):
    """A standard queue keeps no order."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    def take(self, limit: int) -> list[StoredIn]:
        visible: OrderedDict[str, StoredIn] = self._visible
        if len(visible) <= 1:
            return super().take(limit)
        chosen = self._rng.sample(list(visible), min(limit, len(visible)))
        return [visible.pop(key) for key in chosen]


class Watch:
    """Receives what queues report about their messages."""

    def __init__(self, ledger: Ledger, topology: Topology, rng: random.Random) -> None:
        self.ledger = ledger
        self.rng = rng
        self.sources = {spec.name: spec for spec in topology.queues}
        self.parking = {spec.dlq_name for spec in topology.queues} | {topology.quarantine_name}
        self.on_delivery: Callable[[Message, Delivery, Delivery | None], None] = _nothing
        self.on_deletion: Callable[[Message, Actor | None], None] = _nothing

    def stored(self, queue: str, message: StoredIn) -> None:
        """Record that a message has come to a queue, or to a dead-letter queue."""
        key, deliveries = f"{queue}/{message.id}", list[Delivery]()
        jobs = jobs_of(message.content.body, message.id)
        entries = [
            Message(
                id=message.id,
                job_id=job_id,
                queue=queue,
                sent_at=self.ledger.now,
                attributes=dict(message.content.attributes),
                group=message.content.group,
                sender=current_actor(),
                deliveries=deliveries,
                shared=len(jobs) > 1,
            )
            for job_id in jobs
        ]
        self.ledger.messages[key], self.ledger.bundles[key] = entries[0], entries
        if len(entries) > 1:
            self.ledger.counts["bundle"] += 1
        for entry in entries:
            self._enter(queue, entry, jobs[entry.job_id])

    def _enter(self, queue: str, entry: Message, envelope: Mapping[str, Any]) -> None:
        """Enter a message of a job into its life."""
        life = self.ledger.life(entry.job_id)
        life.kind = life.kind or str(envelope.get("type", ""))
        life.tenant = (envelope.get("tenant") or {}).get("org")
        if (expires_at := envelope.get("expires_at")) is not None and not life.messages:
            life.expires_at = (datetime.fromisoformat(expires_at) - START).total_seconds()
        if queue in self.sources:
            life.messages.append(entry)
        elif queue in self.parking:
            life.letters.append(entry)
        self.ledger.log("stored", queue, entry.job_id[-6:], entry.attributes.get("Reason", ""))

    def confirmed(self, queue: str, bodies: Iterable[str]) -> None:
        """Record that the sender of dead letters has received SQS's confirmation."""
        if queue not in self.parking:
            return
        jobs = {job_id for body in bodies for job_id in jobs_of(body, "")}
        for life in self.ledger.lives.values():
            for letter in life.letters:
                letter.confirmed |= letter.queue == queue and life.id in jobs

    def delivered(self, queue: str, message: StoredIn, hidden_until: float) -> None:
        if queue not in self.sources:
            return
        entry, actor = self.ledger.messages[f"{queue}/{message.id}"], current_actor()
        before = entry.deliveries[-1] if entry.deliveries else None
        now = self.ledger.now
        delivery = Delivery(message.receive_count, now, actor, hidden_until)
        entry.deliveries.append(delivery)
        who = actor.name if actor else "nobody"
        self.ledger.log("delivered", queue, entry.job_id[-6:], message.receive_count, who)
        for each in self.ledger.bundles[f"{queue}/{message.id}"]:
            self.on_delivery(each, delivery, before)

    def hidden(self, queue: str, message: StoredIn, until: float) -> None:
        if queue in self.sources:
            entry = self.ledger.messages[f"{queue}/{message.id}"]
            if entry.deliveries:
                last = entry.deliveries[-1]
                last.hidden_until = until
                last.shown = until <= self.ledger.now and current_actor() is last.actor

    def left(self, queue: str, message: StoredIn, how: str) -> None:
        entries, actor = self.ledger.bundles[f"{queue}/{message.id}"], current_actor()
        for entry in entries:
            entry.gone_at, entry.gone_how = self.ledger.now, how
            who = actor.name if actor else "nobody"
            self.ledger.log("left", queue, entry.job_id[-6:], how, who)
        if queue in self.sources and how == "deleted":
            for entry in entries:
                self.on_deletion(entry, actor)


class WatchedQueue(MemoryQueue):
    """A queue that reports its messages' fate, and can misbehave as SQS sometimes does."""

    watch: Watch
    duplicating = False
    """True while received messages stay visible."""
    undeleting = False
    """True while a delete reports success and does nothing."""

    def __init__(self, name: str, settings: QueueSettings, **options: Any) -> None:
        super().__init__(name, settings, **options)
        self._how = "expired"
        self._delivering = False
        if not settings.fifo:
            self._ordering = Shuffled(self.watch.rng)

    def receive(
        self, limit: int, visibility_s: int | None, now_s: float, now: datetime
    ) -> list[ReceivedMessage]:
        self._how = "redriven"
        try:
            received = super().receive(limit, visibility_s, now_s, now)
        finally:
            self._how = "expired"
        if self.duplicating and not self.settings.fifo:
            for each in received:
                if self.watch.rng.random() < 0.5:
                    self._show(self._messages[each.message_id])
        return received

    def delete(self, receipt: str) -> None:
        if self.undeleting and not self.settings.fifo:
            return
        self._how = "deleted"
        try:
            super().delete(receipt)
        finally:
            self._how = "expired"

    def older_of_group(self, message_id: str) -> Iterator[StoredIn]:
        """Yield the messages of its FIFO group that were sent before one."""
        group = self._messages[message_id].content.group
        for message in self._messages.values():
            if message.id == message_id:
                return
            if message.content.group == group:
                yield message

    def heads(self) -> list[StoredIn]:
        """Return the messages that can come next, now or later: of a FIFO group only its oldest."""
        if not self.settings.fifo:
            return [*self._messages.values()]
        heads: dict[str | None, StoredIn] = {}
        for message in self._messages.values():
            heads.setdefault(message.content.group, message)
        return [*heads.values()]

    def _hide(self, message: StoredIn, state: MessageState, until_s: float) -> None:
        super()._hide(message, state, until_s)
        if not self._delivering:
            self.watch.hidden(self.name, message, until_s)

    def _deliver(
        self, message: StoredIn, now_s: float, until_s: float, now: datetime
    ) -> ReceivedMessage:
        self._delivering = True
        received = super()._deliver(message, now_s, until_s, now)
        self._delivering = False
        self.watch.delivered(self.name, message, until_s)
        return received

    def _store(self, message: StoredIn) -> None:
        super()._store(message)
        self.watch.stored(self.name, message)

    def _remove(self, message: StoredIn) -> None:
        super()._remove(message)
        self.watch.left(self.name, message, self._how)


def _nothing(*_told: object) -> None:
    """Ignore the report."""
