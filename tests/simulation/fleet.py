"""The workers of a life: started, stopped in order, killed, and replaced."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headgate.jobs.core.events import Events
from headgate.jobs.errors import QueuesMissing
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker
from tests.simulation.actors import Actor
from tests.simulation.entropy import stream
from tests.simulation.plan import WorkerPlan
from tests.support.backends import async_over

if TYPE_CHECKING:
    from tests.simulation.world import World

STOPS_WITHIN_S = 60.0
"""Seconds longer than any drain of a plan, including all that follows it."""

_LOOK_S = 0.5


class Fleet:
    """All workers of a life."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ledger = world.ledger
        self._rng = stream(world.plan.seed, "fleet")
        self.workers: dict[str, Worker] = {}
        """The workers that run now, by their actor's name."""

    async def place(self, plan: WorkerPlan) -> None:
        """Keep one place of the fleet: a worker killed there gets a successor."""
        await asyncio.sleep(plan.start_s)
        while not self._world.healing:
            actor, worker, running = self.start(plan)
            await self._until_over(plan, actor, running)
            await self.end(actor, worker, running)
            if actor.killed_at is None:
                return
            await asyncio.sleep(self._rng.uniform(0.5, 4))

    def start(self, plan: WorkerPlan) -> tuple[Actor, Worker, asyncio.Task[Any]]:
        """Start a new worker by its plan."""
        actor = self._world.actor(plan.name, skew_s=plan.skew_s, jump=plan.jump)
        with actor.acting():
            worker = self._made(plan, actor)
        self.workers[actor.name] = worker
        self._ledger.log("start", actor.name)
        return actor, worker, actor.begin(worker.run(), name=actor.name)

    async def end(self, actor: Actor, worker: Worker, running: asyncio.Task[Any]) -> None:
        """Wait for the end of a worker: stop it unless it has been killed."""
        if actor.alive and running.done() and not self._had_no_queues(actor, worker, running):
            said = f"{actor.name} ended by itself: {_end_of(running)}"
            self._ledger.fault("worker-ended", said)
        elif actor.alive and not running.done():
            worker.stop()
            await self._stopped(actor, worker, running)
        self.workers.pop(actor.name, None)
        actor.alive = False
        self._end_runs_of(actor, "cut")  # the threads that it left behind end with it
        await actor.bury()

    def _had_no_queues(self, actor: Actor, worker: Worker, running: asyncio.Task[Any]) -> bool:
        """True if a worker rightly gave up: its queues were missing for its whole grace period."""
        if (
            not running.done()
            or running.cancelled()
            or not isinstance(running.exception(), QueuesMissing)
        ):
            return False
        since = self._ledger.now - worker._settings.queue_grace.total_seconds()
        return self._world.aws.faults.were_gone(actor, since, self._ledger.now)

    def kill(self, actor: Actor, why: str) -> None:
        """End a process at once."""
        if not actor.alive:
            return
        self._ledger.log("kill", actor.name, why)
        self._ledger.counts["kill"] += 1
        actor.kill()
        self._end_runs_of(actor, "killed")

    def _end_runs_of(self, actor: Actor, how: str) -> None:
        for run in [*self._ledger.running]:
            if run.actor is actor:
                self._ledger.ended(run, how)

    async def kill_by_plan(self) -> None:
        """Kill workers when the plan says so."""
        for kill in sorted(self._world.plan.kills, key=lambda each: each.at_s):
            await asyncio.sleep(max(0.0, kill.at_s - self._ledger.now))
            for name in [*self.workers]:
                if name.partition(".")[0] == kill.worker:
                    self.kill(self._world.actors[name], "from outside")

    async def _until_over(self, plan: WorkerPlan, actor: Actor, running: asyncio.Task[Any]) -> None:
        """Return when a worker has ended, was killed, or has to stop."""
        ends_at = plan.stop_s if plan.stop_s is not None else float("inf")
        while actor.alive and not running.done() and not self._world.healing:
            left_s = ends_at - self._ledger.now
            if left_s <= 0:
                return
            await asyncio.wait({running}, timeout=min(_LOOK_S, left_s))

    async def _stopped(self, actor: Actor, worker: Worker, running: asyncio.Task[Any]) -> None:
        """Return when a worker that was told to stop has stopped or was killed."""
        actor.stopped_at = self._ledger.now
        self._ledger.log("stop", actor.name)
        self._ledger.counts["stop"] += 1
        await asyncio.wait({running}, timeout=STOPS_WITHIN_S)
        if not actor.alive:
            return
        if not running.done():
            said = f"{actor.name} goes on {STOPS_WITHIN_S:g} s after it was told to stop"
            self._ledger.fault("never-stops", said)
        elif self._had_no_queues(actor, worker, running):
            self._ledger.log("no-queues", actor.name)  # its grace ended as it was told to stop
        elif running.cancelled() or running.exception() is not None:
            self._ledger.fault("worker-failed", f"{actor.name}: {_end_of(running)}")
        else:
            self._world.observer.has_stopped(actor, worker)

    def _made(self, plan: WorkerPlan, actor: Actor) -> Worker:
        world = self._world
        app, link = world.old_app if plan.old else world.app, world.aws.link(actor)
        groups = tuple(each for each in plan.groups or () if each in app.topology.groups)
        return Worker(
            app,
            async_over(
                link.sqs,
                table=link.table,
                scheduler=link.scheduler if world.plan.long_delays else None,
                store=link.store,
                keys=link.keys,
                secrets=link.secrets,
                clock=actor.clock,
                rng=stream(world.plan.seed, "worker", actor.name),
            ),
            WorkerSettings(
                concurrency=plan.concurrency,
                children=plan.children,
                queues=groups or None,
                drain=timedelta(seconds=plan.drain_s),
            ),
            name=actor.name,
            events=Events(world.hearing(actor)),
        )


def _end_of(task: asyncio.Task[Any]) -> str:
    if task.cancelled():
        return "cancelled"
    return repr(task.exception() or task.result())
