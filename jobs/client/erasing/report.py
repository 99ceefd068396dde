"""The outcome of an erasure, which is also its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Erased:
    """The numbers of things that an erasure has deleted so far, or would delete in a dry run."""

    tenant: str
    dry_run: bool
    letters: int = 0
    """Dead letters, deleted without a copy."""
    copies: int = 0
    """Copies of dead letters in the bucket."""
    schedules: int = 0
    """Delayed jobs, and schedules of ``client.schedules``."""
    jobs: int = 0
    """Jobs of which the table had records, or a claim."""
    items: int = 0
    """Their items: records that are deleted, and claims that are emptied."""
    results: int = 0
    """Their large results. Each job's payload is deleted with them, where it has one."""
    cancelled: int = 0
    """Those of the jobs that have no end: workers end them without a run."""
    unread: int = 0
    """Copies and schedules that are left because they can't be read."""
    unseen: Mapping[str, int] = field(default_factory=dict)
    """Approximate number of dead letters that others held, by their queue's physical name."""
    left: list[str] = field(default_factory=list)
    """The things that could not be deleted, each with the reason."""

    @property
    def complete(self) -> bool:
        """True if nothing was left: no second run is needed."""
        return not self.left and not self.unseen

    @property
    def found(self) -> int:
        """Number of things of the tenant's."""
        return self.letters + self.copies + self.schedules + self.items + self.results


Tell = Callable[[Erased], None]
"""Called with an erasure's progress."""


def untold(_: Erased) -> None:
    """Tell nobody."""
