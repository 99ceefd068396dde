"""The one-time schedules that hold delayed jobs: creating and cancelling them.

Clients hold submissions there that are due later than SQS can delay them, and workers hold jobs
whose next attempt is due later than SQS can hide their messages. A creation may be requested
repeatedly: one schedule holds the job.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from pydantic_core import from_json

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports.scheduler import AsyncScheduler, ScheduleSpec
from headgate.jobs.core.topology import Topology
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.errors import MessageUnreadable
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.schedules.delayed_job import (
    DelayedJob,
    check_input,
    delay_name,
    retry_name,
    schedule_of,
)
from headgate.jobs.schedules.inputs import parse_input
from headgate.jobs.schedules.registry import times_of

_DELETION = timedelta(seconds=30)
"""Longest duration of a deletion: three tries of 10 s each."""


class DelayedJobs:
    """Holds jobs in one-time schedules.

    Args:
        scheduler: EventBridge Scheduler.
        topology: returns the app's topology, which names the schedules' targets.
        clock: tells the time.
        keyring: signs the messages that schedules hold; None leaves them unsigned.
    """

    def __init__(
        self,
        scheduler: AsyncScheduler,
        topology: Callable[[], Topology],
        clock: Clock,
        keyring: Keyring | None,
    ) -> None:
        self._scheduler = scheduler
        self._topology = topology
        self._clock = clock
        self._keyring = keyring

    async def hold(self, job: DelayedJob) -> bool:
        """Create the schedule that holds a job until it is due; return True if one holds it.

        False: the schedule of an earlier hand-over still stands under its name. A submission has
        none before it, so a schedule that stands was created by the same request.

        Raises:
            PayloadTooLarge: its message is over EventBridge Scheduler's limit.
            TransportError: AWS did not create it, as far as is known.
        """
        if self._keyring is not None:
            body = await self._keyring.signed(job.body, job.destination)
            job = job.model_copy(update={"body": body})
        name = retry_name(job.job_id) if job.token else delay_name(job.job_id)
        spec = schedule_of(job, self._topology(), name, self._clock.now())
        check_input(f"the schedule {name!r}", spec.input)
        scheduler = self._scheduler
        if await scheduler.create(spec, token=job.token or job.job_id) or not job.token:
            return True
        standing = await scheduler.get(spec.group, spec.name)
        return standing is not None and _is_of(standing, job)

    async def due(self, job_id: str) -> datetime | None:
        """Return when a submission that a schedule holds is due; None if none holds it.

        Raises:
            TransportError: AWS could not be asked.
        """
        found = await self._scheduler.get(self._topology().schedule_group, delay_name(job_id))
        if found is None or not _is_waiting(found, self._clock.now()):
            return None
        held = _held(found)
        return held.delayed_until if held is not None and held.job_id == job_id else None

    async def cancel(self, job_id: str, job_type: str | None = None) -> DelayedJob | None:
        """Delete the schedule that holds a job; return what it held if the job will not be sent.

        None: no schedule holds it that can be read, or one that is about to fire, or has fired.

        Args:
            job_id: the job's id.
            job_type: its type; None cancels a job of any type that has the id.

        Raises:
            TransportError: AWS could not be asked.
        """
        for name in (delay_name(job_id), retry_name(job_id)):
            if (held := await self._withdraw(name, job_id, job_type)) is not None:
                return held
        return None

    async def _withdraw(self, name: str, job_id: str, job_type: str | None) -> DelayedJob | None:
        group, scheduler = self._topology().schedule_group, self._scheduler
        found = await scheduler.get(group, name)
        if found is None or not _is_waiting(found, self._clock.now()):
            return None
        held = _held(found)
        if held is None or held.job_id != job_id or job_type not in (None, held.type):
            return None  # an id is the sender's choice: another's job may have it
        return held if await scheduler.delete(group, name) else None


def _is_of(standing: ScheduleSpec, job: DelayedJob) -> bool:
    """Return True if a schedule was created for another delivery of the same message.

    The schedule of an earlier hand-over may still exist for a while after it has fired.
    """
    message_id = job.token.rpartition("-")[0]
    held = _held(standing)
    return held is not None and held.token.startswith(f"{message_id}-")


def _held(standing: ScheduleSpec) -> DelayedJob | None:
    """Return the job that a schedule holds; None if it holds none that can be read."""
    try:
        held = parse_input(from_json(standing.input))
    except (MessageUnreadable, ValueError):
        return None
    return held if isinstance(held, DelayedJob) else None


def _is_waiting(spec: ScheduleSpec, now: datetime) -> bool:
    """Return True if a one-time schedule can still be deleted before it fires.

    EventBridge Scheduler deletes such a schedule a while after it has fired, or has given up. Until
    then it is found, although its job may have been sent, and have run, long ago.
    """
    deleted_by = (spec.as_of or now) + _DELETION
    when = Schedule(expression=spec.expression, timezone=spec.timezone)
    return next(times_of(when, deleted_by), None) is not None
