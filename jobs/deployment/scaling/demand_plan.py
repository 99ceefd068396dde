"""The input of the function that publishes how many tasks worker groups want.

It is rendered into the function's schedule when the app is deployed, and read back by the function,
which carries none of the app's code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict

from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.metric_names import service_name
from headgate.jobs.deployment.scaling.backlog import acceptable_backlog
from headgate.jobs.schedules.function_input import read_scheduled_input

EVERY = timedelta(minutes=1)
"""Interval between counts: that of the alarms that read them."""

TIMEOUT = timedelta(seconds=50)
"""Time after which a count is ended: the next one begins soon after."""


class WatchedQueue(BaseModel):
    """A queue of a group."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    """The physical name."""
    per_task: float
    """Waiting jobs that one task starts in time."""


class WatchedGroup(BaseModel):
    """A worker group with its queues."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    slots: int
    """Jobs that run at once in one task."""
    sleeps: bool
    """True if it may have no task."""
    queues: tuple[WatchedQueue, ...]


class DemandPlan(BaseModel):
    """The worker groups to count for."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    app: str
    """The app's name, with its stage's if any."""
    groups: tuple[WatchedGroup, ...]


def demand_plan(topology: Topology, groups: Sequence[WorkerGroup]) -> DemandPlan:
    """Return the plan for these worker groups of an app."""
    return DemandPlan(
        app=service_name(topology.app, topology.stage),
        groups=tuple(_watched(group, group.selection.of(topology)) for group in groups),
    )


def read_demand_plan(event: Mapping[str, Any]) -> DemandPlan:
    """Read the input from the function's schedule.

    Raises:
        MessageUnreadable: it is not a plan; the message names the fields.
    """
    return read_scheduled_input(DemandPlan, event, "demand function")


def _watched(group: WorkerGroup, queues: Sequence[QueueSpec]) -> WatchedGroup:
    return WatchedGroup(
        name=group.name,
        slots=group.slots,
        sleeps=group.min_tasks == 0,
        queues=tuple(
            WatchedQueue(name=queue.name, per_task=acceptable_backlog(group, queue))
            for queue in queues
        ),
    )
