"""The values of a record, checked: a field that Headgate can't have written is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError

from headgate.jobs.core.tenant import Tenant
from headgate.jobs.messages.envelope import PayloadRef, Sealed
from headgate.jobs.values.stored import mapping, moment, number, text, whole

_ITEM_CHARS = 409_600
"""DynamoDB's limit for a whole item."""

_MOST_ATTEMPTS = 1_000_000

_LONGEST_S = 1e9
"""Thirty years: no run and no wait is longer."""

_text = partial(text, most=_ITEM_CHARS)
_seconds = partial(number, most=_LONGEST_S)


def _tenant(value: object) -> Tenant | None:
    try:
        return Tenant(**found) if (found := mapping(value)) is not None else None
    except (TypeError, ValueError):
        return None


def result_ref(value: object) -> PayloadRef | None:
    """Return the address of a large result; None if the value is something else."""
    try:
        return PayloadRef.model_validate(value)
    except ValidationError:
        return None


def sealed_value(value: object) -> Sealed | None:
    """Return a sealed value; None if it is something else."""
    try:
        return Sealed.model_validate(value)
    except ValidationError:
        return None


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    **dict.fromkeys(("worker", "type", "queue", "priority", "source", "parent", "kind"), _text),
    **dict.fromkeys(("reason", "detail", "note", "result_fault", "refused"), _text),
    **dict.fromkeys(("final", "sealed_fault", "actor"), _text),
    **dict.fromkeys(("error_type", "error_message", "traceback", "replay", "former"), _text),
    **dict.fromkeys(("ran_s", "retry_in_s"), _seconds),
    **dict.fromkeys(("attempt", "replays"), partial(whole, most=_MOST_ATTEMPTS)),
    "percent": partial(number, most=100.0),
    **dict.fromkeys(("not_before", "expires_at", "submitted_at"), moment),
    "tenant": _tenant,
    "result_ref": result_ref,
    **dict.fromkeys(("result_sealed", "sealed"), sealed_value),
    "data": mapping,
}
"""Checks by field, which return None for what can't be one; other fields are kept as they are."""


def checked(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's values without those of a type or size that they can't have."""
    return {name: value for name, value in data.items() if _fits(name, value)}


def _fits(name: str, value: Any) -> bool:
    check = _CHECKS.get(name)
    return check is None or value is None or check(value) is not None
