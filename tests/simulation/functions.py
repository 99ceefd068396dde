"""The Lambda functions of a life: event source mappings, the bridge and the sweep."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.events import Events
from headgate.jobs.core.immediate import (
    ImmediateObjectStore,
    ImmediateTable,
    ImmediateTransport,
    immediate,
)
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.dead_letters.policy_replay import PolicyReplay
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.deployment.replay_plan import outline_of
from headgate.jobs.deployment.sweep_plan import HOLD, sweep_plan
from headgate.jobs.errors import TransportError
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.inputs import read_input
from headgate.jobs.schedules.routes import Routes
from headgate.lambdas.consume import Consumer, consumer
from headgate.lambdas.sweep.memory import SweepMemory
from headgate.lambdas.sweep.sweeper import Sweeper
from tests.simulation.actors import Actor
from tests.simulation.entropy import stream
from tests.simulation.plan import FunctionPlan
from tests.simulation.trust import synchronous_keyring
from tests.support.backends import async_over
from tests.support.functions import record_of

if TYPE_CHECKING:
    from tests.simulation.world import World

AGAIN_S = (60.0, 120.0)
"""Delays after which Lambda retries a function that failed on an event.
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html"""

SWEPT_EVERY_S = 30.0
"""Interval of sweeps, shorter than a deployed sweep's, since lives are short."""

_ENDING_S = 3.0
"""Seconds before a function's timeout at which its jobs are interrupted, as docs/lambda.md says."""

_LOOK_S = 0.25


class Functions:
    """The functions that Lambda runs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ledger = world.ledger
        self._rng = stream(world.plan.seed, "functions")
        self._poller = world.actor("poller")
        self._tasks: list[asyncio.Task[None]] = []
        self._sending: list[asyncio.Task[None]] = []
        self.counted = 0
        """Number of dead letters that sweeps have counted."""

    def start(self) -> None:
        """Start polling the served queues and sweeping the dead letters."""
        for plan in self._world.plan.functions:
            for spec in self._world.topology.queues:
                if spec.group == plan.queue:
                    self._tasks.append(asyncio.create_task(self._poll(plan, spec.name)))
        if self._world.plan.sweeps:
            self._tasks.append(asyncio.create_task(self._sweep_on()))

    @property
    def is_sending(self) -> bool:
        """True while the bridge has something to send or to retry."""
        return any(not task.done() for task in self._sending)

    async def stop(self) -> None:
        """Stop running anything."""
        tasks = [*self._tasks, *self._sending]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def fire(self, text: str) -> None:
        """Invoke the bridge for a schedule that has fired, sometimes twice."""
        self._ledger.counts["fired"] += 1
        for _ in range(2 if self._rng.random() < 0.2 else 1):
            self._sending.append(asyncio.create_task(self._bridge(text)))

    def sweep(self) -> None:
        """Sweep once; failures are left to the next sweep."""
        actor, topic = self._world.actor("sweep"), self._world.aws.topic
        link = self._world.aws.link(actor)

        def count(counts: Any) -> None:
            self.counted += sum(counts.values())

        sweeper = Sweeper(
            sweep_plan(self._world.app, has_bridge=True),
            queues=link.sqs.sync,
            memory=SweepMemory(link.table.sync, actor.clock, sleep=lambda _s: None),
            store=link.store.sync,
            topic=topic,
            tickets=topic,
            clock=actor.clock,
            count=count,
            sleep=lambda _s: None,
            replay=self._replay(actor),
        )
        self._ledger.counts["sweep"] += 1
        with actor.acting():
            try:
                sweeper.sweep()
            except TransportError as error:
                self._ledger.log("sweep-failed", repr(error))
        actor.alive = False

    def _replay(self, actor: Actor) -> PolicyReplay | None:
        if (plan := sweep_plan(self._world.app, has_bridge=True).replay) is None:
            return None
        link = self._world.aws.link(actor)
        services = ReplayServices(
            app=outline_of(plan),
            transport=ImmediateTransport(link.sqs.sync),
            table=ImmediateTable(link.table.sync),
            store=ImmediateObjectStore(link.store.sync),
            clock=actor.clock,
            sleep=immediate(lambda _s: None),
            rng=self._rng,
            concurrency=Threads(),
            look_wait_s=0.0,
            seals=None,
            keyring=synchronous_keyring(self._world, actor),
        )
        return PolicyReplay(plan, services, hold=HOLD)

    async def _sweep_on(self) -> None:
        while not self._world.healing:
            await asyncio.sleep(SWEPT_EVERY_S)
            self.sweep()

    # --- event source mappings ------------------------------------------------------------------

    async def _poll(self, plan: FunctionPlan, queue: str) -> None:
        """Pass a queue's messages to a function, one batch at a time."""
        made: tuple[Actor, Consumer] | None = None
        while True:
            received = await self._world.aws.take(self._poller, queue, plan.batch)
            if plan.window_s and len(received) < plan.batch:
                await asyncio.sleep(plan.window_s)
                with self._poller.acting():
                    left = plan.batch - len(received)
                    received += self._world.aws.sqs.receive_now(queue, left, None)
            if made is None or not made[0].alive:
                made = self._function(plan)
            await self._invoke(plan, queue, received, *made)

    def _function(self, plan: FunctionPlan) -> tuple[Actor, Consumer]:
        """Make an execution environment."""
        world = self._world
        actor = world.actor("fn", skew_s=plan.skew_s)
        actor.gives_s = plan.timeout_s - _ENDING_S
        link = world.aws.link(actor)
        made = consumer(
            world.app,
            events=Events(world.hearing(actor)),
            concurrency=plan.concurrency,
            metrics=False,
            backend=async_over(
                link.sqs,
                scheduler=link.scheduler if world.plan.long_delays else None,
                table=link.table,
                store=link.store,
                keys=link.keys,
                secrets=link.secrets,
                clock=actor.clock,
            ),
        )
        return actor, made

    async def _invoke(
        self,
        plan: FunctionPlan,
        queue: str,
        received: list[ReceivedMessage],
        actor: Actor,
        made: Consumer,
    ) -> None:
        ends_at = self._world.loop.time() + plan.timeout_s
        for each in received:
            self._ledger.messages[f"{queue}/{each.message_id}"].deliveries[-1].actor = actor
        self._ledger.log("invoke", actor.name, queue, len(received))
        self._ledger.counts["invoke"] += 1
        context = _Context(self._world.loop, ends_at)
        event = {"Records": [record_of(each, queue) for each in received]}
        answering = actor.begin(made._handle(event, context), name=actor.name)
        while not answering.done() and actor.alive and self._world.loop.time() < ends_at:
            left_s = ends_at - self._world.loop.time()
            await asyncio.wait({answering}, timeout=min(_LOOK_S, left_s))
        if not answering.done() or not actor.alive:
            self._world.fleet.kill(actor, "its time was up")
            await actor.bury()
        elif (error := answering.exception()) is not None:
            self._ledger.log("function-failed", actor.name, repr(error))
            self._ledger.counts["function-failed"] += 1
        else:
            self._delete(queue, received, answering.result(), actor)

    def _delete(
        self, queue: str, received: list[ReceivedMessage], answer: Any, actor: Actor
    ) -> None:
        failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        watched = self._world.aws.queue(queue)
        with actor.acting():
            for each in received:
                if each.message_id not in failed:
                    watched.undeleting = self._world.aws.faults.undeletes(actor, queue)
                    watched.delete(each.receipt)
        watched.undeleting = False

    # --- the bridge -----------------------------------------------------------------------------

    async def _bridge(self, text: str) -> None:
        actor = self._world.actor("bridge")
        link = self._world.aws.link(actor)
        bridge = Bridge(
            link.sqs.sync,
            link.table.sync,
            actor.clock.now,
            routes=Routes.of(self._world.app),
            keyring=synchronous_keyring(self._world, actor),
        )
        await asyncio.sleep(self._rng.uniform(0.01, 2))
        for pause_s in (*AGAIN_S, None):
            with actor.acting():
                try:
                    bridge.submit(read_input(from_json(text)))
                except TransportError as error:
                    self._ledger.log("bridge-failed", actor.name, repr(error))
                else:
                    return
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        self._ledger.counts["bridge-gave-up"] += 1
        if (job_id := from_json(text).get("job_id")) is not None:
            self._ledger.life(job_id).unsubmitted = True


class _Context:
    """Lambda's context object."""

    aws_request_id = "request"

    def __init__(self, loop: asyncio.AbstractEventLoop, ends_at: float) -> None:
        self._loop = loop
        self._ends_at = ends_at

    def get_remaining_time_in_millis(self) -> int:
        return int((self._ends_at - self._loop.time()) * 1000)
