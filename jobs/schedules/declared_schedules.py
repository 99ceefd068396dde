"""The schedules that an app's job types declare, as they are stored, without a deployment.

``cdk deploy`` creates them in an account of AWS (`infra.functions.schedules`); these are for a
scheduler on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.schedules.declared_starts import deployed
from headgate.jobs.schedules.firing import schedule_input, schedule_name

_MINUTE = timedelta(minutes=1)


def declared_schedules(app: App) -> Sequence[ScheduleSpec]:
    """Return the schedules of an app's job types, in the order of their declaration.

    Raises:
        ConfigurationError: a type's name is too long for a schedule, or ``group_by`` makes no valid
            group of the model's defaults.
        PayloadInvalid: a type's model can't be made of its defaults.
    """
    topology, found = app.topology, []
    for job in app.types.values():
        if job.schedule is None:
            continue
        times, _ = deployed(job.schedule)  # its start is in the input
        window = times.flexible_window
        found.append(
            ScheduleSpec(
                group=topology.schedule_group,
                name=schedule_name(job),
                expression=times.expression,
                timezone=times.timezone,
                end=times.end,
                flexible_minutes=None if window is None else window // _MINUTE,
                function=topology.bridge_name,
                role=topology.scheduler_role,
                dead_letters=topology.failed_firings_name,
                input=json.dumps(schedule_input(app, job)),
                description=f"Submits {job.name} jobs to {job.queue}/{job.priority}",
            )
        )
    return found
