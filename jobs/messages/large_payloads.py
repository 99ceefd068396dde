"""Payloads and results too large for a message or a record, kept as compressed JSON objects.

Pure functions: the caller stores the object first, and only then sends the message that refers to
it.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import replace
from typing import Any
from uuid import UUID

from headgate.jobs.core.naming import PAYLOADS
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import MessageUnreadable, PayloadLost, PayloadTooLarge
from headgate.jobs.messages.envelope import PayloadRef, parse
from headgate.jobs.messages.outgoing import message_of
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.texts import legible
from headgate.jobs.values.yielding import read, written

LARGEST = 64 * 2**20
"""Maximum bytes of a JSON text that is stored or read back: a larger one would take the memory of
all other jobs in the process."""

_GZIP = 16 + zlib.MAX_WBITS  # zlib's name for the format
_LEVEL = 6  # zlib's default; 9 takes twice the time to save 1 %


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """JSON text on its way to the object store."""

    ref: PayloadRef
    """The reference that replaces it in the message."""
    text: bytes

    def packed(self) -> bytes:
        """Return the object's content; takes about 20 ms per MiB of text."""
        return gzip.compress(self.text, _LEVEL, mtime=0)


def parcel(key: str, value: Any) -> Parcel:
    """Serialize JSON values to be stored under ``key``.

    Raises:
        PayloadTooLarge: their text is over `LARGEST`.
    """
    text = written(value)
    if len(text) > LARGEST:
        raise PayloadTooLarge(
            f"{key} would have {len(text):,} bytes as JSON; at most {LARGEST:,} are kept: store "
            "the data where its readers find it, and submit its address"
        )
    digest = hashlib.sha256(text).hexdigest()
    ref = PayloadRef(key=key, sha256=digest, size=len(text), encoding="gzip")
    return Parcel(ref=ref, text=text)


def payload_key(job_id: UUID) -> str:
    """Return the key of a job's payload."""
    return f"{PAYLOADS}{job_id}"


def check_reference(ref: PayloadRef, job_id: UUID) -> None:
    """Check that a reference is to the job's own payload, before anything is read.

    A message must not make a worker read other objects, nor another job's.

    Raises:
        PayloadLost: the job's payload is at another key, or no payload is as large.
    """
    if ref.key != payload_key(job_id):
        raise PayloadLost(
            f"{legible(ref.key, 100)!r} is not the key of the payload of the job {job_id}"
        )
    if ref.size > LARGEST:
        raise PayloadLost(
            f"{ref.key!r} has {ref.size:,} bytes as JSON; at most {LARGEST:,} are read"
        )


def max_packed(ref: PayloadRef) -> int:
    """Return the maximum bytes of an object that unpacks to as many as its reference says.

    What can't be compressed grows by five bytes in each block of 16 KiB, and by a header.
    https://www.zlib.net/zlib_tech.html
    """
    return ref.size + ref.size // 1_000 + 1_000


def unpacked(ref: PayloadRef, content: bytes | None) -> Any:
    """Return the JSON values from an object's content, which is None if there is no object.

    Raises:
        PayloadLost: there is no object, it isn't the one that was stored, or it is not JSON.
    """
    if content is None:
        raise PayloadLost(f"there is no object {ref.key!r}: it was deleted, or has expired")
    try:
        text = _text(ref, content)
    except zlib.error as error:
        raise PayloadLost(f"the object {ref.key!r} is damaged: {error}") from error
    if hashlib.sha256(text).hexdigest() != ref.sha256:
        raise PayloadLost(
            f"the object {ref.key!r} is damaged, or another one: its SHA-256 is not the message's"
        )
    try:
        return read(text)
    except ValueError as error:
        raise PayloadLost(f"the object {ref.key!r} holds no JSON: {error}") from error


def parted(message: OutgoingMessage) -> tuple[OutgoingMessage, Parcel]:
    """Split a job's message into one with a reference to its payload, and that payload.

    Raises:
        MessageUnreadable: it is not a job's message, or its payload was already replaced.
        PayloadTooLarge: the payload is over `LARGEST`.
    """
    envelope = parse(message.body)
    if envelope.payload_ref is not None:
        raise MessageUnreadable(f"the job {envelope.id} is too large even without its payload")
    if (sealed := envelope.sealed) is None:
        kept, less = parcel(payload_key(envelope.id), envelope.payload), None
    else:
        kept = parcel(payload_key(envelope.id), sealed.text)
        less = sealed.model_copy(update={"text": None})
    slim = envelope.model_copy(update={"payload": None, "payload_ref": kept.ref, "sealed": less})
    return replace(message, body=message_of(slim).body), kept


def _text(ref: PayloadRef, content: bytes) -> bytes:
    """Return an object's text, decompressing at most a byte more than the reference's size."""
    unpacking = zlib.decompressobj(_GZIP)
    text = unpacking.decompress(content, ref.size + 1)
    if not unpacking.eof or len(text) != ref.size:
        raise PayloadLost(f"the object {ref.key!r} is damaged: it does not have {ref.size:,} bytes")
    return text
