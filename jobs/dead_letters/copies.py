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

from headgate.jobs.core.ports import ObjectStore, ReceivedMessage
from headgate.jobs.core.topology import DEAD_LETTERS, PAYLOADS
from headgate.jobs.errors import MessageError
from headgate.jobs.messages.envelope import parse

_log = logging.getLogger("headgate.sweep")


def copy_key(queue: str, message: ReceivedMessage) -> str:
    """Return the key of a message's copy, by the physical name of the queue that it is in."""
    return f"{_stem(queue, message)}.json.gz"


def save_copy(store: ObjectStore, queue: str, message: ReceivedMessage) -> None:
    """Copy a message, and its payload if that is in the bucket too.

    Raises:
        TransportError: S3 could not be asked, or refused. What was copied by then stays.
    """
    if (ref := _payload_key(message.body)) is not None:
        _copy_payload(store, ref, f"{_stem(queue, message)}.payload.gz")
    # The message last: if it is there, its payload is too.
    store.put(copy_key(queue, message), copy_of(queue, message))


def copy_of(queue: str, message: ReceivedMessage) -> bytes:
    """Return the content of a message's copy: JSON, compressed."""
    whole = {
        "queue": queue,
        "message_id": message.message_id,
        "sent_at": message.sent_at.isoformat(),
        "group": message.group,
        "attributes": dict(sorted(message.attributes.items())),
        "body": message.body,
    }
    text = json.dumps({name: value for name, value in whole.items() if value is not None})
    return gzip.compress(text.encode(), mtime=0)


def _stem(queue: str, message: ReceivedMessage) -> str:
    return f"{DEAD_LETTERS}{queue}/{message.sent_at:%Y-%m-%d}/{message.message_id}"


def _payload_key(body: str) -> str | None:
    try:
        ref = parse(body).payload_ref
    except MessageError:
        return None
    # A reference in a foreign body doesn't point to a payload of Headgate's.
    return ref.key if ref is not None and ref.key.startswith(PAYLOADS) else None


def _copy_payload(store: ObjectStore, key: str, copy: str) -> None:
    if (content := store.get(key)) is None:
        _log.warning("the payload %s is gone; the message that refers to it is saved alone", key)
        return
    store.put(copy, content)
