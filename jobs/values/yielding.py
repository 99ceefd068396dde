"""Parsing of large JSON texts that lets other threads run meanwhile.

Pydantic holds the interpreter's lock from the start of a call to its end. With 10 MiB of small
objects that is a third of a second in which no other thread runs, so that parsing them in a thread
would not help the event loop. But wherever Python code runs, the interpreter passes the lock to
threads that wait for it. Here each item goes through a function that does nothing, which takes 5 %
longer.

Nor does Python's garbage collector hold it up (`jobs.values.collector`): while 10 MiB of small
objects are made, it would run several times, for up to a fifth of a second each, and in vain, since
JSON has no cycles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, core_schema, from_json, to_json

from headgate.jobs.values.collector import held_off

T = TypeVar("T")

LARGE = 262_144
"""Minimum length of a JSON text that is read this way; a shorter one takes milliseconds."""

_ITEMS = frozenset({"items_schema", "values_schema"})
"""Keys of a schema under which the schemas of a collection's items are found."""

_INNER = frozenset(
    {
        "choices",
        "definitions",
        "extras_schema",
        "fields",
        "json_schema",
        "lax_schema",
        "python_schema",
        "schema",
        "steps",
        "strict_schema",
    }
)
"""Keys for other nested schemas. Everything else is left unchanged: defaults, functions, and kinds
of schemas that are not known here, whose collections are then read in one go."""

_DIVISIBLE = frozenset({"any", "dict", "list"})
"""Kinds of schemas that write each item by itself."""

_of_object = SchemaValidator(core_schema.typed_dict_schema({}, extra_behavior="ignore"))
"""Parses any JSON object without building its contents."""

_DEEP = 150
"""Levels of nesting above which it is left to pydantic whether they are too many."""

LONG = 256
"""Number of items of a list or dict that are written in one go."""


def same(value: T) -> T:
    """Return the value; like every call of Python code, this lets other threads run."""
    return value


def read(text: str | bytes, *, allow_inf_nan: bool = True) -> Any:
    """Parse JSON like `pydantic_core.from_json`, letting threads run at each object and at each
    number if it is large.

    Raises:
        ValueError: the text is not JSON.
        TypeError: it contains a lone surrogate.
    """
    if len(text) < LARGE:
        return from_json(text, allow_inf_nan=allow_inf_nan)
    try:
        return _parsed(text, allow_inf_nan=allow_inf_nan)
    except (ValueError, RecursionError):
        return from_json(text, allow_inf_nan=allow_inf_nan)  # names the cause without the text


def _parsed(text: str | bytes, *, allow_inf_nan: bool) -> Any:
    """Parse JSON; raises some error for what `pydantic_core.from_json` might not accept.

    json.loads accepts more than that: lone surrogates, and overly deep nesting.
    """
    if isinstance(text, bytes):
        whole = text.decode()
    else:
        whole = text
        if not whole.isascii():
            whole.encode()  # a lone surrogate can't be
    if "\\ud" in whole or "\\uD" in whole:  # half of a character, or its lone half
        _of_object.validate_json(b'{"":%b}' % whole.encode())
    with held_off():
        value = json.loads(
            whole,
            object_hook=same,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=None if allow_inf_nan else _refuse,
        )
        _refuse_deep(value)
    return value


def _refuse_deep(value: Any) -> None:
    """Check that a value has no more levels than pydantic surely reads.

    Raises:
        ValueError: it has.
    """
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_DEEP):
        level = [
            inner
            for each in level
            for inner in (each.values() if type(each) is dict else each)
            if type(inner) is dict or type(inner) is list
        ]
    if level:
        raise ValueError("it is nested deeply")


def is_long(value: object) -> bool:
    """Return True for a list or dict that `written` divides."""
    return (type(value) is list or type(value) is dict) and len(value) > LONG


def written(value: Any, write: Callable[[Any], bytes] = to_json) -> bytes:
    """Write JSON, letting threads run between the pieces of a long list or dict.

    Args:
        value: any value.
        write: writes the value, or a part of a long list or dict.

    Raises:
        Exception: what ``write`` raises.
    """
    if not is_long(value):
        return write(value)
    if type(value) is dict:
        text = b",".join([write(piece)[1:-1] for piece in _pieces_of_dict(value.copy())])
        return b"{%b}" % text
    return b"[%b]" % b",".join([write(piece)[1:-1] for piece in _pieces_of_list([*value])])


def writes_pieces(adapter: TypeAdapter[Any]) -> bool:
    """Return True if a part of a list or dict of that type is written like the whole."""
    schema: Any = adapter.core_schema
    return schema["type"] in _DIVISIBLE and "serialization" not in schema


def _pieces_of_list(items: list[Any]) -> Iterator[list[Any]]:
    for at in range(0, len(items), LONG):
        yield items[at : at + LONG]


def _pieces_of_dict(entries: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
    left = iter(entries.items())
    while piece := dict(islice(left, LONG)):
        yield piece


def _integer(digits: str) -> int:
    # int itself is no Python code: 10 MiB of integers would be read without a pause.
    return same(int(digits))


def _float(digits: str) -> float:
    return same(float(digits))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


class Yielding:
    """Reads JSON texts as an adapter does, with the same results and errors, and lets other threads
    run at each item of a list, tuple, set or dict.

    Args:
        adapter: the adapter of the type to read.
    """

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter
        self._is_any = adapter.core_schema["type"] == "any"
        self._validator = _validator(_yielding(adapter.core_schema))

    def validate_json(self, text: bytes) -> Any:
        """Validate as `pydantic.TypeAdapter.validate_json` does."""
        if self._is_any:
            return self._read(text)
        try:
            with held_off():
                return self._validator.validate_json(text)
        except ValidationError as error:
            if not _names_ours(error):
                raise
        return self._adapter.validate_json(text)

    def _read(self, text: bytes) -> Any:
        try:
            return read(text)
        except ValueError:
            return self._adapter.validate_json(text)  # for its error


def _names_ours(error: ValidationError) -> bool:
    """Return True if a location has our function's name, as unions name choices by validator."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return any(f"{same.__name__}()" in str(part) for fault in faults for part in fault["loc"])


def _validator(schema: Any) -> SchemaValidator:
    try:
        # Models would otherwise be read by the validators of their own classes, in one go.
        return SchemaValidator(schema, _use_prebuilt=False)
    except TypeError:  # a pydantic-core without this option
        return SchemaValidator(schema)


def _yielding(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(map(_yielding, schema))
    if not isinstance(schema, dict):
        return schema
    if not isinstance(schema.get("type"), str):  # schemas by name: of fields, or by a union's tag
        return {name: _yielding(each) for name, each in schema.items()}
    return {name: _part(name, each) for name, each in schema.items()}


def _part(name: str, part: Any) -> Any:
    if name in _ITEMS:
        return [*map(_item, part)] if isinstance(part, list) else _item(part)
    return _yielding(part) if name in _INNER else part


def _item(schema: Any) -> Any:
    return core_schema.no_info_after_validator_function(same, _yielding(schema))
