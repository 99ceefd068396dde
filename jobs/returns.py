"""What handlers return, as JSON values."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from jobs.errors import ResultNotKept

MAX_RESULT_BYTES = 300 * 1024
"""The largest result that stands in a record; DynamoDB takes items of 400 KB. A larger one goes
into the app's bucket."""


def dump_result(value: Any) -> tuple[Any, int]:
    """A result as JSON values, and how many bytes it has as JSON.

    Raises:
        ResultNotKept: JSON can't hold it.
    """
    try:
        text = to_json(value, by_alias=True)
    except (PydanticSerializationError, ValueError) as error:
        raise ResultNotKept(
            f"the result, a {type(value).__name__}, is not kept, since JSON can't hold it: {error}"
        ) from error
    return from_json(text), len(text)
