"""Refused values of options, in words that say which ones are allowed.

Typer has pydantic read numbers and choices, whose messages are written for models: "Value error,
...", "Input should be ...". Values that parsers of ours refuse have their own words already.
"""

from __future__ import annotations

import typer
from pydantic_core import ErrorDetails, ValidationError

_OUT_OF_RANGE = ("greater_than_equal", "less_than_equal")


def in_own_words(error: typer.BadParameter) -> None:
    """Replace the message of an error whose words are pydantic's; others stay as they are."""
    if isinstance(cause := error.__cause__, ValidationError):
        error.message = _words(cause, error.param)


def _words(cause: ValidationError, param: object) -> str:
    fault = cause.errors(include_url=False)[0]
    reason = fault.get("ctx", {}).get("error")
    if isinstance(reason, ValidationError):  # of one value of several
        return _words(reason, param)
    if reason is not None:  # of a validator of typer's, such as that of choices
        return str(reason).rstrip(".")
    kind = _kind(fault)
    return f"{fault['input']!r} is not a {kind}{_range(param)}" if kind else fault["msg"]


def _kind(fault: ErrorDetails) -> str:
    """Return the kind of number that was wanted; empty if it was none."""
    if fault["type"] in _OUT_OF_RANGE:
        bound = next(iter(fault["ctx"].values()))
        return "whole number" if isinstance(bound, int) else "number"
    if fault["type"].startswith("int_"):
        return "whole number"
    return "number" if fault["type"].startswith(("float_", "finite_")) else ""


def _range(param: object) -> str:
    """Return the numbers that an option takes, as the end of a sentence."""
    least, most = getattr(param, "min", None), getattr(param, "max", None)
    if least is None or most is None:
        return f" of {least:g} or more" if least is not None else ""
    return f" from {least:g} to {most:g}"
