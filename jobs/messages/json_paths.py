"""Fields of a payload taken from other JSON by their paths: ``{"order": "$.detail.order_id"}``.

A path is ``$`` for the whole value, then ``.name`` and ``[0]`` as often as needed, as EventBridge's
input paths are. It is data, so a rule can pass it to a function without the app's code.
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.json_values import is_utf8

_PATH = r"\$(?:\.[^.\[\]]+|\[\d+\])*"
_STEP = r"\.([^.\[\]]+)|\[(\d+)\]"

_ABSENT = object()


def check_paths(where: str, fields: Any) -> Mapping[str, str] | None:
    """Return a checked copy of a mapping from fields to paths.

    Raises:
        ConfigurationError: it is not a mapping, it is empty, or one of the paths is invalid.
    """
    if fields is None:
        return None
    if not isinstance(fields, Mapping) or not fields:
        raise ConfigurationError(
            f"{where}: fields must name at least one field of the payload and its path, got "
            f'{fields!r}: write fields={{"order": "$.detail.order_id"}}'
        )
    for field, path in fields.items():
        if not isinstance(field, str) or not field or not is_utf8(field):
            raise ConfigurationError(f"{where}: fields names those of the payload, got {field!r}")
        check_path(f"{where}: fields[{field!r}]", path)
    return dict(fields)


def check_path(where: str, path: Any) -> None:
    """Check that a value is a path.

    Raises:
        ConfigurationError: it is not one.
    """
    if not isinstance(path, str) or not re.fullmatch(_PATH, path) or not is_utf8(path):
        raise ConfigurationError(
            f"{where} must be a path such as $.detail.order_id or $.items[0].sku, got {path!r}"
        )


def mapped(fields: Mapping[str, str], value: Any) -> dict[str, Any]:
    """Return the fields with the values at their paths, without those whose path has no value."""
    found = {field: _follow(path, value) for field, path in fields.items()}
    return {field: each for field, each in found.items() if each is not _ABSENT}


def at_path(path: str, value: Any) -> Any:
    """Return the value at a path; None if there is none."""
    found = _follow(path, value)
    return None if found is _ABSENT else found


def _follow(path: str, value: Any) -> Any:
    for name, index in re.findall(_STEP, path):
        if name and isinstance(value, Mapping):
            value = value.get(name, _ABSENT)
        elif index and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            return _ABSENT
    return value
