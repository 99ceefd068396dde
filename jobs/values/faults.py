"""Pydantic's validation errors as texts that are safe to log."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic_core import ErrorDetails, ValidationError


def place_of(location: Iterable[int | str], names: set[str] | None) -> str:
    """Return the path of a fault, with all names masked that are not in ``names``, if given.

    A key of a dict is data, while the name of a field is not.
    """
    parts = [
        "*" if names is not None and isinstance(part, str) and part not in names else str(part)
        for part in location
    ]
    return ".".join(parts) or "payload"


def told(fault: ErrorDetails, *, discreet: bool) -> str:
    """Return the fault's message, or a neutral one if ``discreet`` and it is from the model's own
    validator, whose message may quote the value."""
    own = fault["type"] in ("value_error", "assertion_error")
    return "a validator of the model refuses it" if discreet and own else words_of(fault)


def words_of(fault: ErrorDetails) -> str:
    """Return the fault's message without the kind that pydantic puts before a validator's own."""
    return fault["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")


def faults_in(error: ValidationError, whole: str, *, beneath: int = 0) -> str:
    """Return the faults that an error lists, in one line, without the values.

    Args:
        error: the error of a model of ours, whose field names and messages are no data.
        whole: the name of what was validated, for faults that are in no field of it.
        beneath: the number of leading parts of each path to leave out.
    """
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'][beneath:])) or whole}: {words_of(fault)}"
        for fault in error.errors(include_input=False, include_url=False)
    )
