"""What pydantic finds fault with, in words that may be logged."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic_core import ErrorDetails


def place_of(location: Iterable[int | str], names: set[str] | None) -> str:
    """The path of a fault; of ``names``, if they are given, all others are masked.

    A key of a dict is data, where the name of a field is not.
    """
    parts = [
        "*" if names is not None and isinstance(part, str) and part not in names else str(part)
        for part in location
    ]
    return ".".join(parts) or "payload"


def told(fault: ErrorDetails, *, discreet: bool) -> str:
    """The fault; discreetly without what a validator of the model's own says, which may quote the
    value."""
    own = fault["type"] in ("value_error", "assertion_error")
    return "a validator of the model refuses it" if discreet and own else fault["msg"]
