"""The payload of a dead letter, for people who look at it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from headgate.jobs.client.services import ClientServices
from headgate.jobs.dead_letters.letter import LetterContent
from headgate.jobs.errors import MessageError, TransportError
from headgate.jobs.messages.envelope import Envelope, PayloadRef, parse
from headgate.jobs.messages.large_payloads import check_reference, unpacked
from headgate.jobs.messages.sealing import opened_payload

Fetch = Callable[[PayloadRef], Awaitable[bytes | None]]
"""Returns the object of a payload that is in the bucket, or None if there is none."""


async def payload_of(
    services: ClientServices, content: LetterContent, fetch: Fetch
) -> tuple[Any, str]:
    """Return a letter's payload, opened if it is sealed, and the reason if it can't be read.

    The payload of a message that is not Headgate's is the whole body, as text.
    """
    try:
        envelope = parse(content.body)
    except MessageError:
        return content.body, ""
    try:
        return await _opened(services, envelope, fetch), ""
    except (MessageError, TransportError) as error:
        return None, str(error)


async def _opened(services: ClientServices, envelope: Envelope, fetch: Fetch) -> Any:
    value = envelope.payload
    if (ref := envelope.payload_ref) is not None:
        check_reference(ref, envelope.id)
        packed = await fetch(ref)
        value = await services.concurrency.aside(lambda: unpacked(ref, packed))
    if envelope.sealed is not None:
        return await opened_payload(services.seals, envelope, value)
    return value
