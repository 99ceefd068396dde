"""The message that a dead letter's job is sent again as.

It has the job's id, and everything of the body that this version doesn't know. Attempts start anew,
since records are bound to SQS's id of a message and the message is a new one. What the worker added
to say why the job died is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic_core import from_json, to_json

from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES, QueueSpec, how_to_have
from headgate.jobs.dead_letters.letter import DeadLetter, LetterContent
from headgate.jobs.dead_letters.reading import REPLAYED
from headgate.jobs.dead_letters.replaying.options import ReplayOptions
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import MessageError, PayloadInvalid, UnknownQueue
from headgate.jobs.execution.adoption import JOB_ID, UNNAMED
from headgate.jobs.execution.settling.dead_letter import REPLAYS
from headgate.jobs.messages.bundles import bodies_of, bundle_body, is_bundle
from headgate.jobs.messages.envelope import Envelope, parse
from headgate.jobs.messages.foreign_formats import JOB_TYPE
from headgate.jobs.messages.job_ids import derived_job_id
from headgate.jobs.messages.keyring import KeyUnknown
from headgate.jobs.messages.large_payloads import check_reference, max_packed, unpacked
from headgate.jobs.messages.outgoing import sendable
from headgate.jobs.messages.schema_upgrades import upgraded, upgraded_from
from headgate.jobs.messages.sealing import About, opened_payload
from headgate.jobs.messages.signatures import SIGNATURE, Destination
from headgate.jobs.schedules.bridging import as_sent
from headgate.jobs.schedules.inputs import read_input
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.texts import legible
from headgate.jobs.values.yielding import read

MAX_ATTRIBUTES = 10
"""Attributes that a message may have (SQS Developer Guide, message metadata)."""

_ADDED = frozenset({"Reason", "ErrorType", "ErrorMessage", "Attempts", "FailedAt"})
"""Attributes that say why a job died."""


class Unfit(Exception):
    """A letter can't become what was asked for, and stays where it is; the text says why."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Remade:
    """A message to send in place of a dead letter."""

    letter: DeadLetter
    job_type: str | None
    """The type that its job runs as; None if the message is not Headgate's."""
    queue: QueueSpec
    message: OutgoingMessage


def delayed_by(remade: Remade, delay_s: int) -> Remade:
    """Return a message that SQS delays, unless it does so for longer already."""
    message = remade.message
    return replace(remade, message=replace(message, delay_s=max(message.delay_s, delay_s)))


class Remaker:
    """Makes the messages of one replay.

    Args:
        services: the app, whose models read the payloads, its bucket and its keys.
        replay_id: the replay.
        options: what to change.
    """

    def __init__(self, services: ReplayServices, replay_id: str, options: ReplayOptions) -> None:
        self._seals = services.seals
        self._app = app = services.app
        self._topology = app.topology
        self._routes = Routes.of(app)
        self._by_name = {spec.name: spec for spec in self._topology.queues}
        self._source = f"{REPLAYED}{replay_id}"
        self._options = options
        self._store = services.store
        self._keyring = services.keyring

    def is_own(self, letter: DeadLetter) -> bool:
        """Return True if a job has died again after this very replay had sent it."""
        if letter.content is None or self._source not in letter.content.body:
            return False
        try:
            return parse(bodies_of(letter.content.body)[0]).source == self._source
        except MessageError:
            return False

    async def remade(self, letter: DeadLetter, now: datetime) -> Remade:
        """Return the message to send in place of a letter.

        Raises:
            Unfit: no message can take its place.
            TransportError: its payload could not be read from the object store.
        """
        origin, content = await self._source_of(letter, now)
        queue = self._moved(origin)
        job_type: str | None = None
        try:
            jobs = [(parse(body), body) for body in bodies_of(content.body)]
        except MessageError:
            body, told = self._as_it_is(letter, content)
        else:
            job_type = self._options.as_type or jobs[0][0].type
            bodies = [await self._job(each, job, content, origin, queue) for each, job in jobs]
            body = bundle_body(bodies) if is_bundle(content.body) else bodies[0]
            told = {
                JOB_TYPE: job_type,
                "Priority": str(queue.priority),
                "Source": self._source,
                JOB_ID: "",  # the body has it
            }
        message = OutgoingMessage(
            body=body,
            attributes=_attributes(content, told, letter.replays + 1),
            group=content.group,
            deduplication_id=self._deduplication_id(letter) if queue.fifo else None,
        )
        remade = Remade(letter=letter, job_type=job_type, queue=queue, message=message)
        return self._checked(remade)

    async def _job(
        self,
        envelope: Envelope,
        body: str,
        content: LetterContent,
        origin: QueueSpec,
        queue: QueueSpec,
    ) -> str:
        """Return the body of a job's new message, or of its part of a new bundle."""
        await self._verify(body, content, origin)
        place = Destination(queue=queue.name, fifo_group=content.group if queue.fifo else None)
        return await self._signed(await self._body(envelope, body, queue), place)

    async def _verify(self, body: str, content: LetterContent, queue: QueueSpec) -> None:
        """Refuse a letter that its queue's worker would refuse: a new signature must not turn what
        a stranger has written into a job."""
        if self._keyring is None:
            return
        place = Destination(queue=queue.name, fifo_group=content.group if queue.fifo else None)
        try:
            await self._keyring.verify(body, place)
        except (MessageError, KeyUnknown) as error:
            raise Unfit(str(error)) from error

    async def _signed(self, body: str, place: Destination) -> str:
        return body if self._keyring is None else await self._keyring.signed(body, place)

    def _checked(self, remade: Remade) -> Remade:
        if remade.queue.fifo and not remade.message.group:
            raise Unfit(f"{remade.queue.name} is FIFO, and the letter has no message group")
        if (size := remade.message.size) > MAX_MESSAGE_BYTES:
            raise Unfit(
                f"the message would have {size:,} bytes, and SQS takes {MAX_MESSAGE_BYTES:,}: a "
                "payload that is kept in the bucket can't be changed there"
            )
        return remade

    def _deduplication_id(self, letter: DeadLetter) -> str:
        """Return an id that differs from that of the job's submission, which SQS may remember."""
        return hashlib.sha256(f"{self._source}\n{letter.message_id}".encode()).hexdigest()

    # --- the queue --------------------------------------------------------------------------------

    async def _source_of(
        self, letter: DeadLetter, now: datetime
    ) -> tuple[QueueSpec, LetterContent]:
        """Return the queue that a letter's message came from, or was for, and the message."""
        if (content := letter.content) is None:
            raise Unfit("its message was not read")
        if letter.queue == self._topology.failed_firings_name:
            return await self._firing(content, now)
        if letter.origin is None:
            raise Unfit("nothing tells which queue it came from")
        return self._known(letter.origin), content

    def _known(self, name: str) -> QueueSpec:
        if (queue := self._by_name.get(name)) is None:
            raise Unfit(f"its queue {legible(name, 80)!r} is not one of the app's")
        return queue

    async def _firing(
        self, content: LetterContent, now: datetime
    ) -> tuple[QueueSpec, LetterContent]:
        """Return the queue and the message of a firing or an event, as the bridge would send it."""
        try:
            event = from_json(content.body)
            record = event if isinstance(event, Mapping) else {}
            given = read_input(record.get("requestPayload", event))
        except (MessageError, ValueError, TypeError) as error:
            why = str(error) if isinstance(error, MessageError) else "it is not JSON"
            raise Unfit(f"the bridge could not submit it either: {why}") from error
        if (refusal := self._routes.refusal(given)) is not None:
            raise Unfit(str(refusal))
        if not given.counts:
            raise Unfit("its schedule had not begun, so the firing counts for nothing")
        message = await as_sent(given, given.message(now), self._keyring)
        return self._known(given.queue_name), LetterContent(
            body=message.body, attributes=message.attributes, group=message.group
        )

    def _moved(self, queue: QueueSpec) -> QueueSpec:
        group, priority = queue.group, self._options.priority or queue.priority
        if (named := self._options.as_type) is not None:
            group = self._app.find_type(named).queue
        try:
            return self._topology.queue(group, priority)
        except UnknownQueue as error:
            raise Unfit(f"{error}. {how_to_have(priority)}") from error

    def _as_it_is(self, letter: DeadLetter, content: LetterContent) -> tuple[str, dict[str, str]]:
        """Return the body of a message that is not Headgate's, and the attributes by which its
        worker knows the job: its id, and its type if its sender named one."""
        if self._options.set or self._options.as_type:
            raise Unfit("it is no message of Headgate's, so its type and payload can't be changed")
        derived = str(derived_job_id(letter.sent_at, "sqs", letter.message_id))
        named = content.attributes.get(JOB_TYPE, UNNAMED)
        return content.body, {
            JOB_ID: content.attributes.get(JOB_ID, derived),
            JOB_TYPE: "" if named == UNNAMED else named,
        }

    # --- the body ---------------------------------------------------------------------------------

    async def _body(self, envelope: Envelope, body: str, queue: QueueSpec) -> str:
        value: dict[str, Any] = read(body)
        for name in ("attempts_used", "not_before", "expires_at", SIGNATURE):
            value.pop(name, None)
        value |= {"source": self._source, "queue": queue.group, "priority": str(queue.priority)}
        value["type"] = self._options.as_type or envelope.type
        if changed := await self._payload(envelope):
            for name in ("payload", "payload_ref", "sealed"):
                value.pop(name, None)
            value |= changed
        return sendable(to_json(value).decode())

    async def _payload(self, envelope: Envelope) -> dict[str, Any]:
        """Return the fields of the body that hold a payload to be changed or sealed, checked."""
        declared = self._app.types.get(self._options.as_type or envelope.type)
        becomes = declared is not None and declared.name != envelope.type
        if declared is None or (envelope.schema_ > declared.schema and not becomes):
            if self._options.set:
                raise Unfit(
                    f"no field can be set: the app has no type {envelope.type!r} of schema "
                    f"{envelope.schema_} or later"
                )
            return {}
        outdated = bool(declared.upgrades) and envelope.schema_ < declared.schema
        changes = bool(self._options.set) or outdated or becomes
        if envelope.is_elsewhere and not changes and not self._must_be_sealed(envelope):
            return {}  # large or sealed as it is, it is read once, by its worker
        try:
            changed = self._changed(declared, envelope, await self._loaded(envelope))
        except (PayloadInvalid, MessageError) as error:
            raise Unfit(str(error)) from error
        if self._seals is not None:
            about = About(kind="payload", type=declared.name, of=str(envelope.id))
            sealed = (await self._seals.seal(about, changed)).model_dump(exclude_none=True)
            return {"sealed": sealed, "schema": declared.schema}
        return {"payload": changed, "schema": declared.schema} if changes else {}

    def _must_be_sealed(self, envelope: Envelope) -> bool:
        """Return True for a payload that workers would refuse as it is."""
        required = self._app.encryption is not None and self._app.encryption.required
        return required and envelope.sealed is None

    async def _loaded(self, envelope: Envelope) -> Any:
        value = envelope.payload
        if (ref := envelope.payload_ref) is not None:
            check_reference(ref, envelope.id)
            value = unpacked(ref, await self._store.get(ref.key, max_bytes=max_packed(ref)))
        if envelope.sealed is not None:
            return await opened_payload(self._seals, envelope, value)
        return value

    def _changed(self, declared: JobType[Any, Any], envelope: Envelope, payload: Any) -> Any:
        """Return a payload of the type's schema, with the fields that were set.

        Raises:
            PayloadInvalid: it can't be upgraded.
            Unfit: it has no such field.
        """
        value = self._upgraded(declared, envelope, payload)
        if not (changes := self._options.set):
            _read(declared, value)
            return value
        if not isinstance(value, dict):
            raise Unfit(f"the payload of {declared.name!r} is no object, so it has no fields")
        changed = {**value, **changes}
        known = declared.dump(_read(declared, changed))
        if unknown := sorted(changes.keys() - value.keys() - known.keys()):
            raise Unfit(f"the payload of {declared.name!r} has no field {unknown[0]!r}")
        return changed

    def _upgraded(self, declared: JobType[Any, Any], envelope: Envelope, payload: Any) -> Any:
        """Return a payload as one of the type that its job is to run as."""
        former = self._app.types.get(envelope.type)
        if former is not None:
            payload = upgraded(
                former.name,
                payload,
                version=envelope.schema_,
                schema=former.schema,
                upgrades=former.upgrades,
            )
        return upgraded_from(declared.name, envelope.type, payload, declared.upgrades_from)


def _read(declared: JobType[Any, Any], value: Any) -> Any:
    """Return a payload as its handler would get it; raises as `Remaker._changed`."""
    try:
        return declared.load(value)
    except PayloadInvalid:
        raise
    except Exception as error:  # a validator is the user's code: it raises anything
        raise Unfit(f"the model of {declared.name!r} raised {type(error).__name__}") from error


def _attributes(content: LetterContent, told: Mapping[str, str], replays: int) -> dict[str, str]:
    """Return the attributes of a replayed message: as many of the letter's as SQS's ten allow.

    Those of ``told`` come first, and an empty one is left out. The others come by name, since SQS
    tells no order.
    """
    whole = {REPLAYS: str(replays), **told}
    for name, value in sorted(content.attributes.items()):
        if name not in _ADDED:
            whole.setdefault(name, value)
    filled = [(name, value) for name, value in whole.items() if value]
    return dict(filled[:MAX_ATTRIBUTES])
