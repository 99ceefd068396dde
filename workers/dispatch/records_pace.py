"""The pace of jobs with full records: no faster than the table takes their items.

Such jobs wait, received or not, while the recorder is behind; all others go on. Critical ones wait
only once three quarters of the room for records are taken. A table that doesn't answer holds up
nothing for more than a few seconds: jobs go on without it, and records that find no room are shed
(`jobs.records.journal`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import records_of, types_from
from headgate.jobs.execution.delivery import Job
from headgate.jobs.records.items import keeps
from headgate.jobs.records.journal import ROOM
from headgate.workers.limits.guards import Block
from headgate.workers.limits.meters import GUESS_S

_RECORDS = "records"
"""Name of the block."""


class IsBehind(Protocol):
    """Tells whether records come faster than the table takes them."""

    def __call__(self, *, urgent: bool) -> bool:
        """Return True if so; ``urgent`` for jobs that wait only when it gets worse."""
        ...


class RecordsPace:
    """Holds back jobs with full records while the recorder is behind.

    Args:
        app: says which types keep full records.
        is_behind: tells whether the recorder is behind.
        on_eased: called with the name of the block when some that it held back may start.
    """

    def __init__(self, app: App, *, is_behind: IsBehind, on_eased: Callable[[str], None]) -> None:
        self._is_behind = is_behind
        self._on_eased = on_eased
        self._types = frozenset(
            name for name, job in app.types.items() if keeps(records_of(app, job), "full")
        )
        self._groups = frozenset(
            group
            for group in app.queues
            if any(job.name in self._types for job in types_from(app, group))
        )
        self._has_held = False
        """True if something was held back since there last was room."""

    def eased(self) -> None:
        """Note that there is room for more records, so that jobs may start."""
        if self._has_held:
            self._has_held = False
            self._on_eased(_RECORDS)

    def stops(self, queue: QueueSpec) -> bool:
        """Return True while nothing should be received from a queue."""
        return queue.group in self._groups and self._holds(queue)

    def block(self, job: Job, queue: QueueSpec) -> Block | None:
        """Return the block on a job, or None."""
        if job.type.name not in self._types or not self._holds(queue):
            return None
        # Whatever was received before is held: no other worker finds the table any faster.
        return Block(_RECORDS, GUESS_S, ROOM, ROOM)

    def _holds(self, queue: QueueSpec) -> bool:
        if not self._is_behind(urgent=queue.priority is Priority.CRITICAL):
            return False
        self._has_held = True
        return True
