"""Checks during a life, for what must not happen even for a moment."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.events import (
    Event,
    JobCompleted,
    JobCrashed,
    JobDeferred,
    JobDiscarded,
    JobDropped,
    JobFailed,
    JobQuarantined,
    JobStarted,
)
from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.jobs.records.items import deliveries_of, partition
from headgate.jobs.schedules.delayed_job import PREFIX
from headgate.jobs.testing.memory.ordering import MessageState
from headgate.workers.worker import Worker
from tests.simulation.actors import START, Actor
from tests.simulation.excuses import (
    FOREVER,
    deaths,
    is_blind,
    is_left_to_itself,
    is_written,
    shown_by_an_old_receipt,
)
from tests.simulation.ledger import Delivery, Life, Message, Run
from tests.simulation.plan import LimitPlan

if TYPE_CHECKING:
    from tests.simulation.world import World

SLACK_S = 0.05
"""Tolerance between a moment as the code under test knows it and as it is seen from outside."""

AT_ONCE_S = 3.0
"""Seconds in which a critical job must start in a free slot: a poll and a look-up of records."""

_START_S, _BLIND_START_S = 0.1, 3.5
"""Seconds between a limit's permission and the start, while the table answers and while not.

A mark and a claim are written in between, if the table answers.
"""

_LOOK_S = 1.0

_ENDS = (JobCompleted, JobDeferred, JobDiscarded, JobFailed)
"""Events that say how an attempt ended."""

CRASHES = 3
"""Number of crashes after which a job is quarantined."""


class Observer:
    """Sees every run, every delivery and every event as it happens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ledger = world.ledger
        self._starts: dict[tuple[str, str, str | None], list[tuple[float, Life]]] = defaultdict(
            list
        )
        """By the limit's owner, the worker unless it is the fleet's, and the tenant if it is the
        key: the times at which jobs started."""
        self._waits_since: dict[str, float] = {}
        """Critical messages entitled to a free slot, each with the time from which it waits."""
        world.aws.watch.on_delivery = self.delivered
        world.aws.watch.on_deletion = self.deleted

    async def watch(self) -> None:
        """Check repeatedly until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self._check_critical()

    # --- runs -------------------------------------------------------------------------------------

    def begins(self, life: Life, run: Run) -> None:
        """Check that a handler may run now."""
        self._check_group(life)
        self._check_concurrency(life, run)
        for said in self._world.pausing.check(life, run):
            self._fault("started-paused", life, said)
        # An attempt that ended with its worker does not use up an allowed one.
        allowed = run.max_attempts + deaths(self._world, life)
        # Nor does a begun one whose end is not written yet.
        allowed += sum(not is_written(each, run) for each in life.runs)
        if run.attempt > allowed and not is_blind(self._world, life):
            said = f"attempt {run.attempt} of {run.max_attempts} is made"
            self._fault("too-many-attempts", life, said)

    def _check_group(self, life: Life) -> None:
        """Check that a FIFO group's jobs run in order, one at a time."""
        for message in life.messages:
            spec = self._world.aws.watch.sources[message.queue]
            if not spec.fifo or message.gone_at is not None:
                continue
            older = self._world.aws.queue(message.queue).older_of_group(message.id)
            if any(not self._has_ended(message.queue, each.id) for each in older):
                self._fault("group-order", life, f"it runs before an older one of {message.group}")
            if any(self._is_of_group(other, message) for other in self._others(life)):
                self._fault("group-order", life, f"it runs beside another one of {message.group}")

    def _others(self, life: Life) -> Iterator[Life]:
        return (
            other
            for run, other in self._ledger.running.items()
            if other is not life and not is_left_to_itself(self._world, other, run)
        )

    def _has_ended(self, queue: str, message_id: str) -> bool:
        """True if a job has ended although its message exists: Lambda deletes it later."""
        life = self._ledger.life(self._ledger.messages[f"{queue}/{message_id}"].job_id)
        ended = life.ran("returned", "discarded") or life.letters or life.told(JobDropped)
        return bool(ended) or life.cancel_asked_at is not None

    @staticmethod
    def _is_of_group(life: Life, message: Message) -> bool:
        return any(
            each.group == message.group and each.queue == message.queue and each.gone_at is None
            for each in life.messages
        )

    def _limits_of(self, life: Life, kind: str) -> Iterator[LimitPlan]:
        """Yield the limits of a kind that apply to a job."""
        declared, plan = life.declared, self._world.plan
        if declared is None or any(each.queue == declared.queue for each in plan.functions):
            return  # a function has no limit but its own concurrency
        for owner in ("app", f"queue:{declared.queue}", f"type:{declared.name}"):
            for limit in plan.limits_of(owner):
                leased = not limit.fleet or plan.skew_s <= SKEW_S  # leases allow no greater skew
                if limit.kind == kind and leased:
                    yield limit

    def _check_rate(self, actor: Actor, life: Life) -> None:
        """Check that no period of that length has more starts than allowed."""
        now, troubled = self._ledger.now, self._world.aws.faults.was_troubled("table", 0, FOREVER)
        slack_s = _BLIND_START_S if troubled else _START_S
        for limit in self._limits_of(life, "rate"):
            if limit.by_tenant and life.tenant is None:
                continue
            tenant = life.tenant if limit.by_tenant else None
            starts = self._starts[limit.of, "" if limit.fleet else actor.name, tenant]
            starts.append((now, life))
            recent = sum(
                _cost(limit, each) for at, each in starts if at > now - limit.per_s + slack_s
            )
            if recent > limit.limit:
                said = f"{recent} start in {limit.per_s:g} s, where {limit.of} has a limit"
                self._fault("rate-limit", life, said)

    def _check_concurrency(self, life: Life, run: Run) -> None:
        for limit in self._limits_of(life, "concurrency"):
            tenant = life.tenant
            if limit.by_tenant and tenant is None:
                continue
            beside = [
                other
                for other, its_life in self._ledger.running.items()
                if _belongs(its_life, limit.of)
                and other.actor.name in self._world.fleet.workers
                and (limit.fleet or other.actor is run.actor)
                and (not limit.by_tenant or its_life.tenant == tenant)
            ]
            if len(beside) >= limit.limit:
                said = f"{len(beside) + 1} run at once, and {limit.of} has a limit of {limit.limit}"
                self._fault("concurrency", life, said)

    # --- queues -----------------------------------------------------------------------------------

    def delivered(self, message: Message, delivery: Delivery, before: Delivery | None) -> None:
        """Check that no living receiver has let the message's visibility lapse."""
        if before is not None:
            delivery.silent_until = self._silent_until(message)
        if before is None or (holder := before.actor) is None or not holder.alive:
            return
        if before.hidden_until > delivery.at + SLACK_S:
            return  # SQS delivers it twice
        if before.shown:
            return  # a stop left its thread behind, which learns of it a moment later
        if holder.trouble_until >= before.at or holder.name.startswith(("fn", "poller")):
            return
        if shown_by_an_old_receipt(self._world, message, before):
            return
        life = self._ledger.life(message.job_id)
        if len(life.messages) > 1:
            return  # the run can't be attributed
        if any(run.actor is holder and run.ended_at is None for run in life.runs):
            said = f"it runs at {holder.name}, which has let its visibility end"
            self._fault("lapsed", life, said)

    def _silent_until(self, message: Message) -> float | None:
        """Return until when a message has no record; None if its first delivery has one."""
        prefix = deliveries_of(message.id)
        known_at = self._ledger.now
        for item in self._world.aws.table._store.query(partition(message.job_id), prefix):
            if item.sk.removeprefix(prefix).partition("#")[0] == "1":
                return None
            at = datetime.fromisoformat(item.data["at"])
            known_at = min(known_at, (at - START).total_seconds() + SKEW_S)
        return known_at

    def deleted(self, message: Message, actor: Actor | None) -> None:
        """Check that a deleted message's outcome is durable by now."""
        life = self._ledger.life(message.job_id)
        if not self._is_settled(life, message):
            who = actor.name if actor is not None else "nobody"
            self._fault(
                "deleted-early", life, f"{who} deleted its message before it had an outcome"
            )

    def _is_settled(self, life: Life, message: Message) -> bool:
        return (
            bool(life.ran("returned") or life.ran("discarded"))
            or life.cancel_asked_at is not None
            or bool(life.letters)
            or bool(life.told(JobDropped))
            or any(other is not message and other.gone_at is None for other in life.messages)
            or self.is_scheduled(life)
        )

    def is_scheduled(self, life: Life) -> bool:
        """True if a one-time schedule holds a job."""
        name = f"{PREFIX}{life.id}"
        return any(spec.name.startswith(name) for spec in self._world.aws.scheduler.schedules)

    def _check_critical(self) -> None:
        """Check that critical work starts at once while a slot that it may use is free."""
        waiting: dict[str, float] = {}
        for spec in self._world.topology.queues:
            if spec.priority is not Priority.CRITICAL or spec.fifo or not self._has_slot(spec):
                continue
            for key in self._startable(spec):
                waiting[key] = self._waits_since.get(key, self._ledger.now)
        for key, since in waiting.items():
            if self._ledger.now - since >= AT_ONCE_S:
                waiting[key] = self._ledger.now  # reported once, and then again after a while
                life = self._ledger.life(self._ledger.messages[key].job_id)
                said = f"it has waited since {since:.1f} s while a slot is free"
                self._fault("critical-waits", life, said)
        self._waits_since = waiting

    def _has_slot(self, spec: QueueSpec) -> bool:
        """True if an untroubled worker had a free slot for a queue all the time."""
        now, fleet = self._ledger.now, self._world.fleet
        for name, worker in fleet.workers.items():
            actor = self._world.actors[name]
            served = self._world.app_of(actor).topology.queues
            serves = any(each.name == spec.name for each in served)
            polls = any(poller.queue.name == spec.name for poller in worker._parts.pollers)
            if not (actor.alive and worker.is_receiving and serves and polls):
                continue
            running = sum(run.actor is actor for run in self._ledger.running)
            is_calm = actor.trouble_until < now and actor.born_at + AT_ONCE_S < now
            if is_calm and running < worker._settings.concurrency:
                return True
        return False

    def _startable(self, spec: QueueSpec) -> Iterator[str]:
        """Yield the messages of a queue that wait for a slot alone."""
        queue = self._world.aws.queue(spec.name)
        queue.tick(self._ledger.now)
        for message in queue.messages:
            key = f"{spec.name}/{message.id}"
            life = self._ledger.life(self._ledger.messages[key].job_id)
            declared = life.declared
            if declared is None or declared.new or declared.schema > 1 or declared.isolated:
                continue
            owners = ("app", f"queue:{declared.queue}", f"type:{declared.name}")
            if any(self._world.plan.limits_of(owner) for owner in owners):
                continue
            if self._world.pausing.may_stop(spec, life):
                continue
            if message.state is MessageState.VISIBLE:
                yield key

    # --- events -----------------------------------------------------------------------------------

    def heard(self, actor: Actor, event: Event) -> None:
        """Check an actor's event."""
        if isinstance(event, JobStarted):
            life = self._ledger.life(event.job_id)
            life.declared = life.declared or self._world.types.get(event.job_type)
            self._check_rate(actor, life)
        elif isinstance(event, _ENDS):
            self._end_told(actor, self._ledger.life(event.job_id))
        elif isinstance(event, JobCrashed):
            life = self._ledger.life(event.job_id)
            if not deaths(self._world, life):
                self._fault("blamed", life, f"{actor.name} says that it crashed: {event.detail}")
        elif isinstance(event, JobQuarantined):
            life = self._ledger.life(event.job_id)
            died = deaths(self._world, life)
            is_spent = died and event.attempt >= event.max_attempts
            if died < CRASHES and not is_spent:
                self._fault("quarantined", life, f"after {died} deaths: {event.detail}")

    def _end_told(self, actor: Actor, life: Life) -> None:
        """End the run whose end was told, though its thread may go on with the rest of a batch."""
        for run in life.runs:
            if run.actor is actor and run.told and run.ended_at is None:
                self._ledger.ended(run, run.told)
                self._ledger.log("told", actor.name, run.job_id[-6:], run.told)

    def has_stopped(self, actor: Actor, worker: Worker) -> None:
        """Check that a worker stopped in order leaves nothing behind."""
        children = worker._parts.admission._children
        left = {
            "holds": len(worker._parts.holdings),
            "slots": worker._parts.demand.busy,
            "waiting": len(worker._parts.waiting),
            "children": 0 if children is None else children.in_use(0),
            "tasks": len(actor.left),
        }
        if any(left.values()) and actor.trouble_until < self._ledger.now:
            said = {name: count for name, count in left.items() if count}
            tasks = sorted(task.get_name() for task in actor.left)
            self._ledger.fault("left-behind", f"{actor.name} left {said} {tasks}")

    def _fault(self, kind: str, life: Life, text: str) -> None:
        self._ledger.fault(kind, f"{life.name}: {text}")


def _belongs(life: Life, owner: str) -> bool:
    declared = life.declared
    if declared is None:
        return False
    return owner in ("app", f"queue:{declared.queue}", f"type:{declared.name}")


def _cost(limit: LimitPlan, life: Life) -> int:
    """Return the tokens that a job takes at least: its index is known once its handler runs."""
    return 1 if life.plan is None else limit.cost_of(life.plan.index)
