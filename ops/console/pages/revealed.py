"""Payloads and results that somebody has asked to see, as text."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from headgate.jobs.client.dead_letters.answers import LetterDetails
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import HeadgateError
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.redaction import REDACTED, secrets_of
from headgate.jobs.values.texts import legible, text_of

LOOK = timedelta(seconds=10)
"""The longest time for which one letter is looked for."""

_LONGEST_SHOWN = 100_000


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Revealed:
    """A payload or a result that somebody has asked to see."""

    what: str
    text: str = ""
    fault: str = ""
    """The reason for which it is not shown; empty if it is."""


def revealed_payload(app: App, found: LetterDetails | None, job_type: str | None) -> Revealed:
    """Return a dead letter's payload, without the fields that its type keeps secret.

    Args:
        app: declares the type.
        found: the letter, read with its payload; None if it was not seen.
        job_type: the name of its type.
    """
    if found is None or found.payload_fault:
        fault = found.payload_fault if found else "No dead letter of this job can be seen."
        return Revealed(what="Payload", fault=fault)
    declared = app.types.get(job_type or "")
    if declared is None or declared.payload is None:
        return shown("Payload", found.payload)
    schema = found.payload_schema
    if schema is not None and schema > declared.schema:
        fault = f"It is of schema {schema}; this version of the app reads up to {declared.schema}."
        return Revealed(what="Payload", fault=fault)
    try:
        return shown("Payload", found.payload, read=declared.load(found.payload, schema))
    except HeadgateError as error:
        return Revealed(what="Payload", fault=f"Its type can't read it: {text_of(error)}")


def shown(what: str, value: Any, *, read: Any = None) -> Revealed:
    """Return JSON values as text, without the secrets of what their type has read from them."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    for secret in sorted(secrets_of(read), key=len, reverse=True):
        text = text.replace(json.dumps(secret, ensure_ascii=False)[1:-1], REDACTED)
    return Revealed(what=what, text=legible(text, _LONGEST_SHOWN))
