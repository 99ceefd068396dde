"""The results that batch handlers return."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import bare

R = TypeVar("R")

Results: TypeAlias = Sequence[R | BaseException] | None
"""The return type of a batch handler: the result of each job, or its failure; or nothing."""

LISTS = (list, Sequence)
"""The generic types by which a handler takes its items, and returns their results."""

_UNIONS = (Union, UnionType)


def result_of_one(owner: str, returns: Any) -> Any:
    """Return the type of one job's result, by the return type of a batch handler.

    An exception among the results is a failure.
    """
    if (whole := bare(returns)) in (Any, None, NoneType):
        return whole
    parts = _members(whole)
    lists = [bare(part) for part in parts if part is not NoneType]
    if len(lists) != 1 or get_origin(lists[0]) not in LISTS:
        raise ConfigurationError(
            f"{owner} runs batches, so it returns None, or a list with the result of each item, in "
            f"their order; it is annotated with {returns!r}"
        )
    [each] = get_args(lists[0])
    result = _without_failures(each)
    return result | None if len(parts) > 1 else result


def _without_failures(kind: Any) -> Any:
    """Return the type of a result that may be an exception, for when it is none."""
    inner = bare(kind)
    parts = _members(inner)
    results = [part for part in parts if not _is_exception(part)]
    if len(results) == len(parts):
        return kind
    left = reduce(or_, results) if results else NoneType
    return left if inner is kind else Annotated[left, *kind.__metadata__]


def _members(kind: Any) -> Sequence[Any]:
    """Return the members of a Union, or any other type itself."""
    return get_args(kind) if get_origin(kind) in _UNIONS else (kind,)


def _is_exception(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
