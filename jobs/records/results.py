"""Handlers' results, as JSON values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic_core import PydanticSerializationError

from headgate.jobs.errors import ResultNotSerializable
from headgate.jobs.values.json_values import values_of_fields
from headgate.jobs.values.texts import kind_of
from headgate.jobs.values.yielding import read, written

MAX_RESULT_BYTES = 300 * 1024
"""Bytes of the largest result that is stored in a record; DynamoDB takes items of 400 KB. A larger
one goes into the app's bucket."""


_MOMENT = 65_536
"""Approximate number of characters that are written as JSON within a few milliseconds."""

_VALUE = 16
"""Characters that each value counts as, besides those of its text."""

_SCALARS = frozenset({type(None), bool, int, float})


def is_large(value: Any) -> bool:
    """Return True if writing a value as JSON may take more than a moment.

    Looks at a bounded part of the value. What only pydantic knows how to write counts as small;
    what can't be inspected counts as large, since a handler's own classes may raise anything.
    """
    try:
        return _is_beyond_a_moment(value)
    except Exception:  # noqa: BLE001 - such as of a dictionary with an attribute "values"
        return True


def _is_beyond_a_moment(value: Any) -> bool:
    left, unseen = _MOMENT, [value]
    while unseen and left > 0:
        each = unseen.pop()
        left -= _VALUE
        if (kind := type(each)) in _SCALARS:
            continue
        if kind is str or kind is bytes:
            left -= len(each)
        elif issubclass(kind, dict | list | tuple | set | frozenset):
            if (left := left - _VALUE * len(each)) > 0:
                unseen.extend(each.values() if issubclass(kind, dict) else each)
        else:
            unseen.extend(values_of_fields(each))
    return left <= 0


async def dumped(value: Any, write: Callable[[Any], bytes] = written) -> tuple[Any, int]:
    """Run `dump_result`, off the event loop if the value is large."""
    if is_large(value):
        return await asyncio.to_thread(dump_result, value, write)
    return dump_result(value, write)


def dump_result(value: Any, write: Callable[[Any], bytes] = written) -> tuple[Any, int]:
    """Return a result as JSON values, and its size as JSON in bytes.

    Args:
        value: the result.
        write: writes it as JSON; by default as the types of its values say.

    Raises:
        ResultNotSerializable: JSON can't hold it.
    """
    try:
        text = write(value)
        return read(text), len(text)  # which refuses integers of thousands of digits
    except (PydanticSerializationError, ValueError) as error:
        raise ResultNotSerializable(
            f"the handler returned {kind_of(value)}, which JSON can't hold: {error}. "
            "Return a pydantic model, a dataclass or JSON values"
        ) from error
