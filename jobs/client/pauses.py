"""``client.pauses``: pauses queues, job types and tenants at run time, and resumes them.

`AsyncPauses` is the awaited form of `Pauses`. A pause is one item of the table, which workers read
every few seconds; see `jobs.records.pausing.pause`.
"""

from __future__ import annotations

import builtins
import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from headgate.jobs.client.auditing.auditor import Audited, Auditor
from headgate.jobs.client.services import ClientServices
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import Priority, PriorityName, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import keeps_records
from headgate.jobs.definitions.queue import Queue
from headgate.jobs.errors import SettingsInvalid, Throttled
from headgate.jobs.records.audit.entry import AuditAction
from headgate.jobs.records.cancellation import CANCELLATIONS, check_reason
from headgate.jobs.records.pausing.pause import (
    LONGEST_NAME,
    MOST_PAUSES,
    PREFIX,
    Pause,
    PauseTarget,
    pause_item,
    read_pauses,
)
from headgate.jobs.records.writes import put_patiently
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.texts import legible

_OF_RETENTION = 0.75
"""Fraction of a queue's retention for which it may be paused: the rest is for working off what has
come, before SQS deletes it."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class AsyncPauses:
    """The awaited form of `Pauses`, which also drives this class.

    Args:
        app: the app whose work is paused.
        table: holds the pauses.
        clock: tells the time.
        sleep: pauses when the table is too busy.
        rng: spreads those pauses.
        auditor: enters who pauses and resumes into the audit.
    """

    app: App
    table: AsyncTable
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]
    rng: random.Random
    auditor: Auditor

    async def create(
        self,
        *,
        queue: str | Queue | None = None,
        priority: Priority | PriorityName | None = None,
        job_type: str | JobType[Any, Any] | None = None,
        tenant: str | Tenant | None = None,
        lasts: Duration | None = None,
        until: datetime | None = None,
        reason: str = "",
    ) -> Pause:
        """`Pauses.create`, awaited."""
        target = _target(self.app, queue, priority, job_type, tenant)
        check_reason(reason)
        now = self.clock.now()
        ends_at = _end(self.app, target, now, lasts, until)
        known = await self.list()
        if len(known) >= MOST_PAUSES and target not in [each.target for each in known]:
            raise SettingsInvalid(
                f"{MOST_PAUSES} queues, types and tenants are paused already, and workers know no "
                "more: resume some, or pause a whole queue or type"
            )
        pause = Pause(target=target, at=now, until=ends_at, reason=reason, actor=self.auditor.actor)
        detail = f"until {ends_at.isoformat(timespec='seconds')}"
        async with self._action(AuditAction.PAUSE, target, reason=reason, detail=detail):
            if await put_patiently(self.table, [pause_item(pause)], sleep=self.sleep, rng=self.rng):
                raise _too_busy(target, "paused")
        return pause

    async def remove(
        self,
        *,
        queue: str | Queue | None = None,
        priority: Priority | PriorityName | None = None,
        job_type: str | JobType[Any, Any] | None = None,
        tenant: str | Tenant | None = None,
    ) -> bool:
        """`Pauses.remove`, awaited."""
        target = _target(self.app, queue, priority, job_type, tenant)
        _require_records(self.app)
        key = (CANCELLATIONS, target.sort_key)
        async with self._action(AuditAction.RESUME, target) as resuming:
            was_paused = await self.table.get(*key) is not None
            resuming.result = "" if was_paused else "it was not paused"
            if await self.table.delete([key]):
                raise _too_busy(target, "resumed")
        return was_paused

    def _action(
        self, action: AuditAction, target: PauseTarget, *, reason: str = "", detail: str = ""
    ) -> Audited:
        name = "/".join(filter(None, (target.name, target.priority)))
        return self.auditor.action(action, target.kind, name, reason=reason, detail=detail)

    async def list(self) -> builtins.list[Pause]:
        """`Pauses.list`, awaited."""
        _require_records(self.app)
        now = self.clock.now()
        found, _ = read_pauses(await self.table.query(CANCELLATIONS, prefix=PREFIX))
        return [each for each in found if not each.is_over(now)]


class Pauses:
    """The pauses of an app's queues, job types and tenants.

    What is paused is not started any more, within seconds; running jobs go on, and submitting does
    too. Every method may raise a `TransportError`; and `SettingsInvalid` if the app keeps no
    records, without which its workers read no table.
    """

    def __init__(self, engine: AsyncPauses) -> None:
        self._engine = engine

    def create(
        self,
        *,
        queue: str | Queue | None = None,
        priority: Priority | PriorityName | None = None,
        job_type: str | JobType[Any, Any] | None = None,
        tenant: str | Tenant | None = None,
        lasts: Duration | None = None,
        until: datetime | None = None,
        reason: str = "",
    ) -> Pause:
        """Pause one queue, one job type or one tenant. A second pause replaces the first.

        Workers know it within five seconds. They receive nothing from a paused queue; messages of a
        paused type or tenant are given back whenever they come, at no cost of attempts.

        Args:
            queue: the queue, with all its priorities.
            priority: the only one of the queue's priorities to pause.
            job_type: the job type.
            tenant: the tenant, by its organization.
            lasts: the time after which the pause ends by itself, in seconds or as a timedelta.
            until: the time at which it does; aware. Without ``lasts`` and ``until`` it ends after
                three quarters of the shortest retention of the queues concerned, which is also the
                longest that it may last: what comes meanwhile has to be worked off before SQS
                deletes it.
            reason: up to 300 characters, shown wherever the pause is.

        Returns:
            the pause, with its end.

        Raises:
            SettingsInvalid: none or several things are named to pause, the end is in the past or
                too late, the reason is too long, or 200 pauses exist already.
            UnknownQueue, UnknownJobType: the app has no such queue, priority or type.
        """
        return drive(
            self._engine.create(
                queue=queue,
                priority=priority,
                job_type=job_type,
                tenant=tenant,
                lasts=lasts,
                until=until,
                reason=reason,
            )
        )

    def remove(
        self,
        *,
        queue: str | Queue | None = None,
        priority: Priority | PriorityName | None = None,
        job_type: str | JobType[Any, Any] | None = None,
        tenant: str | Tenant | None = None,
    ) -> bool:
        """Resume what `create` with the same names paused; return False if that was not paused.

        A queue is received from again within seconds. Messages that were given back return within
        about a minute or, after more than ten minutes, an eighth of the time that the pause has
        lasted.

        Raises:
            SettingsInvalid: none or several things are named to resume.
            UnknownQueue, UnknownJobType: the app has no such queue, priority or type.
        """
        return drive(
            self._engine.remove(queue=queue, priority=priority, job_type=job_type, tenant=tenant)
        )

    def list(self) -> builtins.list[Pause]:
        """Return all pauses that have not ended: queues, then tenants, then types, by name."""
        return drive(self._engine.list())


def pauses_of(services: ClientServices) -> AsyncPauses:
    """Return the pauses of a client, over what its handles use."""
    return AsyncPauses(
        app=services.app,
        table=services.table,
        clock=services.clock,
        sleep=services.sleep,
        rng=services.rng,
        auditor=services.auditor,
    )


def _target(
    app: App,
    queue: str | Queue | None,
    priority: Priority | PriorityName | None,
    job_type: str | JobType[Any, Any] | None,
    tenant: str | Tenant | None,
) -> PauseTarget:
    """Return what is named, after checking that the app has it."""
    if sum(each is not None for each in (queue, job_type, tenant)) != 1:
        raise SettingsInvalid(
            "a pause is of one queue, one job type or one tenant: write one of queue=, job_type= "
            "and tenant="
        )
    if priority is not None and queue is None:
        raise SettingsInvalid("only queues have priorities: write priority= together with queue=")
    if queue is not None:
        return _queue_target(app, queue if isinstance(queue, str) else queue.name, priority)
    if job_type is not None:
        name = job_type if isinstance(job_type, str) else job_type.name
        return PauseTarget(kind="type", name=app.find_type(name).name)
    return PauseTarget(kind="tenant", name=_tenant_name(tenant))


def _queue_target(app: App, group: str, priority: Priority | PriorityName | None) -> PauseTarget:
    if priority is not None:
        spec = app.topology.queue(group, priority)
        return PauseTarget(kind="queue", name=group, priority=spec.priority)
    declared = [spec.priority for spec in app.topology.queues if spec.group == group]
    app.topology.queue(group, declared[0] if declared else None)  # raises if there is no such queue
    return PauseTarget(kind="queue", name=group)


def _tenant_name(tenant: str | Tenant | None) -> str:
    name = tenant.org if isinstance(tenant, Tenant) else tenant
    if not name or legible(name, LONGEST_NAME) != name:
        raise SettingsInvalid(
            f"a tenant's name has 1 to {LONGEST_NAME} printable characters, got {name!r:.200}"
        )
    return name


def _end(
    app: App,
    target: PauseTarget,
    now: datetime,
    lasts: Duration | None,
    until: datetime | None,
) -> datetime:
    """Return the end of a pause that begins now."""
    longest = _longest(app, target)
    length = _length(now, lasts, until)
    if length is None:
        return now + longest
    if length > longest:
        raise SettingsInvalid(
            f"{target} can be paused for at most {longest}, three quarters of the time for which "
            "SQS keeps its messages: pause it for that long, and again before it ends"
        )
    return now + length


def _length(now: datetime, lasts: Duration | None, until: datetime | None) -> timedelta | None:
    """Return the length that is asked for; None if none is."""
    if lasts is not None and until is not None:
        raise SettingsInvalid("a pause has one end: write lasts= or until=, not both")
    if lasts is not None:
        return duration("lasts", lasts, positive=True)
    if until is None:
        return None
    if until.utcoffset() is None:
        raise SettingsInvalid(f"until={until!r} has no time zone: write datetime(..., tzinfo=UTC)")
    if until <= now:
        raise SettingsInvalid(f"the pause would have ended already, at {until}")
    return until - now


def _longest(app: App, target: PauseTarget) -> timedelta:
    """Return the longest time for which something may be paused."""
    concerned = [each.retention for each in app.topology.queues if _may_hold(each, target)]
    return _OF_RETENTION * min(concerned, default=timedelta(0))


def _may_hold(queue: QueueSpec, target: PauseTarget) -> bool:
    """Return True if jobs that are paused may be in a queue; those of a type may be in any."""
    if target.kind != "queue":
        return True
    return target.name == queue.group and target.priority in (None, queue.priority)


def _require_records(app: App) -> None:
    if not keeps_records(app):
        raise SettingsInvalid(
            f"the workers of {app.name!r} read no table, so nothing can be paused: declare the app "
            "with records='failures' or more"
        )


def _too_busy(target: PauseTarget, became: str) -> Throttled:
    return Throttled(f"{target} was not {became}: the table is too busy. Ask again")
