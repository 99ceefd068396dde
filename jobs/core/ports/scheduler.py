"""Schedules of EventBridge Scheduler, and the ports that manage them.

`jobs.aws.scheduler` implements it, and in memory `jobs.testing.memory.scheduler`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Protocol

from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """One schedule of EventBridge Scheduler that invokes a Lambda function."""

    group: str
    """The physical name of its schedule group."""
    name: str
    """At most 64 letters, digits, hyphens, underscores and full stops; unique in its group."""
    expression: str
    """``cron(...)``, ``rate(...)`` or ``at(...)``."""
    function: str
    """The physical name of the function that it invokes."""
    role: str
    """The role that it assumes to invoke it, as named by `jobs.core.topology.Topology`."""
    input: str
    """JSON that is passed to the function, at most 256 KiB."""
    timezone: str = "UTC"
    start: datetime | None = None
    end: datetime | None = None
    flexible_minutes: int | None = None
    """Minutes over which the service may spread the firing; None for none."""
    enabled: bool = True
    delete_when_done: bool = False
    """True if the service deletes it after its last firing."""
    dead_letters: str | None = None
    """The queue for firings that the function did not take."""
    description: str = ""
    arn: str = field(default="", compare=False)
    """Its ARN; empty for one that is to be created."""
    created_at: datetime | None = None
    """The time of its creation according to the service; None for one that is to be created."""
    modified_at: datetime | None = None
    as_of: datetime | None = field(default=None, compare=False)
    """The time of the service's response, by the service's own clock."""
    beyond: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Its other properties under the service's own names; an update sends them back unchanged."""


class AsyncScheduler(Protocol):
    """The part of EventBridge Scheduler that is used. Any method may raise a `TransportError`.

    Methods raise `ScheduleGroupMissing` if the service reports that the group does not exist.
    """

    async def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
        """Create a schedule; return False if the name is taken, and leave that schedule unchanged.

        ``token``, at most 64 letters, digits, hyphens and underscores, identifies the request: a
        repetition with the same token gets the same answer.
        """

    async def get(self, group: str, name: str) -> ScheduleSpec | None: ...

    async def names(self, group: str, *, prefix: str) -> list[str]:
        """Return the names of a group's schedules that start with ``prefix``."""

    async def update(self, schedule: ScheduleSpec) -> bool:
        """Replace all of a schedule; return False if there is none with that name."""

    async def delete(self, group: str, name: str) -> bool:
        """Delete a schedule; return False if there is none with that name."""


class Scheduler(Protocol):
    """`AsyncScheduler`, for synchronous code."""

    def create(self, schedule: ScheduleSpec, *, token: str) -> bool: ...

    def get(self, group: str, name: str) -> ScheduleSpec | None: ...

    def names(self, group: str, *, prefix: str) -> list[str]: ...

    def update(self, schedule: ScheduleSpec) -> bool: ...

    def delete(self, group: str, name: str) -> bool: ...
