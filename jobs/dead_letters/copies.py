"""Copies of dead letters in the app's bucket, made before SQS deletes the originals.

    dead-letters/QUEUE/DAY/MESSAGE_ID.json.gz      body, attributes, group and time of sending
    dead-letters/QUEUE/DAY/MESSAGE_ID.payload.gz   beside it, if the body only refers to its payload

The same message always makes the same objects under the same keys, so making them again changes
nothing. They don't expire as payloads do, but after `jobs.core.topology.DEAD_LETTERS_KEPT`.
"""

from __future__ import annotations

import gzip
import json
import logging

from headgate.jobs.core.ports import AsyncObjectStore
from headgate.jobs.core.topology import DEAD_LETTERS, PAYLOADS
from headgate.jobs.dead_letters.letter import DeadLetter, LetterContent
from headgate.jobs.errors import MessageError
from headgate.jobs.messages.envelope import parse

_log = logging.getLogger("headgate.dead_letters")


def copy_key(letter: DeadLetter) -> str:
    """Return the key of a letter's copy."""
    return f"{_stem(letter)}.json.gz"


async def save_copy(store: AsyncObjectStore, letter: DeadLetter, content: LetterContent) -> None:
    """Copy a letter with its content, and its payload if that is in the bucket too.

    Raises:
        TransportError: S3 could not be asked, or refused. What was copied by then stays.
    """
    if (ref := _payload_key(content.body)) is not None:
        await _copy_payload(store, ref, f"{_stem(letter)}.payload.gz")
    # The message last: if it is there, its payload is too.
    await store.put(copy_key(letter), copy_of(letter, content))


def copy_of(letter: DeadLetter, content: LetterContent) -> bytes:
    """Return the content of a letter's copy: JSON, compressed."""
    whole = {
        "queue": letter.queue,
        "message_id": letter.message_id,
        "sent_at": letter.sent_at.isoformat(),
        "group": content.group,
        "attributes": dict(sorted(content.attributes.items())),
        "body": content.body,
    }
    text = json.dumps({name: value for name, value in whole.items() if value is not None})
    return gzip.compress(text.encode(), mtime=0)


def _stem(letter: DeadLetter) -> str:
    return f"{DEAD_LETTERS}{letter.queue}/{letter.sent_at:%Y-%m-%d}/{letter.message_id}"


def _payload_key(body: str) -> str | None:
    try:
        ref = parse(body).payload_ref
    except MessageError:
        return None
    # A reference in a foreign body doesn't point to a payload of Headgate's.
    return ref.key if ref is not None and ref.key.startswith(PAYLOADS) else None


async def _copy_payload(store: AsyncObjectStore, key: str, copy: str) -> None:
    if (content := await store.get(key)) is None:
        _log.warning("the payload %s is gone; the message that refers to it is saved alone", key)
        return
    await store.put(copy, content)
