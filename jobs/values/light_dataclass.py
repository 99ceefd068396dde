"""Dataclasses that are made for each job: frozen for type checkers alone.

The constructor of a frozen dataclass sets each field through ``object.__setattr__``, which takes
four times as long as an assignment. For the values of one job that was a tenth of a worker's time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["light_dataclass"]

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as light_dataclass
else:

    def light_dataclass(
        *, frozen: bool, slots: bool, kw_only: bool
    ) -> Callable[[type[T]], type[T]]:
        """Return a decorator like `dataclasses.dataclass`; type checkers see that one itself.

        Args:
            frozen: True: an assignment to a field is an error to type checkers, though it works.
            slots: see `dataclasses.dataclass`.
            kw_only: see `dataclasses.dataclass`.
        """
        return dataclasses.dataclass(slots=slots, kw_only=kw_only, unsafe_hash=frozen)
