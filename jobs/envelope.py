"""The message body, version 1: what every language that submits or runs a job agrees on.

``docs/envelope.v1.schema.json`` is this model as a JSON Schema. Absent fields are left out of the
body, so that it stays small: SQS bills a batch of ten once while its bodies average under 6.4 KB.
A reader ignores fields that it doesn't know, so optional ones may be added within a version.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from jobs.context import Tenant
from jobs.errors import MessageSchemaNewer, MessageUnreadable
from jobs.topology import Priority

VERSION = 1

_Name = Annotated[str, Field(min_length=1, max_length=128)]


class Options(BaseModel):
    """What the submitter overrode; everything else is the type's."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    attempts: Annotated[int, Field(ge=1, le=1000)] | None = None
    timeout_s: Annotated[float, Field(gt=0)] | None = None


class Envelope(BaseModel):
    """One job as it travels."""

    model_config = ConfigDict(
        frozen=True,
        title="Headgate message, version 1",
        defer_build=True,  # by its first use: an import must be quick
    )

    v: Literal[1]
    id: UUID
    """UUIDv7 (RFC 9562), so that ids sort by the time they were made."""
    type: _Name
    schema_: Annotated[int, Field(ge=1, alias="schema")] = 1
    """The version of the payload."""
    payload: Any
    """JSON that the type's model reads."""
    queue: _Name
    """The queue group's logical name."""
    priority: Priority
    submitted_at: AwareDatetime
    not_before: AwareDatetime | None = None
    tenant: Tenant | None = None
    trace: str | None = None
    """A W3C traceparent."""
    source: str = "sdk"
    """``sdk``, ``schedule:NAME``, ``event:NAME`` or ``replay:ID``."""
    parent: UUID | None = None
    """The job whose handler submitted this one."""
    attempts_used: Annotated[int, Field(ge=0)] = 0
    """Attempts made under earlier messages of the same job."""
    options: Options | None = None

    def to_body(self) -> str:
        """The message body: compact JSON without what is absent or default."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True, exclude_none=True)


def parse(body: str) -> Envelope:
    """Read a message body.

    Raises:
        MessageUnreadable: it is not JSON, or not a Headgate message; the message names the fields,
            and never shows their values.
        MessageSchemaNewer: it is of a later version of the format.
    """
    try:
        value = from_json(body)
    except ValueError as error:
        raise MessageUnreadable("the message body is not JSON") from error
    version = value.get("v") if isinstance(value, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise MessageSchemaNewer(
            f"the message is of format version {version}; this worker reads up to {VERSION}"
        )
    try:
        return Envelope.model_validate(value)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']) or 'body'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        raise MessageUnreadable(f"the body is not a Headgate message: {faults}") from error


def new_job_id(now: datetime) -> UUID:
    """A fresh UUIDv7 (RFC 9562, 5.7): 48 bits of milliseconds, then 74 random bits."""
    return _uuid7(now, secrets.randbits(74))


def derived_job_id(at: datetime, *parts: str) -> UUID:
    """The UUIDv7 of one occurrence: the same time and parts always give the same id.

    A schedule that fires twice for one tick thus submits one job twice, not two jobs.
    """
    digest = hashlib.sha256("\n".join((at.isoformat(), *parts)).encode()).digest()
    return _uuid7(at, int.from_bytes(digest[:10]) >> 6)


def _uuid7(at: datetime, bits: int) -> UUID:
    milliseconds = int(at.timestamp() * 1000)
    high, low = bits >> 62, bits & ((1 << 62) - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low)
