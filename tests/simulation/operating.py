"""Operators of a life: they replay and purge dead letters, and some are killed while they do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headgate import AsyncClient, DeadLetterFilter
from headgate.jobs.client.dead_letters.desks import AsyncDeadLetters
from headgate.jobs.dead_letters.replaying.book import LEASE_S
from headgate.jobs.dead_letters.replaying.report import ReplayState
from headgate.jobs.errors import HeadgateError
from tests.simulation.actors import Actor
from tests.simulation.plan import OperationPlan
from tests.support.backends import async_over

if TYPE_CHECKING:
    from tests.simulation.world import World

_ALL = DeadLetterFilter()

_TIMES = 20


class Operating:
    """Carries out the operations of a plan, and in the end what was left of its replays."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ledger = world.ledger

    async def run(self) -> None:
        """Carry out all operations, each in a process of its own."""
        async with asyncio.TaskGroup() as group:
            for plan in self._world.plan.operations:
                group.create_task(self._operate(plan))

    async def finish(self) -> None:
        """Resume the replays that have stopped, when nothing fails any more."""
        await asyncio.sleep(2 * LEASE_S + self._world.plan.skew_s)  # the killed ones' leases end
        actor = self._world.actor("resuming")
        await actor.begin(self._resume_all(actor), name=actor.name)
        actor.alive = False

    async def _operate(self, plan: OperationPlan) -> None:
        await asyncio.sleep(plan.at_s)
        actor = self._world.actor("operator", skew_s=plan.skew_s)
        self._ledger.counts[f"operation:{plan.kind}"] += 1
        operating = actor.begin(self._carried_out(plan, actor), name=actor.name)
        await asyncio.wait({operating}, timeout=plan.killed_after_s)
        if not operating.done():
            self._ledger.log("kill", actor.name, "from outside")
            self._ledger.counts["operator-killed"] += 1
            actor.kill()
        actor.alive = False
        await actor.bury()

    async def _carried_out(self, plan: OperationPlan, actor: Actor) -> None:
        async with self._client(actor) as client:
            letters = client.dead_letters
            try:
                if plan.kind == "purge":
                    await letters.purge(_ALL)
                else:
                    await letters.replay(_ALL, spread=plan.spread_s or None, canary=plan.canary)
            except HeadgateError as error:
                self._ledger.log("operation-failed", actor.name, repr(error))

    async def _resume_all(self, actor: Actor) -> None:
        async with self._client(actor) as client:
            letters = client.dead_letters
            for replay in await letters.replays():
                await self._resumed(letters, replay.id)

    async def _resumed(self, letters: AsyncDeadLetters, replay_id: str) -> None:
        """Resume a replay until it is done; one whose jobs die again stops anew."""
        for _ in range(_TIMES):
            if (await letters.get_replay(replay_id)).state is not ReplayState.STOPPED:
                return
            report = await letters.resume(replay_id)
            self._ledger.counts["resumed"] += 1
            self._ledger.log("resumed", replay_id, report.state, report.reason)

    def _client(self, actor: Actor) -> AsyncClient:
        link = self._world.aws.link(actor)
        return AsyncClient(
            self._world.app,
            backend=async_over(
                link.sqs,
                table=link.table,
                store=link.store,
                keys=link.keys,
                secrets=link.secrets,
                clock=actor.clock,
            ),
        )
