"""The input of the dead-letter sweep, whose function carries none of the app's code.

`sweep_plan` is rendered into the sweep's schedule when the app is deployed, and `read_plan` reads
it back. It is kept there, and not in the function's environment, which holds only 4 KB in all.
https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from headgate.jobs.core.topology import QUARANTINE_RETENTION, Topology
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.replay_plan import ReplayPlan, replay_plan
from headgate.jobs.schedules.function_input import read_scheduled_input

EVERY = timedelta(minutes=5)
"""Interval between sweeps, and so the longest delay before people hear of critical dead letters."""

SUMMARY_EVERY = timedelta(hours=1)
"""Minimum time between two summaries, however many more dead letters come: nobody reads a mail that
comes every five minutes. The first summary, and critical dead letters, go out at once."""

BUDGET = timedelta(seconds=60)
"""Time for which one sweep may look into queues."""

HOLD = timedelta(seconds=90)
"""Time for which messages are hidden if the sweep fails to give them back: longer than it looks, so
that none comes twice in one sweep."""

TIMEOUT = timedelta(seconds=150)
"""Time after which a sweep is ended: its budget, three tries of 10 s each to publish either
message, and the writing of what to remember of them."""

Kind = Literal["dead-letters", "quarantine", "unsubmitted"]


class ParkingQueue(BaseModel):
    """A queue in which messages stay until a person decides what to do with them."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    """The physical name."""
    label: str
    """Its name in metrics and alerts: the queue group, or its purpose."""
    kind: Kind
    retention_s: int
    home: str | None = None
    """Physical name of the queue that its messages come from; None if there isn't just one."""

    @property
    def retention(self) -> timedelta:
        """Time after which SQS deletes a message."""
        return timedelta(seconds=self.retention_s)


class SweepPlan(BaseModel):
    """The queues to sweep, and the job types."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    app: str
    """The app's name, with its stage's if any."""
    queues: tuple[ParkingQueue, ...]
    types: frozenset[str] = frozenset()
    """The names of all job types: of no other does the sweep tell by name. Schedules of earlier
    versions have none."""
    critical: frozenset[str]
    """The job types marked ``alert_at_once=True``."""
    replay: ReplayPlan | None = None
    """The policies by which dead letters are sent back; None if there are none."""
    console: str = ""
    """The address of the web console, without a slash at its end; empty if it is not known."""


def sweep_plan(app: App, *, has_bridge: bool, console: str = "") -> SweepPlan:
    """Return the plan for an app.

    Args:
        app: the app, with everything declared by now.
        has_bridge: True if there is a queue of what the bridge could not submit.
        console: the address of the web console; empty if it is not known.
    """
    return SweepPlan(
        app="-".join(filter(None, (app.name, app.stage))),
        queues=tuple(parking_queues(app.topology, has_bridge=has_bridge)),
        types=frozenset(app.types),
        critical=frozenset(job.name for job in app.types.values() if job.alert_at_once),
        replay=replay_plan(app),
        console=console,
    )


def plan_input(plan: SweepPlan) -> dict[str, Any]:
    """Return a plan as JSON values; the same plan always gives the same values."""
    absent = {name for name in ("replay", "console") if not getattr(plan, name)}
    rendered = plan.model_dump(mode="json", exclude=absent)
    return rendered | {"types": sorted(plan.types), "critical": sorted(plan.critical)}


def read_plan(event: Mapping[str, Any]) -> SweepPlan:
    """Read the input from the sweep's schedule.

    Raises:
        MessageUnreadable: it is not a plan; the message names the fields.
    """
    return read_scheduled_input(SweepPlan, event, "sweep")


def parking_queues(topology: Topology, *, has_bridge: bool) -> Iterator[ParkingQueue]:
    """Yield an app's quarantine, its dead-letter queues by priority, and that of failed firings.

    Args:
        topology: the app's queues.
        has_bridge: True if there is a queue of what the bridge could not submit.
    """
    kept_s = int(QUARANTINE_RETENTION.total_seconds())
    # Jobs that kill workers come first, in case there isn't time for all.
    yield ParkingQueue(
        name=topology.quarantine_name, label="quarantine", kind="quarantine", retention_s=kept_s
    )
    for spec in sorted(topology.queues, key=lambda spec: spec.priority.rank):
        yield ParkingQueue(
            name=spec.dlq_name,
            label=spec.group,
            kind="dead-letters",
            retention_s=int(spec.dlq_retention.total_seconds()),
            home=spec.name,
        )
    if has_bridge:
        yield ParkingQueue(
            name=topology.failed_firings_name,
            label="schedules",
            kind="unsubmitted",
            retention_s=kept_s,
        )
