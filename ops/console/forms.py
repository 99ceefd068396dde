"""Forms and queries as a page gets them: bounded, and every mistake in them gets an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NoReturn
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

from headgate.jobs.values.texts import legible

_MOST_BYTES = 256 * 1024
"""The largest form: a few thousand jobs' ids."""

_MOST_FIELDS = 5_000
_KIND = "application/x-www-form-urlencoded"

_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def refuse(text: str, status: int = 400) -> NoReturn:
    """Answer a request with a page that says what is wrong with it."""
    raise HTTPException(status, legible(text, 1_000))


class Fields:
    """The fields of a form or of a query.

    Args:
        values: by name, the values of each field.
    """

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    def text(self, name: str, *, most: int = 300) -> str:
        """Return a field's value without the space around it; empty if it is missing.

        Raises:
            HTTPException: it is longer than ``most``, or there are several.
        """
        values = self._values.get(name, ())
        if len(values) > 1:
            refuse(f"{name} is given {len(values)} times: give it once")
        value = values[0].strip() if values else ""
        if len(value) > most:
            refuse(f"{name} has at most {most} characters, got {len(value):,}")
        return value

    def texts(self, name: str, *, most: int = 300) -> tuple[str, ...]:
        """Return the values of a field that may be given several times, each once.

        Raises:
            HTTPException: one is longer than ``most``.
        """
        values = tuple(dict.fromkeys(each.strip() for each in self._values.get(name, ())))
        if any(len(each) > most for each in values):
            refuse(f"{name} has at most {most} characters")
        return tuple(filter(None, values))

    def span(self, name: str) -> timedelta | None:
        """Return a length of time, such as ``90s`` or ``1h30m``; None if it is empty.

        Raises:
            HTTPException: it is no length of time.
        """
        return span_of(name, text) if (text := self.text(name, most=40)) else None

    def flag(self, name: str) -> bool:
        """Return True if a field is set."""
        return bool(self.text(name, most=20))


def span_of(name: str, text: str) -> timedelta:
    """Return the length of time that a text names; raises as `Fields.span`."""
    parts = _DURATION.findall(text)
    if not parts or _DURATION.sub("", text).strip():
        refuse(f"{name}: {text!r} is no length of time: write 90s, 15m, 2h or 1h30m")
    return timedelta(seconds=sum(float(count) * _UNITS[unit] for count, unit in parts))


def age_or_time(name: str, text: str) -> datetime | timedelta | None:
    """Return the age, such as ``2h``, or the aware time that a text names; None if it is empty.

    A time without a zone is one in UTC. Raises as `Fields.span`.
    """
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return span_of(name, text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def query_of(request: Request) -> Fields:
    """Return the fields of a request's query.

    Raises:
        HTTPException: it has too many.
    """
    return _fields(request.scope["query_string"])


async def read_form(request: Request) -> Fields:
    """Return the fields of a form that was sent.

    Raises:
        HTTPException: the request is no form, or it is too large.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _KIND:
        refuse(f"a form is sent as {_KIND}", 415)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            refuse(f"a form has at most {_MOST_BYTES:,} bytes", 413)
    return _fields(bytes(body))


def form_of(request: Request) -> Fields:
    """Return the fields of the form that a request sent, which has been read already."""
    fields: Fields = request.state.form
    return fields


def _fields(encoded: bytes) -> Fields:
    try:
        found = parse_qs(
            encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        refuse(f"the fields must be valid UTF-8, and {_MOST_FIELDS:,} at most")
    return Fields(found)
