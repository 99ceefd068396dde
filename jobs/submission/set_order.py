"""The order of sets in payloads, which differs between processes, taken out of their comparison."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from headgate.jobs.values.json_values import members


def in_order(given: Any, written: Any) -> Any:
    """Return JSON values with the items of all sets in one order; without sets, the same values.

    Args:
        given: Python values, as returned by pydantic's ``dump_python``.
        written: the same values, written as JSON and read back.
    """
    if not isinstance(written, dict | list):
        return written
    if isinstance(given, set | frozenset) and isinstance(written, list):
        return sorted((_in_set(given, item) for item in written), key=canonical)
    ordered = {name: in_order(inner, outer) for name, inner, outer in members(given, written)}
    if isinstance(written, dict):
        return written | ordered
    return [ordered.get(index, item) for index, item in enumerate(written)]


def canonical(value: Any) -> bytes:
    """Return JSON values as text that is the same for equal ones."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _in_set(given: Collection[Any], written: Any) -> Any:
    """Return an item of a set with its own sets in order; it is not known which it was there."""
    if all(isinstance(item, frozenset) for item in given):
        return in_order(frozenset[Any]().union(*given), written)
    return written
