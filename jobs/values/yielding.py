"""Large JSON texts, read in a way that lets other threads run.

pydantic holds the interpreter's lock from the start of a call to its end. With 10 MiB of small
objects that is a third of a second in which no other thread moves, so that reading them in a thread
would not help the event loop. But wherever Python code runs, the interpreter hands the lock to
threads that wait for it. Here each item goes through a function that does nothing, which costs a
twentieth more.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, core_schema, from_json

LARGE = 262_144
"""Length of a JSON text from which on it is read this way; a shorter one takes milliseconds."""

_ITEMS = frozenset({"items_schema", "values_schema"})
"""Where a schema has those of what a collection holds."""

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
"""Where it has others. All else is left as it is: defaults, functions, and kinds of schemas that
are not known here, whose collections are then read in one go."""

_of_object = SchemaValidator(core_schema.typed_dict_schema({}, extra_behavior="ignore"))
"""Parses any object, and makes nothing of what it holds."""


def same(value: Any) -> Any:
    """Return the value. As every call of Python code, it lets other threads run."""
    return value


def read(text: str | bytes, *, allow_inf_nan: bool = True) -> Any:
    """`pydantic_core.from_json`, which lets other threads run at each object of a large text.

    Raises:
        ValueError: it is no JSON.
        TypeError: it holds a lone surrogate.
    """
    if len(text) < LARGE:
        return from_json(text, allow_inf_nan=allow_inf_nan)
    try:
        # json.loads takes more than JSON: lone surrogates, and what is nested too deeply.
        _of_object.validate_json(b'{"":%b}' % (text.encode() if isinstance(text, str) else text))
    except ValueError:
        return from_json(text, allow_inf_nan=allow_inf_nan)  # tells why, and doesn't quote the text
    return json.loads(text, object_hook=same, parse_constant=None if allow_inf_nan else _refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


class Yielding:
    """Reads JSON texts as an adapter does, with the same results and errors, and lets other threads
    run at each item of a list, tuple, set or dict.

    Args:
        adapter: of the type that is read.
    """

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter
        self._validator = _validator(_yielding(adapter.core_schema))

    def validate_json(self, text: bytes) -> Any:
        """`pydantic.TypeAdapter.validate_json`."""
        try:
            return self._validator.validate_json(text)
        except ValidationError as error:
            if not _names_ours(error):
                raise
        return self._adapter.validate_json(text)


def _names_ours(error: ValidationError) -> bool:
    """True if a place is named by our function: choices of unions are, by their validators."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return any(f"{same.__name__}()" in str(part) for fault in faults for part in fault["loc"])


def _validator(schema: Any) -> SchemaValidator:
    try:
        # Models would otherwise be read by the validators of their own classes, in one go.
        return SchemaValidator(schema, _use_prebuilt=False)
    except TypeError:  # a pydantic-core that has no such option
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
