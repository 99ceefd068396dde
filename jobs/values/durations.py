"""Durations: seconds or a timedelta where they are written, a timedelta where they are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeAlias, overload

from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from headgate.jobs.errors import HeadgateError, SettingsInvalid

Duration: TypeAlias = timedelta | float
"""A length of time: a timedelta, or a number of seconds."""

_ZERO = timedelta(0)


def duration(
    name: str,
    value: object,
    *,
    positive: bool = False,
    error: type[HeadgateError] = SettingsInvalid,
) -> timedelta:
    """Return a `Duration` as a timedelta, exact to the microsecond.

    >>> duration("timeout", 1.5)
    datetime.timedelta(seconds=1, microseconds=500000)

    Args:
        name: the name of the option in errors.
        value: the duration as it was written.
        positive: refuse 0 too.
        error: the class of the error to raise.

    Raises:
        HeadgateError: ``error``; the value is no duration, or it is negative or too long.
    """
    length = _length(name, value, error)
    if length < _ZERO:
        raise error(f"{name} must not be negative, got {_written(value)}")
    if positive and not length:
        raise error(f"{name} must be positive, got {_written(value)}")
    return length


def _length(name: str, value: object, error: type[HeadgateError]) -> timedelta:
    try:
        match value:
            case timedelta():
                return value
            case bool():  # an int in Python, but a mistake here
                pass
            case int() | float():
                return timedelta(seconds=value)
    except OverflowError:  # as of an infinity; not quoted, since an int may be too long to print
        raise error(
            f"{name} is out of range: a duration has at most {timedelta.max.days:,} days"
        ) from None
    except ValueError:  # a NaN
        pass
    raise error(
        f"{name} must be a timedelta or a number of seconds, got {value!r}: write "
        "timedelta(seconds=90) or 90"
    )


def _written(value: object) -> str:
    return str(value) if isinstance(value, timedelta) else f"{value!r} s"


class DurationField:
    """A field of a dataclass that is given as a `Duration` and read as a timedelta.

    Type checkers take the type of the field's argument from `__set__`, and that of the attribute
    from `__get__`. The dataclass can't have ``slots``, which would take this descriptor's place.
    https://docs.python.org/3/library/dataclasses.html#descriptor-typed-fields

    Args:
        default: the field's default.
        positive: refuse 0 too.
    """

    def __init__(self, default: Duration, *, positive: bool = False) -> None:
        self._default = duration("default", default, positive=positive)
        self._positive = positive
        self._name = self._called = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._called = name, f"{owner.__name__}({name}=...)"

    @overload
    def __get__(self, instance: None, owner: type) -> timedelta: ...
    @overload
    def __get__(self, instance: object, owner: type) -> timedelta: ...
    def __get__(self, instance: object | None, owner: type) -> timedelta:
        if instance is None:
            return self._default  # as dataclasses ask for it
        length: timedelta = instance.__dict__[self._name]
        return length

    def __set__(self, instance: object, value: Duration) -> None:
        instance.__dict__[self._name] = duration(self._called, value, positive=self._positive)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: Any) -> CoreSchema:
        """Describe the field in JSON: pydantic sets it without `__set__`."""
        return core_schema.no_info_plain_validator_function(_from_json)


def _from_json(value: object) -> timedelta:
    try:
        return duration("", value)
    except SettingsInvalid:
        raise PydanticKnownError("time_delta_type") from None
