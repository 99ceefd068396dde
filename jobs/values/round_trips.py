"""Values that pydantic writes as JSON and reads back as something else, without an error.

A field whose two aliases differ is written under one name and read under another, so that it comes
back as its default. A `SecretStr` is written as asterisks, which it then consists of. Bytes may be
written by another encoding than they are read by. `losses` finds such fields in a type's schema;
`unread`, `masked` and `changed` tell of one value whether they did.

And one JSON text may stand for values of several types: `unsure` finds the fields of which a value
may come back as one of another type, and `changed` tells whether one did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias

from pydantic import BaseModel, TypeAdapter

from headgate.jobs.values.json_values import members
from headgate.jobs.values.light_dataclass import light_dataclass

MASK = "**********"
"""The text that pydantic writes in place of a secret that is not empty."""

_WHOLE = "a value"
"""The place of a value outside of any model."""

_SEQUENCES = (list, tuple, deque)
"""Types of which one may come back as another, with the same items."""

_NUMBERS = (int, float, Decimal)

_FIELDS = frozenset({"model-fields", "typed-dict", "dataclass-args"})
"""Kinds of schemas that have fields."""

_NO_SCHEMAS = frozenset({"cls", "config", "default", "expected", "metadata", "serialization"})
"""Keys of a schema under which there is no schema of a part."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A field, or the whole type, that may come back from JSON as something else."""

    place: str
    """Its model and its name, as in ``Order.total``; "a value" outside of any model."""
    written: str = ""
    """Its name when it is written; empty if its value and not its name is at fault."""
    read: str = ""
    """The first name under which it is read."""
    by_alias: bool = True
    """False if its model is read by the names of its fields alone."""
    encoding: str = ""
    """The encoding by which its bytes are written, if it is not that by which they are read."""

    @property
    def name(self) -> str:
        """The field's name, without its model."""
        return self.place.rpartition(".")[2]

    @property
    def is_secret(self) -> bool:
        """True if its value is written as asterisks."""
        return not self.written and not self.encoding

    @property
    def instead(self) -> str:
        """The declaration that loses nothing, as an instruction."""
        if self.encoding:
            return f"have its bytes read so, too: ConfigDict(val_json_bytes={self.encoding!r})"
        if self.is_secret:
            return (
                "give its type a serializer, as in Annotated[SecretStr, PlainSerializer(lambda "
                'secret: secret.get_secret_value(), when_used="json")]'
            )
        if not self.by_alias:
            return "have its model read aliases: ConfigDict(validate_by_alias=True)"
        return (
            f"declare it with alias={self.written!r}, or let it be read under that name too: "
            f"validation_alias=AliasChoices({self.read!r}, {self.written!r})"
        )


def losses(adapter: TypeAdapter[Any]) -> list[Loss]:
    """Return the fields of a type that may come back from JSON as something else.

    What a serializer of the user's own writes counts as what they want. So does a field with
    ``exclude=True``.
    """
    return [*dict.fromkeys(_losses(adapter.core_schema, _WHOLE, {}))]


def unread(given: Any, back: Any, names: Container[str]) -> tuple[str, str] | None:
    """Return the path and the name of a field that did not come back; None if all did.

    Args:
        given: a value as JSON values, by the names of its fields. By their aliases a field that was
            not read could be hidden by an extra one, which has its value.
        back: likewise, after it was written and read.
        names: the names of the fields that may not be read; no others are looked at, since a type
            may well read differently what it has written.
    """
    found = next(_unread(given, back, names), None)
    return None if found is None else (".".join(map(str, found)), str(found[-1]))


def masked(given: Any, written: Any) -> str | None:
    """Return the path of a secret that was written as asterisks; None if there is none.

    Args:
        given: Python values, as returned by pydantic's ``dump_python``.
        written: the same values, written as JSON and read back.
    """
    path = next(_masked(given, written), None)
    return None if path is None else ".".join(map(str, path)) or "payload"


def unsure(adapter: TypeAdapter[Any]) -> frozenset[str]:
    """Return the names of the fields whose values may come back as others, as `changed` takes them.

    That is where JSON doesn't tell the type: in a union without a discriminator, in ``Any``, in the
    keys of a dict that may be None. The whole type has the name ``""``.
    """
    encoded = {
        "" if loss.place == _WHOLE else loss.name for loss in losses(adapter) if loss.encoding
    }
    return frozenset(encoded | {*_unsure(adapter.core_schema, "")})


def changed(given: Any, back: Any, names: Container[str]) -> tuple[str, Any, Any] | None:
    """Return the path of a value that came back as another, and both; None if none did.

    Args:
        given: a value.
        back: it, after it was written and read.
        names: the names of the fields to look at, of `unsure`.
    """
    if _is_equal(given, back):
        return None  # which costs next to nothing
    found = next(_changed(given, back, names, ""), None)
    if found is None:
        return None
    path, *values = found
    return ".".join(map(str, path)) or "payload", *values


def _is_equal(given: Any, back: Any) -> bool:
    try:
        return bool(given == back)
    except Exception:  # noqa: BLE001 - of the user's own values, such as arrays
        return False


_Change: TypeAlias = tuple[tuple[int | str, ...], Any, Any]


def _changed(given: Any, back: Any, names: Container[str], name: str) -> Iterator[_Change]:
    if isinstance(given, BaseModel) or is_dataclass(type(given)):
        yield from _changed_in_fields(given, back, names, name)
    elif isinstance(given, Mapping) and isinstance(back, Mapping):
        for key, value in given.items():
            if key in back:
                own = key if isinstance(key, str) and key in names else name
                yield from _below(key, _changed(value, back[key], names, own))
            elif name in names and not isinstance(key, str):
                yield (str(key),), key, str(key)
    elif isinstance(given, _SEQUENCES) and isinstance(back, _SEQUENCES):
        for index, (one, other) in enumerate(zip(given, back, strict=False)):
            yield from _below(index, _changed(one, other, names, name))
    elif name in names and _is_another(given, back):
        yield (), given, back


def _changed_in_fields(
    given: Any, back: Any, names: Container[str], name: str
) -> Iterator[_Change]:
    if not isinstance(given, type(back)):
        if name in names:
            yield (), given, back
        return
    left_out = {each.name for each in fields(back) if not each.init} if is_dataclass(back) else ()
    for each, value in _fields(back):
        own = getattr(given, each, value)
        if each in left_out and each in names and own != value:
            yield (each,), own, value
        yield from _below(each, _changed(own, value, names, each))


def _below(name: Any, found: Iterator[_Change]) -> Iterator[_Change]:
    for path, given, back in found:
        yield (name, *path), given, back


def _fields(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        return value.__dict__.items()
    return [(each.name, getattr(value, each.name, None)) for each in fields(value)]


def _is_another(given: Any, back: Any) -> bool:
    if isinstance(given, bytes) and isinstance(back, bytes):
        return given != back
    if isinstance(given, type(back)) or isinstance(back, type(given)):
        return False
    if isinstance(given, _NUMBERS) and isinstance(back, _NUMBERS):
        return given != back
    return not (isinstance(given, AbstractSet) and isinstance(back, AbstractSet))


def _unsure(schema: Any, name: str) -> Iterator[str]:
    if isinstance(schema, list | tuple):
        for each in schema:
            yield from _unsure(each, name)
    elif isinstance(schema, dict) and not _is_written_by_user(schema):
        if schema.get("type") in _FIELDS:
            yield from _unsure_fields(schema)
            return
        if _is_unsure(schema):
            yield name
        for key, part in schema.items():
            if key not in _NO_SCHEMAS:
                yield from _unsure(part, name)


def _unsure_fields(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, field in _named(schema["fields"]):
        if field.get("serialization_exclude"):
            continue
        if field.get("init") is False:
            yield name
        yield from _unsure(field["schema"], name)


def _is_unsure(schema: Mapping[str, Any]) -> bool:
    """Return True if JSON doesn't tell the type of a schema's values, or of its keys."""
    kind = schema.get("type")
    may_be_none = kind == "dict" and schema.get("keys_schema", {}).get("type") == "nullable"
    return may_be_none or kind in ("any", "union")


def _is_written_by_user(schema: Mapping[str, Any]) -> bool:
    serialization = schema.get("serialization")
    function = serialization.get("function") if isinstance(serialization, dict) else None
    module = getattr(function, "__module__", None) or ""
    return function is not None and module.partition(".")[0] != "pydantic"


def _unread(given: Any, back: Any, names: Container[str]) -> Iterator[tuple[int | str, ...]]:
    if isinstance(given, dict) and isinstance(back, dict):
        for name, value in given.items():
            if name in names and (name not in back or back[name] != value):
                yield (name,)
            for path in _unread(value, back.get(name), names):
                yield (name, *path)
    elif isinstance(given, list) and isinstance(back, list):
        for index, (value, again) in enumerate(zip(given, back, strict=False)):
            for path in _unread(value, again, names):
                yield (index, *path)


def _masked(given: Any, written: Any) -> Iterator[tuple[int | str, ...]]:
    if written == MASK and isinstance(given, _secrets()):
        yield ()
    elif isinstance(written, dict | list):
        for name, inner, outer in members(given, written):
            for path in _masked(inner, outer):
                yield (name, *path)


def _losses(schema: Any, place: str, config: Mapping[str, Any]) -> Iterator[Loss]:
    """Yield the losses of a part of pydantic's core schema.

    The schema is walked as a tree, whatever its parts stand under: pydantic nests them differently
    from version to version.
    """
    if isinstance(schema, list | tuple):
        for each in schema:
            yield from _losses(each, place, config)
    elif isinstance(schema, dict):
        if (code := _serializer(schema)) is not None:
            if code in _masking():
                yield Loss(place=place)
            return
        config = schema.get("config") or config
        if schema.get("type") in _FIELDS:
            yield from _losses_of_fields(schema, config)
            return
        if (encoding := _encoding(schema, config)) is not None:
            yield Loss(place=place, encoding=encoding)
        for key, part in schema.items():
            if key not in _NO_SCHEMAS:
                yield from _losses(part, place, config)


def _encoding(schema: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    """Return the encoding by which bytes are written, if they are read by another."""
    encoding = config.get("ser_json_bytes", "utf8")
    is_read = encoding == config.get("val_json_bytes", "utf8")
    return None if is_read or schema.get("type") != "bytes" else str(encoding)


def _losses_of_fields(schema: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Loss]:
    by_name = any(
        each.get(option)
        for each in (config, schema)
        for option in ("validate_by_name", "populate_by_name")
    )
    by_alias = config.get("validate_by_alias", True)
    for name, field in _named(schema["fields"]):
        if field.get("serialization_exclude"):
            continue
        place = f"{_owner(schema)}.{name}"
        written = field.get("serialization_alias") or name
        paths = _paths(field.get("validation_alias") or name) if by_alias else []
        if by_name:
            paths.append([name])
        if [written] not in paths:
            read = str(paths[0][0]) if paths else name
            yield Loss(place=place, written=written, read=read, by_alias=by_alias)
        yield from _losses(field["schema"], place, config)
    yield from _losses(schema.get("extras_schema"), f"{_owner(schema)}'s extra fields", config)


def _named(fields: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(fields, dict):
        yield from fields.items()
    else:
        for field in fields:
            yield field["name"], field


def _owner(schema: Mapping[str, Any]) -> str:
    named = schema.get("model_name") or schema.get("dataclass_name")
    return str(named or getattr(schema.get("cls"), "__name__", "payload"))


def _paths(alias: str | list[Any]) -> list[list[Any]]:
    """Return the paths under which a field is read, of which any may be there."""
    if isinstance(alias, str):
        return [[alias]]
    return [*alias] if isinstance(alias[0], list) else [alias]


def _serializer(schema: Mapping[str, Any]) -> Any:
    """Return the code that writes a value in place of pydantic's own rules, if any.

    The code and not the function, of which older versions of pydantic make one for each field.
    """
    serialization = schema.get("serialization")
    if not isinstance(serialization, dict) or (function := serialization.get("function")) is None:
        return None
    return getattr(function, "__code__", function)


@cache
def _secrets() -> tuple[type, type, type]:
    from pydantic import Secret, SecretBytes, SecretStr  # slow to import, and few payloads have any

    return SecretStr, SecretBytes, Secret


@cache
def _masking() -> frozenset[Any]:
    """Return the code by which pydantic writes asterisks."""
    text, binary, generic = _secrets()
    secrets: tuple[Any, ...] = (text, binary, generic[str])  # type: ignore[index]  # as is Secret
    schemas = [TypeAdapter(each).core_schema for each in secrets]
    return frozenset(code for schema in schemas for code in _serializers(schema))


def _serializers(schema: Any) -> Iterator[Any]:
    if isinstance(schema, dict):
        if (code := _serializer(schema)) is not None:
            yield code
        for part in schema.values():
            yield from _serializers(part)
