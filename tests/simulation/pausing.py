"""Pauses of a life: a person on call pauses queues, types and tenants, and resumes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headgate import AsyncClient
from headgate.jobs.client.pauses import AsyncPauses
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.errors import SettingsInvalid, TransportError
from headgate.jobs.records.cancellations import POLL_S
from tests.simulation.actors import Actor
from tests.simulation.ledger import Life, Run
from tests.simulation.plan import PausePlan
from tests.support.backends import async_over

if TYPE_CHECKING:
    from tests.simulation.world import World

GRACE_S = 2 * POLL_S * 1.2 + 2
"""Seconds for two looks of a worker, with their jitter and the patience of one."""

_AGAIN_S = 1.0


@dataclass(slots=True)
class _Standing:
    """A pause that stands in the table."""

    plan: PausePlan
    began_at: float
    ends_at: float
    """The earliest time at which any process may take it to be over."""


class Pausing:
    """Makes the pauses of a plan, and knows which of them every worker has to keep."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ledger = world.ledger
        self._standing: list[_Standing] = []

    async def run(self, actor: Actor) -> None:
        """Make all pauses, and resume what they have paused."""
        async with self._client(actor) as client, asyncio.TaskGroup() as group:
            for plan in self._world.plan.pauses:
                group.create_task(self._pause(client.pauses, plan))

    async def resume_all(self, actor: Actor) -> None:
        """Resume whatever is still paused, when nothing fails any more."""
        self._standing.clear()
        async with self._client(actor) as client:
            with suppress(SettingsInvalid):
                for each in await client.pauses.list():
                    await client.pauses.remove(**_named_of(each.target.kind, each.target))

    def check(self, life: Life, run: Run) -> Iterator[str]:
        """Yield what a run that begins now violates."""
        if (queue := self._queue_of(life, run)) is None:
            return
        for standing in self._standing:
            known_at = max(standing.began_at, run.actor.born_at) + self._grace_s(queue)
            if not known_at < self._ledger.now < standing.ends_at:
                continue
            if run.actor.met_fault_of("table", 0):
                continue
            if _covers(standing.plan, queue, life):
                yield f"it starts at {run.actor.name}, and {standing.plan.name} has been paused"

    def may_stop(self, queue: QueueSpec, life: Life) -> bool:
        """Return True if any pause of the plan concerns a job."""
        return any(_covers(each, queue, life) for each in self._world.plan.pauses)

    def _client(self, actor: Actor) -> AsyncClient:
        link = self._world.aws.link(actor)
        return AsyncClient(
            self._world.app,
            backend=async_over(link.sqs, table=link.table, store=link.store, clock=actor.clock),
        )

    async def _pause(self, pauses: AsyncPauses, plan: PausePlan) -> None:
        await asyncio.sleep(plan.at_s)
        named = _named_of(plan.kind, plan)
        try:
            made = await pauses.create(**named, lasts=plan.lasts_s if plan.ends else None)
        except SettingsInvalid:
            return  # the app keeps no records
        except TransportError as error:
            self._ledger.log("pause-failed", plan.name, repr(error))
            return
        now, slack_s = self._ledger.now, self._world.plan.skew_s + 1
        left_s = (made.until - made.at).total_seconds() - slack_s
        standing = _Standing(plan, now, now + left_s)
        self._standing.append(standing)
        self._ledger.counts[f"paused:{plan.kind}"] += 1
        await asyncio.sleep(plan.lasts_s)
        if not plan.ends:
            standing.ends_at = min(standing.ends_at, self._ledger.now)
            await self._resume(pauses, named)

    async def _resume(self, pauses: AsyncPauses, named: dict[str, Any]) -> None:
        while not self._world.healing:
            try:
                await pauses.remove(**named)
            except TransportError:
                await asyncio.sleep(_AGAIN_S)
            else:
                return

    def _queue_of(self, life: Life, run: Run) -> QueueSpec | None:
        for message in life.messages:
            if run.delivery in message.deliveries:
                return self._world.aws.watch.sources[message.queue]
        return None

    def _grace_s(self, queue: QueueSpec) -> float:
        """Return the time in which a worker learns of a pause, or a function's invocation ends."""
        of_queue = (each for each in self._world.plan.functions if each.queue == queue.group)
        return GRACE_S + max((each.timeout_s for each in of_queue), default=0.0)


def _named_of(kind: str, named: Any) -> dict[str, Any]:
    of = {"queue": "queue", "type": "job_type", "tenant": "tenant"}[kind]
    return {of: named.name} | ({"priority": named.priority} if named.priority else {})


def _covers(plan: PausePlan, queue: QueueSpec, life: Life) -> bool:
    match plan.kind:
        case "queue":
            return plan.name == queue.group and plan.priority in (None, queue.priority)
        case "type":
            return life.declared is not None and life.declared.name == plan.name
        case "tenant":
            return life.tenant == plan.name
