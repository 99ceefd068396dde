"""What the sweep of the dead letters has to know of an app, since it carries none of its code.

`sweep_plan` is rendered into the sweep's schedule when the app is deployed, and `read_plan` reads
it back. It stands there and not in the function's environment, which holds 4 KB in all.
https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from headgate.jobs.core.topology import QUARANTINE_RETENTION
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import MessageUnreadable

EVERY = timedelta(minutes=5)
"""How often it sweeps; so long at most goes by before people are told of what is critical."""

SUMMARY_EVERY = timedelta(hours=1)
"""How long it is quiet after a summary, however many more come: a mail every five minutes is one
that nobody reads. The first one, and what is critical, goes out at once."""

BUDGET = timedelta(seconds=60)
"""How long one sweep may go on looking into queues."""

HOLD = timedelta(seconds=90)
"""How long what it looks at is hidden if it doesn't come to give it back: longer than it looks, so
that nothing comes twice in one sweep."""

TIMEOUT = timedelta(seconds=150)
"""When a sweep is ended: after its budget, three tries of 10 s each to publish either message, and
what is to be remembered of them."""

Kind = Literal["dead-letters", "quarantine", "unsubmitted"]


class ParkingQueue(BaseModel):
    """A queue in which messages stay until a person decides."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    """The physical name."""
    label: str
    """What metrics and alerts call it: the queue group, or what it is for."""
    kind: Kind
    retention_s: int
    home: str | None = None
    """The queue that its messages come from, by physical name; None where there is no one such."""

    @property
    def retention(self) -> timedelta:
        """After which SQS deletes a message."""
        return timedelta(seconds=self.retention_s)


class SweepPlan(BaseModel):
    """Where to look, and what is critical."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    app: str
    """The app's name, with its stage's if any."""
    queues: tuple[ParkingQueue, ...]
    critical: frozenset[str]
    """The job types marked ``alert_at_once=True``."""


def sweep_plan(app: App, *, has_bridge: bool) -> SweepPlan:
    """The plan for an app.

    Args:
        app: all that it declares is declared by now.
        has_bridge: whether there is a queue of what the bridge could not submit.
    """
    return SweepPlan(
        app="-".join(filter(None, (app.name, app.stage))),
        queues=tuple(_queues(app, has_bridge=has_bridge)),
        critical=frozenset(job.name for job in app.types.values() if job.alert_at_once),
    )


def plan_input(plan: SweepPlan) -> dict[str, Any]:
    """A plan as JSON values; the same plan always gives the same."""
    rendered = plan.model_dump(mode="json")
    return rendered | {"critical": sorted(plan.critical)}


def read_plan(event: Mapping[str, Any]) -> SweepPlan:
    """Read what the sweep's schedule handed over.

    Raises:
        MessageUnreadable: it is no plan; names the fields.
    """
    try:
        return SweepPlan.model_validate(event)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        raise MessageUnreadable(
            f"the input is not that of the sweep's schedule: {faults}. Both are deployed together: "
            "run `cdk deploy`, or invoke the sweep with the input of its schedule"
        ) from error


def _queues(app: App, *, has_bridge: bool) -> Iterator[ParkingQueue]:
    topology = app.topology
    kept_s = int(QUARANTINE_RETENTION.total_seconds())
    # What kills workers comes first, should there be no time for all.
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
