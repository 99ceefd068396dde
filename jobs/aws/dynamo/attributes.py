"""Conversion of items to DynamoDB's attributes and back, with DynamoDB's limits. Uses no SDK.

    attribute    type   of an item
    pk, sk       S      its key
    data         M      its values: a string is S, a number N, a boolean BOOL, None NULL, a list L
    version      N      left out while it is 0
    expires_at   N      epoch seconds, rounded up, for DynamoDB's time to live
    list, place  S      its line's, the key of the index; left out if it has no line
    summary      M      its line's

Numbers are read back equal to those written. DynamoDB keeps 38 digits, but doesn't distinguish
``1`` from ``1.0``: a whole number below 10^38 is read back as an int, any other as a float.

Limits: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pydantic_core import to_json

from headgate.jobs.core.ports.table import MAX_PUT, Item, Key, ListLine
from headgate.jobs.errors import ItemRefused, ItemUnreadable, TransportError

Attribute = dict[str, Any]
"""One value under the name of its type, such as ``{"S": "text"}``."""
Attributes = dict[str, Attribute]
"""A whole item, or the entries of a map."""

MAX_ITEM_BYTES = 409_600

_MAX_KEY_BYTES = {"pk": 2048, "sk": 1024, "list": 2048, "place": 1024}
_MAX_CONTAINERS = 31  # the innermost of 32 levels is a value; ``data`` is the first
_DIGITS = 38
_MOST_VERSIONS = 2**53  # an item replaced every millisecond since 1970 has had fewer
_LEAST, _BEYOND = 1e-130, 1e126  # the magnitudes of numbers


class _Unfit(Exception):
    """The reason why an item can't be stored; it names no value, since that may be a payload."""


def encode(item: Item) -> Attributes:
    """Return the attributes of an item.

    Raises:
        ItemRefused: DynamoDB would refuse it; the message names the item and the reason.
    """
    try:
        attributes = _encode(item)
        _check_size(attributes)
    except _Unfit as error:
        raise ItemRefused(
            f"the item pk={item.pk[:200]!r}, sk={item.sk[:200]!r} can't be stored: {error}"
        ) from None
    return attributes


def encode_all(items: Sequence[Item]) -> list[Attributes]:
    """Return the attributes of items that go out in one batch.

    Raises:
        ItemRefused: one can't be stored; then none of them may be sent.
        TransportError: there are too many, or two have one place.
    """
    if len(items) > MAX_PUT:
        raise TransportError(f"at most {MAX_PUT} items are put at once, got {len(items)}")
    places: set[tuple[str, str]] = set()
    for item in items:
        if (place := (item.pk, item.sk)) in places:
            raise TransportError(
                f"two items of one batch have the key pk={item.pk!r}, sk={item.sk!r}"
            )
        places.add(place)
    return [encode(item) for item in items]


def check_keys(keys: Sequence[Key]) -> None:
    """Raise `TransportError` if keys are too many for one batch, or not all different."""
    if len(keys) > MAX_PUT:
        raise TransportError(f"at most {MAX_PUT} items are deleted at once, got {len(keys)}")
    if len(set(keys)) < len(keys):
        raise TransportError("the keys to delete at once contain a duplicate")


def encode_next(item: Item) -> Attributes:
    """Return the attributes of an item that replaces one of the previous version.

    Raises:
        ItemRefused: it can't be stored.
        TransportError: its version is not at least 1.
    """
    if item.version < 1:
        raise TransportError(
            f"the item pk={item.pk!r}, sk={item.sk!r} can't replace another: versions count "
            f"from 1, got {item.version}"
        )
    return encode(item)


def decode(attributes: Mapping[str, Attribute]) -> Item:
    """Return the item with these attributes; unknown attributes are ignored.

    Raises:
        ItemUnreadable: Headgate can't have written it: a value of a type that is not JSON's, an
            absurd number, or something missing.
    """
    with suppress(Exception):  # anyone who may write to the table may have written anything
        return _item(attributes)
    # Not from that error, which may quote the item.
    raise ItemUnreadable(_text_of(attributes.get("pk")), _text_of(attributes.get("sk")))


def _item(attributes: Mapping[str, Attribute]) -> Item:
    expires_at = attributes.get("expires_at")
    return Item(
        pk=attributes["pk"]["S"],
        sk=attributes["sk"]["S"],
        data=_values(attributes, "data"),
        version=_version(attributes),
        expires_at=datetime.fromtimestamp(int(expires_at["N"]), UTC) if expires_at else None,
        line=_line(attributes) if "list" in attributes else None,
    )


def _values(attributes: Mapping[str, Attribute], name: str) -> dict[str, Any]:
    found = _decode(attributes.get(name, {"M": {}}))
    if not isinstance(found, dict):
        raise TypeError(name)
    return found


def _version(attributes: Mapping[str, Attribute]) -> int:
    version = int(attributes.get("version", {"N": "0"})["N"])
    if not 0 <= version <= _MOST_VERSIONS:
        raise ValueError(version)
    return version


def _text_of(attribute: Attribute | None) -> str:
    return str((attribute or {}).get("S") or "")


def _line(attributes: Mapping[str, Attribute]) -> ListLine:
    return ListLine(
        list=attributes["list"]["S"],
        place=attributes["place"]["S"],
        summary=_values(attributes, "summary"),
    )


def lives(item: Item, now: datetime) -> bool:
    """Return True if an item has not expired; DynamoDB deletes expired ones only within days.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html
    """
    return item.expires_at is None or item.expires_at > now


# --- writing -------------------------------------------------------------------------------------


def _encode(item: Item) -> Attributes:
    attributes = {
        "pk": _key("pk", item.pk),
        "sk": _key("sk", item.sk),
        "data": _map(item.data, 1, at_top=True),
    }
    if item.version:
        attributes["version"] = _int(item.version)
    if item.expires_at is not None:
        attributes["expires_at"] = {"N": str(_epoch_s(item.expires_at))}
    if (line := item.line) is not None:
        attributes["list"] = _key("list", line.list)
        attributes["place"] = _key("place", line.place)
        attributes["summary"] = _map(line.summary, 1, at_top=True)
    return attributes


def _key(name: str, value: str) -> Attribute:
    if not 1 <= _utf8(value) <= _MAX_KEY_BYTES[name]:
        raise _Unfit(f"{name} must have 1 to {_MAX_KEY_BYTES[name]} bytes, has {_utf8(value)}")
    return {"S": value}


def _epoch_s(moment: datetime) -> int:
    if moment.utcoffset() is None:
        raise _Unfit("expires_at has no time zone")
    return math.ceil(moment.timestamp())


def _value(value: Any, level: int) -> Attribute:
    match value:
        case str():
            if not value.isascii():
                _utf8(value)
            return {"S": value}
        case bool():
            return {"BOOL": value}
        case int():
            return _int(value)
        case float():
            return _float(value)
        case None:
            return {"NULL": True}
        case Mapping():
            return _map(value, level)
        case list() | tuple():
            return _list(value, level)
    raise _Unfit(f"{type(value).__name__} is not a JSON type")


def _map(values: Mapping[Any, Any], level: int, *, at_top: bool = False) -> Attribute:
    _check_level(level)
    encoded = {}
    for name, value in values.items():
        if not isinstance(name, str) or not name:
            raise _Unfit("the names in a map are strings, and not empty")
        if not name.isascii():
            _utf8(name)
        try:
            encoded[name] = _value(value, level + 1)
        except _Unfit as error:
            # Names further down may be a payload's.
            raise (_Unfit(f"data[{name!r}]: {error}") if at_top else error) from None
    return {"M": encoded}


def _list(values: Sequence[Any], level: int) -> Attribute:
    _check_level(level)
    return {"L": [_value(value, level + 1) for value in values]}


def _check_level(level: int) -> None:
    if level > _MAX_CONTAINERS:
        raise _Unfit(f"maps and lists are nested deeper than {_MAX_CONTAINERS} levels")


def _int(value: int) -> Attribute:
    if abs(value) >= 10**_DIGITS:
        raise _Unfit(f"an integer has more than {_DIGITS} digits")
    return {"N": int.__repr__(value)}  # an IntEnum's own would be its name


def _float(value: float) -> Attribute:
    if not math.isfinite(value):
        raise _Unfit("a number is infinite or NaN")
    if value.is_integer() and abs(value) < 10**_DIGITS:
        return _int(int(value))  # with all digits: "1e+23" would be read back as 10**23, another
    if not _LEAST <= abs(value) < _BEYOND:
        raise _Unfit("a number is too small or too large: magnitudes go from 1e-130 to 1e126")
    return {"N": float.__repr__(value)}


def _utf8(text: str) -> int:
    """Return the size of a text in bytes."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise _Unfit("a text has half a surrogate pair, which UTF-8 lacks") from None


# --- size ----------------------------------------------------------------------------------------
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html


def size_of(attributes: Attributes) -> int:
    """Return the approximate size of an item in bytes, never less than DynamoDB counts."""
    return _bytes_of_map(attributes)


def _check_size(attributes: Attributes) -> None:
    if len(to_json(attributes)) <= MAX_ITEM_BYTES:
        return  # its text is longer than the item, and had for much less than a count
    if (size := size_of(attributes)) > MAX_ITEM_BYTES:
        raise _Unfit(f"it has {size} bytes, and DynamoDB takes {MAX_ITEM_BYTES}")


def _bytes_of(attribute: Attribute) -> int:
    [(kind, value)] = attribute.items()
    match kind:
        case "S":
            return _utf8(value)
        case "N":
            return len(value) // 2 + 2  # AWS's own figure is approximate; this is never below it
        case "M":
            return 3 + len(value) + _bytes_of_map(value)
        case "L":
            return 3 + len(value) + sum(map(_bytes_of, value))
        case _:
            return 1


def _bytes_of_map(attributes: Attributes) -> int:
    return sum(_utf8(name) + _bytes_of(attribute) for name, attribute in attributes.items())


# --- reading -------------------------------------------------------------------------------------


def _number(text: str) -> int | float:
    number = Decimal(text)  # exact: only arithmetic rounds to the context's precision
    if number.adjusted() < _DIGITS and number == number.to_integral_value():
        return int(number)
    return float(number)


def _decode_map(values: Mapping[str, Attribute]) -> dict[str, Any]:
    return {name: _decode(value) for name, value in values.items()}


def _decode_list(values: Sequence[Attribute]) -> list[Any]:
    return [_decode(value) for value in values]


def _null(_: Any) -> None:
    return None


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "S": str,
    "N": _number,
    "BOOL": bool,
    "NULL": _null,
    "M": _decode_map,
    "L": _decode_list,
}


def _decode(attribute: Attribute) -> Any:
    [(kind, value)] = attribute.items()
    if kind not in _READERS:
        raise TypeError(kind)
    return _READERS[kind](value)
