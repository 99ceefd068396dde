"""EventBridge's event patterns, checked before AWS does and copied as plain JSON values.

    {"source": ["shop"], "detail": {"total": [{"numeric": [">", 0, "<=", 5]}]}}

A field has a list of alternatives: values, and comparisons with one operator each. ``$or`` has a
list of patterns. The checks refuse what AWS's own engine refuses, and patterns over a quota.

https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html
https://github.com/aws/event-ruler
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from headgate.jobs.errors import ConfigurationError, did_you_mean
from headgate.jobs.values.json_values import is_lost, is_utf8
from headgate.jobs.values.texts import kind_of

LONGEST_PATTERN = 2_048
"""Maximum characters of a pattern, unless the account's quota was raised.
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html"""

_DEEPEST = 100

_WILDCARD = re.compile(r"(?:[^\\*]|\\[\\*]|\*(?!\*))*", re.DOTALL)
_BITS = "[0-9]{1,3}"

_OR = "$or"


def checked_pattern(where: str, pattern: Any) -> dict[str, Any]:
    """Return a checked copy of a pattern, made of dicts, lists and JSON values.

    Args:
        where: the name of the rule in errors.
        pattern: the argument of `App.event_rule`.

    Raises:
        ConfigurationError: EventBridge would refuse it; names the field.
    """
    if not isinstance(pattern, Mapping) or not pattern:
        raise ConfigurationError(
            f"{where}: pattern must be an event pattern, got {_shown(pattern)}: "
            'write {"source": ["shop"], "detail-type": ["OrderPlaced"]}'
        )
    copied = _object(f"{where}: pattern", pattern, depth=1)
    size = len(json.dumps(copied, separators=(",", ":"), ensure_ascii=False))
    if size > LONGEST_PATTERN:
        raise ConfigurationError(
            f"{where}: pattern has {size:,} characters of JSON; EventBridge takes "
            f"{LONGEST_PATTERN:,}: shorten it, or split it into several rules"
        )
    return copied


def _object(where: str, pattern: Mapping[Any, Any], *, depth: int) -> dict[str, Any]:
    if not pattern:
        raise ConfigurationError(f"{where} must name at least one field, got {{}}")
    if depth > _DEEPEST:
        raise ConfigurationError(f"{where} is nested more than {_DEEPEST} deep")
    return {
        name: _member(where, _text(f"{where}: a field's name", name), wanted, depth=depth)
        for name, wanted in pattern.items()
    }


def _member(where: str, name: str, wanted: Any, *, depth: int) -> dict[str, Any] | list[Any]:
    place = f"{where}[{name!r}]"
    if name == _OR:
        return _alternatives(place, wanted, depth=depth)
    if isinstance(wanted, Mapping):
        return _object(place, wanted, depth=depth + 1)
    if not isinstance(wanted, list | tuple) or not wanted:
        raise ConfigurationError(
            f"{where}: in an event pattern each field has a list of its possible values, got "
            f"{name!r}: {_shown(wanted)}: write {{{name!r}: [{_shown(wanted)}]}}"
        )
    return [_choice(f"{place}[{index}]", each) for index, each in enumerate(wanted)]


def _alternatives(where: str, wanted: Any, *, depth: int) -> list[dict[str, Any]]:
    if not isinstance(wanted, list | tuple) or len(wanted) < 2:
        raise ConfigurationError(
            f"{where} must be a list of two patterns or more, got {_shown(wanted)}"
        )
    copied = []
    for index, pattern in enumerate(wanted):
        place = f"{where}[{index}]"
        if not isinstance(pattern, Mapping):
            raise ConfigurationError(f"{place} must be a pattern, got {_shown(pattern)}")
        _refuse_operators(place, pattern)
        copied.append(_object(place, pattern, depth=depth + 1))
    return copied


def _refuse_operators(where: str, pattern: Mapping[Any, Any]) -> None:
    if found := [name for name in pattern if isinstance(name, str) and name in _OPERATORS]:
        raise ConfigurationError(
            f"{where} must name a field, got the operator {found[0]!r}: write "
            f'{{"state": [{{{found[0]!r}: ...}}]}}'
        )


def _choice(where: str, wanted: Any) -> Any:
    if isinstance(wanted, Mapping):
        return _comparison(where, wanted, _OPERATORS)
    if wanted is None or isinstance(wanted, bool):
        return wanted
    if isinstance(wanted, str):
        return _text(where, wanted)
    if isinstance(wanted, int | float):
        return _number(where, wanted)
    raise ConfigurationError(
        f"{where} must be a string, a number, True, False, None or a comparison such as "
        f'{{"prefix": "eu-"}}, got {_shown(wanted)}'
    )


# --- operators -----------------------------------------------------------------------------------

_Operator = Callable[[str, Any], Any]
"""A function that checks and copies an operator's operand; the first argument is for errors."""


def _comparison(
    where: str, comparison: Mapping[Any, Any], operators: Mapping[str, _Operator]
) -> dict[str, Any]:
    if len(comparison) != 1:
        raise ConfigurationError(f"{where} must have one operator, got {_shown(dict(comparison))}")
    [(operator, operand)] = comparison.items()
    if not isinstance(operator, str) or operator not in operators:
        raise ConfigurationError(
            f"{where}: EventBridge has no operator {operator!r} here: "
            f"{did_you_mean(str(operator), operators)}"
        )
    return {operator: operators[operator](f"{where}[{operator!r}]", operand)}


def _text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{where} must be a string, got {_shown(value)}")
    if not is_utf8(value):
        raise ConfigurationError(f"{where} must be a string without lone surrogates, got {value!r}")
    return value


def _some_text(where: str, value: object) -> str:
    if value == "":
        raise ConfigurationError(f"{where} must not be empty")
    return _text(where, value)


def _text_or_ignoring_case(where: str, value: Any) -> str | dict[str, Any]:
    if isinstance(value, Mapping):
        return _comparison(where, value, {"equals-ignore-case": _text})
    return _text(where, value)


def _wildcard(where: str, value: object) -> str:
    text = _text(where, value)
    if not _WILDCARD.fullmatch(text):
        raise ConfigurationError(
            f"{where} must have no * right after another, and no backslash but before * or "
            f"another backslash, got {text!r}"
        )
    return text


def _exists(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{where} must be True or False, got {_shown(value)}")
    return value


def _cidr(where: str, value: object) -> str:
    text = _text(where, value)
    if not _is_block(text):
        raise ConfigurationError(
            f"{where} must be a block of addresses such as 10.0.0.0/24, got {text!r}"
        )
    return text


def _is_block(text: str) -> bool:
    address, _, bits = text.partition("/")
    try:
        longest = ipaddress.ip_address(address).max_prefixlen
    except ValueError:
        return False
    # EventBridge supports neither zones nor blocks of a single address.
    return "%" not in address and re.fullmatch(_BITS, bits) is not None and int(bits) < longest


def _anything_but(where: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return _comparison(where, value, _EXCLUDED)
    if isinstance(value, list | tuple):
        return _excluded_values(where, value)
    return _text(where, value) if isinstance(value, str) else _number(where, value)


def _excluded_values(where: str, values: list[Any] | tuple[Any, ...]) -> list[Any]:
    texts = [isinstance(each, str) for each in values]
    if not values or any(texts) != all(texts):
        raise ConfigurationError(
            f"{where} must be a list of strings or of numbers, not both, got {_shown(values)}"
        )
    check: _Operator = _text if texts[0] else _number
    return [check(f"{where}[{index}]", each) for index, each in enumerate(values)]


def _one_or_several(check: _Operator) -> _Operator:
    def checked(where: str, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return check(where, value)
        if not value:
            raise ConfigurationError(f"{where} must not be empty")
        return [check(f"{where}[{index}]", each) for index, each in enumerate(value)]

    return checked


def _numeric(where: str, value: Any) -> list[Any]:
    """Check one bound, or a lower and an upper one: ``[">", 0, "<=", 5]``."""
    if not isinstance(value, list | tuple) or len(value) not in (2, 4):
        _refuse_numeric(where, value)
    signs, numbers = value[::2], value[1::2]
    for index, number in enumerate(numbers):
        _number(f"{where}[{2 * index + 1}]", number)
    if not all(isinstance(sign, str) for sign in signs) or tuple(signs) not in _BOUNDS:
        _refuse_numeric(where, value)
    if len(numbers) == 2 and not numbers[0] < numbers[1]:
        raise ConfigurationError(
            f"{where}: the lower bound must be the smaller one, got {_shown(value)}"
        )
    return list(value)


def _refuse_numeric(where: str, value: Any) -> NoReturn:
    raise ConfigurationError(
        f'{where} must be one bound, such as ["=", 5], or a lower and an upper one, such as '
        f'[">", 0, "<=", 5], got {_shown(value)}'
    )


def _number(where: str, value: Any) -> int | float:
    """Check that a double holds the number exactly.

    CDK writes the template in JavaScript, which rounds to the nearest double, so that the rule
    would match another number.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and _is_double(value):
        return value
    raise ConfigurationError(
        f"{where} must be a number that a double holds exactly, got {_shown(value)}"
    )


def _is_double(number: float) -> bool:
    try:
        return float(number) == number and not is_lost(number)
    except OverflowError:
        return False


def _shown(value: object) -> str:
    try:
        return repr(value)
    except (ValueError, RecursionError):  # of too many digits, or nested too deeply
        return kind_of(value)


_LOWER, _UPPER = (">", ">="), ("<", "<=")

_BOUNDS = {("=",), *((sign,) for sign in (*_LOWER, *_UPPER))} | {
    (lower, upper) for lower in _LOWER for upper in _UPPER
}

_EXCLUDED: Mapping[str, _Operator] = {
    "prefix": _one_or_several(_some_text),
    "suffix": _one_or_several(_some_text),
    "equals-ignore-case": _one_or_several(_text),
    "wildcard": _one_or_several(_wildcard),
}
"""The operators that anything-but may negate."""

_OPERATORS: Mapping[str, _Operator] = {
    "prefix": _text_or_ignoring_case,
    "suffix": _text_or_ignoring_case,
    "equals-ignore-case": _text,
    "wildcard": _wildcard,
    "anything-but": _anything_but,
    "numeric": _numeric,
    "cidr": _cidr,
    "exists": _exists,
}
