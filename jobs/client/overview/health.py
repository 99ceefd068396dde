"""``client.health()``: a verdict on the whole system, with reasons.

It is judged from what `jobs.client.overview.queues` knows, by the thresholds of the alarms
(`jobs.deployment.alarms.thresholds`). What nobody told counts neither for nor against it.

    unhealthy   a queue doesn't exist, or SQS can't be asked; jobs wait and nobody works on them;
                the oldest job waits for longer than the alarm ``oldest`` allows
    degraded    the oldest job waits for longer than its priority allows; more jobs wait, or are
                dead, than the alarms allow; a job is in quarantine; a breaker is open; the table
                can't be read; or jobs wait that no worker is known to work on
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from datetime import timedelta
from enum import StrEnum

from headgate.jobs.client.overview.queues import AsyncQueueDesk, QueueList, QueueStatus
from headgate.jobs.client.schedules.schedule_reader import ScheduleReader
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.alarms.thresholds import Thresholds
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.triggers import has_schedules
from headgate.jobs.errors import TransportError
from headgate.jobs.records.fleet.worker_status import LimitState, WorkerStatus
from headgate.jobs.records.pausing.pause import Pause
from headgate.jobs.schedules.registry import ScheduleInfo
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.texts import text_of

_LEAST_WAIT = timedelta(minutes=1)
"""The shortest wait that counts, as CloudWatch tells ages by the minute."""


class SystemState(StrEnum):
    """The verdict on a whole system, from best to worst."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class HealthReason:
    """One reason why a system is not healthy."""

    state: SystemState
    """The state that the reason alone would give the system."""
    queue: str | None
    """The physical name of the queue that it concerns; None if it concerns no single one."""
    text: str


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class SystemHealth:
    """The health of an app's system."""

    reasons: Sequence[HealthReason]
    """The worst first."""
    pauses: Sequence[Pause] = ()
    """The pauses; somebody wants them, so they are no reason by themselves."""
    paused_schedules: Sequence[str] = ()
    """The names of schedules that submit nothing until they are resumed; likewise no reason."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """The reasons for which ``metrics``, ``workers``, ``pauses`` or ``schedules`` are unknown."""

    @property
    def state(self) -> SystemState:
        """The state of the worst reason."""
        return self.reasons[0].state if self.reasons else SystemState.HEALTHY


async def health_of(
    app: App, desk: AsyncQueueDesk, schedules: ScheduleReader, deployment: Deployment | None
) -> SystemHealth:
    """Judge an app's system now; without a deployment, by the thresholds that alarms have."""
    try:
        found = await desk.list()
    except TransportError as error:
        return SystemHealth(reasons=[_unhealthy(None, f"SQS can't be asked: {text_of(error)}")])
    health = judged(app, found, deployment)
    return await _with_schedules(health, schedules) if has_schedules(app) else health


async def _with_schedules(found: SystemHealth, schedules: ScheduleReader) -> SystemHealth:
    """Name the paused schedules, or the reason why they are unknown."""
    try:
        listed = (await schedules.read()).listed()
    except TransportError as error:
        return replace(found, unknown={**found.unknown, "schedules": text_of(error)})
    paused = [each.name for each in listed if isinstance(each, ScheduleInfo) and not each.enabled]
    return replace(found, paused_schedules=paused)


def judged(app: App, found: QueueList, deployment: Deployment | None) -> SystemHealth:
    """Judge what an app's queues held when they were listed; without a deployment as above."""
    judge = HealthJudge(app, deployment)
    order = list(SystemState)
    reasons = sorted(judge.reasons(found), key=lambda each: -order.index(each.state))
    return SystemHealth(reasons=reasons, pauses=found.pauses or (), unknown=found.unknown)


class HealthJudge:
    """Judges what queues hold.

    Args:
        app: the app; its priorities say within which time jobs have to start.
        deployment: has the thresholds, and the Lambda functions that run jobs; None: whether there
            are such functions is unknown.
    """

    def __init__(self, app: App, deployment: Deployment | None) -> None:
        self._specs = {spec.name: spec for spec in app.topology.queues}
        alarms = deployment.alarms if deployment is not None else None
        self._thresholds = alarms or Thresholds()
        self._consumed = None if deployment is None else _consumed(app, deployment)
        self._urgent = {
            app.topology.queue(job.queue, job.priority).name
            for job in app.types.values()
            if job.alert_at_once
        }

    def reasons(self, found: QueueList) -> Iterator[HealthReason]:
        """Yield the reasons why the system is not healthy."""
        for name in found.missing:
            yield _unhealthy(name, f"the queue {name} doesn't exist")
        for queue in found.queues:
            if queue.exists:
                yield from self._of_queue(queue, self._specs[queue.name])
        if found.quarantined:
            yield _degraded(
                found.quarantine,
                f"{_jobs(found.quarantined)} in quarantine: {_they(found.quarantined)} killed "
                "workers again and again",
            )
        yield from _breakers(found.workers or ())
        if why := found.unknown.get("pauses"):  # which every app with a table has
            yield _degraded(None, f"the table can't be read: {why}")

    def _of_queue(self, queue: QueueStatus, spec: QueueSpec) -> Iterator[HealthReason]:
        if queue.waiting and not queue.pauses:
            yield from self._unattended(queue, queue.waiting)
            yield from self._late(queue, spec)
        thresholds = self._thresholds.of(spec.group)
        if (waiting := queue.waiting or 0) > thresholds.depth:
            yield _degraded(queue.name, f"{_jobs(waiting)} wait in {queue.name}")
        most = 0 if queue.name in self._urgent else thresholds.dead_letters
        if (dead := queue.dead or 0) > most:
            letters = "letter" if dead == 1 else "letters"
            yield _degraded(queue.name, f"{dead:,} dead {letters} of {queue.name}")

    def _unattended(self, queue: QueueStatus, waiting: int) -> Iterator[HealthReason]:
        """Judge whether anybody works on jobs that wait."""
        if queue.workers or queue.metrics.is_received_from:
            return
        if self._consumed is not None and queue.name in self._consumed:
            return
        waits = f"{_jobs(waiting)} wait{'s' if waiting == 1 else ''} in {queue.name}"
        if queue.metrics.is_received_from is False:
            yield _unhealthy(queue.name, f"{waits}, and nobody has received from it for minutes")
        elif queue.workers is None:
            return  # neither the table nor CloudWatch tells
        elif self._consumed is not None:
            yield _unhealthy(queue.name, f"{waits}, and no live worker polls it")
        else:
            yield _degraded(
                queue.name,
                f"{waits}, and no live worker polls it; whether a Lambda function does is unknown",
            )

    def _late(self, queue: QueueStatus, spec: QueueSpec) -> Iterator[HealthReason]:
        if (oldest := queue.metrics.oldest) is None:
            return
        within = max(spec.lane.start_within, _LEAST_WAIT)
        said = f"the oldest job of {queue.name} is {oldest} old"
        if oldest > (most := self._thresholds.of(spec.group).oldest):
            yield _unhealthy(queue.name, f"{said}: more than {most}")
        elif oldest > within:
            yield _degraded(queue.name, f"{said}, and jobs have to start within {within}")


def _consumed(app: App, deployment: Deployment) -> AbstractSet[str]:
    return {
        spec.name for group in deployment.consumers for spec in group.selection.of(app.topology)
    }


def _breakers(workers: Sequence[WorkerStatus]) -> Iterator[HealthReason]:
    opened = Counter(
        limit
        for worker in workers
        for limit, state in worker.limits.items()
        if state is LimitState.OPEN
    )
    for limit, count in sorted(opened.items()):
        yield _degraded(None, f"{limit} is open at {count} of {len(workers)} workers")


def _unhealthy(queue: str | None, text: str) -> HealthReason:
    return HealthReason(state=SystemState.UNHEALTHY, queue=queue, text=text)


def _degraded(queue: str | None, text: str) -> HealthReason:
    return HealthReason(state=SystemState.DEGRADED, queue=queue, text=text)


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


def _they(count: int) -> str:
    return "it" if count == 1 else "they"
