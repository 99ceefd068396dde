"""Copies of dead letters in the app's bucket, made before SQS deletes the originals.

    dead-letters/QUEUE/DAY/MESSAGE_ID.json.gz      body, attributes, group and time of sending
    dead-letters/QUEUE/DAY/MESSAGE_ID.payload.gz   beside it, if the body only refers to its payload

The same message always makes the same objects under the same keys, so making them again changes
nothing. They don't expire as payloads do, but after `jobs.core.naming.DEAD_LETTERS_KEPT`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from headgate.jobs.core.naming import DEAD_LETTERS
from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.dead_letters.letter import DeadLetter, LetterContent
from headgate.jobs.errors import MessageError, MessageUnreadable, PayloadLost
from headgate.jobs.messages.envelope import PayloadRef, parse
from headgate.jobs.messages.large_payloads import check_reference, max_packed
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.own_log import OwnLog

LETTER, PAYLOAD = ".json.gz", ".payload.gz"
"""Ends of the keys of a copy, and of its payload."""

_MOST_BYTES = 8 * MAX_MESSAGE_BYTES
"""Bytes of a copy, packed or not: JSON escapes a byte of a message with up to six."""

_GZIP = 16 + zlib.MAX_WBITS

_log = OwnLog("headgate.dead_letters")


def copy_key(letter: DeadLetter) -> str:
    """Return the key of a letter's copy."""
    return f"{_stem(letter)}{LETTER}"


def payload_key(copy: str) -> str:
    """Return the key of the payload beside a copy."""
    return f"{copy.removesuffix(LETTER)}{PAYLOAD}"


async def save_copy(store: AsyncObjectStore, letter: DeadLetter, content: LetterContent) -> None:
    """Copy a letter with its content, and its payload if that is in the bucket too.

    Raises:
        TransportError: S3 could not be asked, or refused. What was copied by then stays.
    """
    if (ref := payload_ref_of(content.body)) is not None:
        await _copy_payload(store, ref, payload_key(copy_key(letter)))
    # The message last: if it is there, its payload is too.
    await store.put(copy_key(letter), copy_of(letter, content))


async def read_copy(store: AsyncObjectStore, key: str) -> SavedLetter | None:
    """Return the letter that was copied under a key; None if there is no such object.

    Raises:
        MessageError: the object is no copy.
        TransportError: S3 could not be asked, or refused.
    """
    packed = await store.get(key, max_bytes=_MOST_BYTES)
    return None if packed is None else read_json(_unpacked(packed))


def copy_of(letter: DeadLetter, content: LetterContent) -> bytes:
    """Return the content of a letter's copy: JSON, compressed."""
    return gzip.compress(as_json(letter, content).encode(), mtime=0)


def as_json(letter: DeadLetter, content: LetterContent) -> str:
    """Return a letter's message and its place as one line of JSON; see `read_json`."""
    whole = {
        "queue": letter.queue,
        "message_id": letter.message_id,
        "sent_at": letter.sent_at.isoformat(),
        "group": content.group,
        "attributes": dict(sorted(content.attributes.items())),
        "body": content.body,
    }
    return json.dumps({name: value for name, value in whole.items() if value is not None})


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class SavedLetter:
    """A letter that was saved as JSON."""

    queue: str
    """The physical name of the queue that it lay in."""
    message_id: str
    """SQS's id at that time."""
    content: LetterContent
    sent_at: datetime | None = None
    """The time at which it came to the queue, if that is told."""


def read_json(text: str) -> SavedLetter:
    """Read what `as_json` has written.

    Raises:
        MessageUnreadable: it is something else; the error shows nothing of it.
    """
    try:
        saved = _Saved.model_validate_json(text)
    except ValidationError as error:
        faults = ", ".join(
            ".".join(map(str, fault["loc"])) or fault["type"]
            for fault in error.errors(include_input=False, include_url=False, include_context=False)
        )
        # Not from pydantic's error, which quotes the values.
        raise MessageUnreadable(f"this is not a saved dead letter: {faults}") from None
    return SavedLetter(
        queue=saved.queue,
        message_id=saved.message_id,
        sent_at=saved.sent_at,
        content=LetterContent(body=saved.body, attributes=saved.attributes, group=saved.group),
    )


class _Saved(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)

    queue: str
    message_id: str
    body: str
    attributes: dict[str, str]
    group: str | None = None
    sent_at: AwareDatetime | None = None


def _unpacked(packed: bytes) -> str:
    unpacking = zlib.decompressobj(_GZIP)
    try:
        text = unpacking.decompress(packed, _MOST_BYTES).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise MessageUnreadable(f"it is damaged: {type(error).__name__}") from error
    if unpacking.unconsumed_tail:
        raise MessageUnreadable(f"it has over {_MOST_BYTES:,} bytes")
    return text


def _stem(letter: DeadLetter) -> str:
    return f"{DEAD_LETTERS}{letter.queue}/{letter.sent_at:%Y-%m-%d}/{letter.message_id}"


def payload_ref_of(body: str) -> PayloadRef | None:
    """Return the reference to a job's own payload; one in a foreign body refers to no payload."""
    try:
        envelope = parse(body)
        if envelope.payload_ref is not None:
            check_reference(envelope.payload_ref, envelope.id)
    except MessageError:
        return None
    return envelope.payload_ref


async def _copy_payload(store: AsyncObjectStore, ref: PayloadRef, copy: str) -> None:
    try:
        content = await store.get(ref.key, max_bytes=max_packed(ref))
    except PayloadLost as error:
        _log.warning("%s; the message that refers to it is saved alone", error)
        return
    if content is None:
        _log.warning("the payload %s is gone; its message is saved alone", ref.key)
        return
    await store.put(copy, content)
