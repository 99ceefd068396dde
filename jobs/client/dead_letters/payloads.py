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
from headgate.jobs.values.light_dataclass import light_dataclass

Fetch = Callable[[PayloadRef], Awaitable[bytes | None]]
"""Returns the object of a payload that is in the bucket, or None if there is none."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class LetterPayload:
    """A letter's payload."""

    value: Any = None
    """JSON values; of a message that is not Headgate's the whole body, as text."""
    schema: int | None = None
    """The version of its schema; None if the message is not Headgate's."""
    fault: str = ""
    """The reason for which it can't be read; empty if it can."""


async def payload_of(
    services: ClientServices, content: LetterContent, fetch: Fetch
) -> LetterPayload:
    """Return a letter's payload, opened if it is sealed."""
    try:
        envelope = parse(content.body)
    except MessageError:
        return LetterPayload(value=content.body)
    try:
        value = await _opened(services, envelope, fetch)
    except (MessageError, TransportError) as error:
        return LetterPayload(fault=str(error))
    return LetterPayload(value=value, schema=envelope.schema_)


async def _opened(services: ClientServices, envelope: Envelope, fetch: Fetch) -> Any:
    value = envelope.payload
    if (ref := envelope.payload_ref) is not None:
        check_reference(ref, envelope.id)
        packed = await fetch(ref)
        value = await services.concurrency.aside(lambda: unpacked(ref, packed))
    if envelope.sealed is not None:
        return await opened_payload(services.seals, envelope, value)
    return value
