"""Dataclasses that cost less: to import, and to make for each job.

`dataclasses.dataclass` compiles six methods for a frozen class, which takes most of the time of an
import of modules like ours. Here all but the constructor are the same for all classes, so that one
is left. A frozen one takes a value for each of its fields once, which costs its constructor a call
a field. A light one is frozen for type checkers alone, and its constructor assigns at once: for the
values of one job that is a tenth of a worker's time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["frozen_dataclass", "light_dataclass"]

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as frozen_dataclass
    from dataclasses import dataclass as light_dataclass
else:

    def frozen_dataclass(*, frozen: bool, **options: bool) -> Callable[[type[T]], type[T]]:
        """Return a decorator like `dataclasses.dataclass`, for values that users hold.

        Args:
            frozen: True: an assignment to a field raises `dataclasses.FrozenInstanceError`.
            options: ``init``, ``slots`` and ``kw_only``, see `dataclasses.dataclass`.
        """
        make = dataclasses.dataclass(repr=False, eq=False, **options)
        set_once = _set_slot_once if options.get("slots") else _set_once
        keeping = {"__setattr__": set_once, "__delattr__": _keep}
        return lambda cls: _with_methods(make(cls), **keeping) if frozen else make(cls)

    def light_dataclass(*, frozen: bool, **options: bool) -> Callable[[type[T]], type[T]]:
        """Return a decorator like `dataclasses.dataclass`; type checkers see that one itself.

        Args:
            frozen: True: an assignment to a field is an error to type checkers, though it works.
            options: ``slots`` and ``kw_only``, see `dataclasses.dataclass`.
        """
        make = dataclasses.dataclass(repr=False, eq=False, **options)
        return lambda cls: _with_methods(make(cls)) if frozen else make(cls)


def _with_methods(cls: type[T], **further: Callable[..., object]) -> type[T]:
    """Add the methods of a frozen dataclass, and further ones, which its body doesn't define."""
    # To the stubs T may be no dataclass; `make` has just made it one.
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    compared = _values([field.name for field in fields if field.compare])
    hashed = _values(
        [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    )

    def __eq__(self: object, other: object) -> bool:  # noqa: N807 - it becomes a method
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    def __hash__(self: object) -> int:  # noqa: N807 - likewise
        return hash(hashed(self))

    methods = {"__eq__": __eq__, "__hash__": __hash__, "__repr__": _SHOWN, **further}
    for name, method in methods.items():
        if cls.__dict__.get(name) is None:
            setattr(cls, name, method)
    return cls


def _set_once(self: Any, name: str, value: object) -> None:
    if name in self.__dict__ or name not in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _set_slot_once(self: object, name: str, value: object) -> None:
    if hasattr(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _keep(_self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _values(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return a function of an object that returns its attributes of those names as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


@recursive_repr()
def __repr__(self: Any) -> str:  # noqa: N807 - it becomes a method
    shown = (field.name for field in dataclasses.fields(self) if field.repr)
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({values})"


_SHOWN = __repr__
