"""The message body, version 1: the format shared by every language that submits or runs jobs.

``docs/envelope.v1.schema.json`` is this model as a JSON Schema (`json_schema`). Absent fields are
left out of the body to keep it small: SQS bills a batch of ten as one request as long as its bodies
average under 6.4 KB. A reader ignores fields that it doesn't know, so optional ones may be added
within a version.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import Priority
from headgate.jobs.errors import MessageSchemaNewer, MessageUnreadable
from headgate.jobs.messages.job_options import JobBackoff, JobKeep
from headgate.jobs.values.faults import faults_in
from headgate.jobs.values.yielding import LARGE, read

VERSION = 1

MOST_ATTEMPTS_USED = 10_000
"""More attempts than any policy allows; the count carried into a new message stops there."""

_INSTEAD = ("payload_ref", "sealed")
"""Fields that stand in place of the payload."""

Name = Annotated[str, Field(min_length=1, max_length=128)]
"""The name of a job type or of a queue group."""

Moment = Annotated[
    AwareDatetime,
    Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(9999, 12, 31, tzinfo=UTC)),
]
"""A time that a job's id can contain, and that every time zone can represent."""

GroupId = Annotated[str, Field(pattern="^[!-~]{1,128}$")]
"""A MessageGroupId, as checked by `jobs.messages.outgoing.is_group_id`."""

UniqueMode = Literal["first", "replace"]


class UniqueBy(BaseModel):
    """Of which jobs it is one that counts only once."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    key: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="The same for all of them; the table's claim is named so."
    )
    for_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        description="For how long each counts from its submission, in seconds."
    )
    mode: UniqueMode = Field("first", description="Which counts: the first, or the last (replace).")


class Options(BaseModel):
    """The options that the submitter overrode; all others are the type's."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    attempts: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Runs in all, the first included."
    )
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="The longest that one attempt may take, in seconds."
    )
    unique: UniqueBy | None = Field(None, description="Absent: it counts by itself.")
    backoff: JobBackoff | None = Field(None, description="The delays between its attempts.")
    keep: JobKeep | None = Field(None, description="The retention of its records.")


class PayloadRef(BaseModel):
    """Place of a payload that a message has no room for: an object in the app's bucket."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    key: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="The object's key."
    )
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] = Field(
        description="Of the payload's JSON text in UTF-8, in lower-case hexadecimal."
    )
    size: int = Field(ge=0, description="Bytes of that text.")
    encoding: Literal["gzip"] = Field(description="How the object holds that text.")


class Sealed(BaseModel):
    """A payload that only holders of a KMS key can read (AES-256-GCM)."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    key: Annotated[str, Field(min_length=1, max_length=2048)] = Field(
        description="The KMS key that wraps the data key: an alias or an ARN."
    )
    data_key: Annotated[str, Field(min_length=1, max_length=8192)] = Field(
        description="The data key as KMS has wrapped it, in base64."
    )
    of: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        None, description="What it is bound to in place of the job's id: schedule:NAME."
    )
    encoding: Literal["gzip"] | None = Field(None, description="How its JSON is compressed.")
    text: str | None = Field(
        None,
        description="Nonce, ciphertext and tag, in base64. Absent: the object that payload_ref "
        "refers to holds it, as a JSON string.",
    )


class Envelope(BaseModel):
    """One job as it travels: the body of an SQS message.

    Writers leave out what is optional and absent; readers ignore what they don't know.
    """

    model_config = ConfigDict(
        frozen=True,
        title="Headgate message, version 1",
        defer_build=True,  # until its first use: imports must be quick
    )

    v: Literal[1] = Field(description="The version of this format.")
    id: UUID = Field(description="UUIDv7 (RFC 9562), so that ids sort by the time they were made.")
    type: Name = Field(description="The job type's name.")
    schema_: int = Field(1, ge=1, alias="schema", description="The version of the payload.")
    payload: Any = Field(description="JSON that the type's model reads.")
    payload_ref: PayloadRef | None = Field(
        None, description="Stands in place of payload, which is then left out."
    )
    sealed: Sealed | None = Field(
        None, description="Stands in place of payload, which is then left out."
    )
    queue: Name = Field(description="The queue group's logical name.")
    priority: Priority
    submitted_at: AwareDatetime = Field(description="With a UTC offset or Z.")
    not_before: AwareDatetime | None = Field(
        None, description="When the job may run. A worker that gets it earlier gives it back."
    )
    expires_at: AwareDatetime | None = Field(
        None,
        description="When it is too late for its first attempt: the job is then dropped unrun.",
    )
    tenant: Tenant | None = Field(
        None, description="Its org is the MessageGroupId that the message is sent with."
    )
    trace: str | None = Field(None, description="A W3C traceparent.")
    source: str = Field(
        "sdk", description="sdk, schedule:NAME, event:NAME, replay:ID or foreign:FORMAT."
    )
    parent: UUID | None = Field(None, description="The job whose handler submitted this one.")
    attempts_used: int = Field(
        0,
        ge=0,
        le=MOST_ATTEMPTS_USED,
        description="Attempts made under earlier messages of the same job.",
    )
    options: Options | None = Field(None, description="Absent: everything is the type's.")

    @property
    def is_elsewhere(self) -> bool:
        """True if something stands in place of the payload."""
        return self.payload_ref is not None or self.sealed is not None

    def to_body(self) -> str:
        """Return the message body: compact JSON without absent or default values."""
        # Beside what replaces it the payload is left out, so that a reader without support for
        # that refuses the message. A null might pass for a payload.
        absent = {"payload"} if self.is_elsewhere else None
        return self.model_dump_json(by_alias=True, exclude_defaults=True, exclude=absent)


def goes_on(envelope: Envelope) -> bool:
    """Return True if the job was in another message before, such as one that SQS would have deleted
    before its next attempt, or a bundle. Its new message says how many attempts it has had, 0
    included; a submission doesn't."""
    return "attempts_used" in envelope.model_fields_set


def json_schema() -> dict[str, Any]:
    """Return the message format's JSON Schema, for other languages; see the module's docstring."""
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def field_title_should_be_set(self, _schema: Any) -> bool:
            return False  # "Submitted At" says no more than submitted_at

    schema = Envelope.model_json_schema(by_alias=True, schema_generator=Generator)
    schema["required"].remove("payload")
    instead = [
        {"required": [name], "properties": {name: {"type": "object"}}}
        for name in ("payload_ref", "sealed")
    ]
    schema["properties"]["signature"] = {
        "description": (
            "Of the body's text before this field, which is the last: the key's id, a full stop, "
            "and the HMAC-SHA256 in URL-safe base64. Absent: the app's messages are not signed."
        ),
        "type": "string",
    }
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": f"urn:headgate:envelope:v{VERSION}",
        **schema,
        "anyOf": [{"required": ["payload"]}, *instead],
    }


def parse(body: str) -> Envelope:
    """Read a message body.

    Raises:
        MessageUnreadable: it is not JSON, or not a Headgate message; the error names the fields,
            and never shows their values.
        MessageSchemaNewer: it is of a later version of the format.
    """
    if (envelope := _whole(body)) is not None:
        return envelope
    try:
        value = read(body)
    except (ValueError, TypeError) as error:  # TypeError: UTF-8 can't hold a lone surrogate
        raise MessageUnreadable("the message body is not JSON") from error
    version = value.get("v") if isinstance(value, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise MessageSchemaNewer(
            f"the message is of format version {version}; this worker reads up to {VERSION}"
        )
    if isinstance(value, dict):
        for each in _INSTEAD:
            if value.get(each) is not None:
                value["payload"] = None
    try:
        return Envelope.model_validate(value)
    except ValidationError as error:
        faults = faults_in(error, "body")
        # Not from pydantic's error, which quotes the values.
        raise MessageUnreadable(f"the body is not a Headgate message: {faults}") from None


def _whole(body: str) -> Envelope | None:
    """Read a message body in one pass, for three quarters of what two cost.

    None if it is large, at fault, or has something in place of its payload: then `parse` needs two.
    """
    if len(body) >= LARGE:
        return None
    try:
        # `Envelope.model_validate_json` is the same, behind options that are none here.
        envelope: Envelope = Envelope.__pydantic_validator__.validate_json(body)
    except (ValueError, TypeError):
        return None
    return None if envelope.is_elsewhere else envelope
