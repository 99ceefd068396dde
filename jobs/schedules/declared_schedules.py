"""The schedules that an app's job types declare, as they are stored, without a deployment.

``cdk deploy`` creates them in an account of AWS (`infra.functions.schedules`); these are for a
scheduler on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.schedules.declared import DeclaredSchedule
from headgate.jobs.schedules.declared_starts import deployed
from headgate.jobs.schedules.firing import declared_input, schedule_name

_MINUTE = timedelta(minutes=1)


def declared_schedules(app: App) -> Sequence[ScheduleSpec]:
    """Return the schedules of an app's job types, in the order of their declaration.

    Raises:
        ConfigurationError, PayloadInvalid, PayloadTooLarge: see `declared_schedule`.
    """
    return [
        declared_schedule(app, job, declared)
        for job in app.types.values()
        for declared in job.schedules
    ]


def declared_schedule(app: App, job: JobType[Any, Any], declared: DeclaredSchedule) -> ScheduleSpec:
    """Return one schedule of a job type.

    Raises:
        ConfigurationError: the type's name is too long for a schedule, or ``group_by`` makes no
            valid group of the payload.
        PayloadInvalid: the payload doesn't fit the type's model.
        PayloadTooLarge: EventBridge Scheduler can't hold it.
    """
    topology = app.topology
    times, _ = deployed(declared.when)  # its start is in the input
    window = times.flexible_window
    return ScheduleSpec(
        group=topology.schedule_group,
        name=schedule_name(declared),
        expression=times.expression,
        timezone=times.timezone,
        end=times.end,
        flexible_minutes=None if window is None else window // _MINUTE,
        function=topology.bridge_name,
        role=topology.scheduler_role,
        dead_letters=topology.failed_firings_name,
        input=declared_input(app, job, declared),
        description=f"Submits {job.name} jobs to {job.queue}/{job.priority}",
    )
