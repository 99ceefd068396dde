"""Checks for values that JSON in UTF-8 can't represent, such as NaN and lone surrogates, or that
can be written only once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import GeneratorType
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json


def is_utf8(text: str) -> bool:
    """Return True if a text has no lone surrogate."""
    try:
        text.encode()  # forty times as fast as checking each character
    except UnicodeEncodeError:
        return False
    return True


def is_lost(number: object) -> bool:
    """Return True for NaN and the infinities."""
    return isinstance(number, float) and not math.isfinite(number)


def lost_number(given: Any, written: Any) -> str | None:
    """Return the path of a NaN or an infinity that was written as null; None if there is none.

    Pydantic writes those in fields of type ``Any``, and in optional numbers, as null.

    Args:
        given: Python values, as returned by pydantic's ``dump_python``.
        written: the same values, written as JSON and read back.
    """
    path = next(_lost(given, written), None) if _may_lose(given) else None
    return None if path is None else ".".join(map(str, path)) or "payload"


def _may_lose(given: Any) -> bool:
    """Return True if a full check is due, at three times the cost of this one."""
    try:
        text = to_json(given, inf_nan_mode="constants")
    except Exception:  # noqa: BLE001 - of the user's own values, which were written otherwise
        return True
    return b"NaN" in text or b"Infinity" in text


def _lost(given: Any, written: Any) -> Iterator[tuple[int | str, ...]]:
    if written is None:
        if is_lost(given):
            yield ()
    elif isinstance(written, dict | list):
        for name, inner, outer in members(given, written):
            for path in _lost(inner, outer):
                yield (name, *path)


def members(
    given: Any, written: dict[str, Any] | list[Any]
) -> Iterator[tuple[int | str, Any, Any]]:
    """Pair the values that are in the same places of both: Python values, and what they became as
    JSON."""
    if isinstance(written, dict):
        if isinstance(given, Mapping):
            for (name, outer), inner in zip(written.items(), given.values(), strict=False):
                yield name, inner, outer
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        for index, (inner, outer) in enumerate(zip(given, written, strict=False)):
            yield index, inner, outer


def has_generator(value: Any) -> bool:
    """Return True if a value has a generator in it, whose items can be written only once.

    One in what can't be inspected is not found, since a handler's own classes may raise anything.
    """
    try:
        return _has_generator(value)
    except Exception:  # noqa: BLE001 - such as of a dictionary with an attribute "values"
        return False


def _has_generator(value: Any) -> bool:
    unseen, seen = [value], set[int]()
    while unseen:
        each = unseen.pop()
        if isinstance(each, GeneratorType):
            return True
        if id(each) in seen:
            continue  # one that contains itself, which pydantic refuses
        seen.add(id(each))
        if isinstance(each, dict):
            unseen.extend(each.values())
        elif isinstance(each, list | tuple | set | frozenset):
            unseen.extend(each)
        else:
            unseen.extend(values_of_fields(each))
    return False


def values_of_fields(value: Any) -> Iterable[Any]:
    """Return the values of the fields of a model or a dataclass."""
    if isinstance(value, BaseModel):
        return value.__dict__.values()
    if is_dataclass(type(value)):
        return [getattr(value, field.name, None) for field in fields(value)]
    return ()
