"""What handlers return, as JSON values."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from jobs.errors import ResultNotKept

MAX_RESULT_BYTES = 300 * 1024
"""The largest result that stands in a record; DynamoDB takes items of 400 KB."""


def dump_result(value: Any) -> tuple[Any, int]:
    """A result as JSON values, and how many bytes it has as JSON.

    Raises:
        ResultNotKept: JSON can't hold it, or it is too large.
    """
    try:
        text = to_json(value, by_alias=True)
    except (PydanticSerializationError, ValueError) as error:
        raise ResultNotKept(
            f"the result, a {type(value).__name__}, is not kept, since JSON can't hold it: {error}"
        ) from error
    if len(text) > MAX_RESULT_BYTES:
        raise ResultNotKept(
            f"the result has {len(text):,} bytes as JSON and is not kept: a record holds "
            f"{MAX_RESULT_BYTES:,}. Store it, and return its address"
        )
    return from_json(text), len(text)
