"""Type checks of settings at run time, with errors that name the field."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.texts import with_article

_CALLED: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    timedelta: "a timedelta",
    NoneType: "None",
}


def check_kinds(
    owner: str, settings: Any, error: type[ConfigurationError] = ConfigurationError
) -> None:
    """Check the values of a dataclass against the annotations of its fields.

    A list is converted for a field that is annotated as a tuple.

    Args:
        owner: the name of the settings in errors.
        settings: the instance, passed from its ``__post_init__``.
        error: the class of the error to raise.

    Raises:
        ConfigurationError: ``error``, for the first field whose value is of another type.
    """
    hints = _hints(settings.__class__)
    for field in fields(settings):
        kind, value = hints[field.name], getattr(settings, field.name)
        if isinstance(value, list) and _is_tuple(kind):
            value = tuple(value)
            object.__setattr__(settings, field.name, value)  # it may be frozen
        check_kind(f"{owner}: {field.name}", value, kind, error)


def check_kind(
    name: str, value: object, kind: Any, error: type[ConfigurationError] = ConfigurationError
) -> None:
    """Check one value against an annotation.

    Raises:
        ConfigurationError: ``error``; names the value and the expected type.
    """
    if _fits(value, kind):
        return
    instead = ": write timedelta(seconds=...)" if timedelta in (kind, *get_args(kind)) else ""
    called = " or ".join(dict.fromkeys(_called(kind)))
    raise error(f"{name} must be {called}, got {value!r}{instead}")


def bare(annotation: Any) -> Any:
    """Return an annotation without the metadata of ``Annotated``."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _fits(value: object, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(key, inner[0]) and _fits(each, inner[1]) for key, each in value.items()
        )
    if origin is tuple:  # of any length
        return isinstance(value, tuple) and all(_fits(each, inner[0]) for each in value)
    if kind in (int, float):
        return _is_number(value, whole=kind is int)
    return isinstance(value, timedelta if kind is DurationField else kind)


def _is_tuple(kind: Any) -> bool:
    return any(get_origin(each) is tuple for each in (kind, *get_args(kind)))


def _is_number(value: object, *, whole: bool) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (
        not whole and isinstance(value, float) and math.isfinite(value)
    )


def _called(kind: Any) -> Iterator[str]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        for each in inner:
            yield from _called(each)
    elif origin is Literal:
        yield from map(repr, inner)
    elif origin is tuple:
        yield f"a tuple, of each {' or '.join(_called(inner[0]))}"
    elif origin is Mapping:
        yield f"a mapping, of each {' or '.join(_called(inner[1]))}"
    else:
        yield _CALLED.get(kind, with_article(kind.__name__))
