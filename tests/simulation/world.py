"""One life: the app, its workers, functions, bridge and clients, from the first job to the last.

busy       jobs are submitted, workers come and go, and faults occur
healing    no more faults; a healthy worker works until nothing is left. Where all remaining jobs
           wait for their time, time is skipped, with no worker running meanwhile
judgement  what is left, and what happened, is checked against the promises
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from headgate import App, AsyncClient, Backoff
from headgate.jobs.core.events import Event, Events
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.errors import PartlySubmitted, RecordsOff, SubmissionError, TransportError
from headgate.jobs.schedules.delayed_job import PREFIX
from headgate.jobs.schedules.firing import schedule_input
from headgate.jobs.testing.memory.ordering import Message as StoredIn
from headgate.jobs.testing.memory.ordering import MessageState
from headgate.workers.worker import Worker
from tests.simulation import apps
from tests.simulation.actors import Actor
from tests.simulation.apps import Work, uniqueness_of
from tests.simulation.fleet import Fleet
from tests.simulation.functions import Functions
from tests.simulation.ledger import Ledger
from tests.simulation.loop import VirtualLoop
from tests.simulation.observer import Observer
from tests.simulation.operating import Operating
from tests.simulation.pausing import Pausing
from tests.simulation.plan import JobPlan, Jump, Plan, PolicyPlan, WorkerPlan
from tests.simulation.services import Aws
from tests.simulation.stage import Stage
from tests.simulation.trust import rotate
from tests.support.backends import async_over

LIFETIME_S = 60 * 86_400.0
"""Seconds that nothing takes longer than."""

ROUNDS = 400
"""Maximum number of healthy workers started for the rest."""

ROUND_S = 900.0
"""Maximum seconds that one of them works before the rest is checked."""

_GATHER_S = 10
"""Seconds that a job waits for others to share a message with, where types are bundled."""

_SUBMITTED_WITHIN_S = 3_600.0

_CALM_LOOKS = 3

_SWEEP_OVER_S = 300.0
"""Seconds for which a cut-off sweep keeps others away, until it would have ended."""

_WORTH_WAITING_S = 60.0
"""Seconds to the next due job for which a worker stays: a fleet is not restarted for each job."""


class World:
    """All actors of a life, and their services."""

    def __init__(self, plan: Plan, ledger: Ledger, loop: VirtualLoop) -> None:
        self.plan = plan
        self.ledger = ledger
        self.loop = loop
        self.healing = False
        self.jobs = {job.index: job for job in plan.jobs}
        self.types = {declared.name: declared for declared in plan.types}
        self.actors: dict[str, Actor] = {}
        self._names = itertools.count(1)
        stage = Stage(self)
        self.app = apps.build(plan, stage)
        self.old_app = apps.build(plan, stage, old=True)
        self.topology = self.app.topology
        self.aws = Aws(plan, self.topology, ledger, fire=self._fire)
        self.pausing = Pausing(self)
        self.operating = Operating(self)
        self.observer = Observer(self)
        self.fleet = Fleet(self)
        self.functions = Functions(self)

    def _fire(self, text: str) -> None:
        self.functions.fire(text)

    async def live(self) -> None:
        """Live the whole life."""
        scheduling = asyncio.create_task(self.aws.scheduler.run())
        self.functions.start()
        watching = asyncio.create_task(self.observer.watch())
        await self._be_busy()
        watching.cancel()
        await self._heal()
        if self.plan.operations:
            await self.operating.finish()
            await self._heal()
        if self.plan.policy is not None:
            await self._replay_by(self.plan.policy)
        if self.plan.sweeps:
            await asyncio.sleep(_SWEEP_OVER_S)
            self.functions.sweep()
        if self.plan.policy is not None:
            await self._heal()
        scheduling.cancel()
        await asyncio.wait([scheduling, watching])
        await self.functions.stop()
        for actor in [*self.actors.values()]:
            actor.alive = False
            await actor.bury()

    # --- busy -------------------------------------------------------------------------------------

    async def _be_busy(self) -> None:
        client = self.actor("client")
        await self._declare_schedules()
        submitting = client.begin(self._submit_all(client), name="submitting")
        on_call = self.actor("on-call")
        pausing = on_call.begin(self.pausing.run(on_call), name="pausing")
        places = [asyncio.create_task(self.fleet.place(each)) for each in self.plan.workers]
        rotating = asyncio.create_task(rotate(self))
        killing = asyncio.create_task(self.fleet.kill_by_plan())
        operating = asyncio.create_task(self.operating.run())
        await asyncio.sleep(self.plan.busy_s)
        await asyncio.gather(killing, rotating)
        async with asyncio.timeout(_SUBMITTED_WITHIN_S):
            await submitting
        self.ledger.log("healing")
        self.aws.faults.over = self.healing = True
        pausing.cancel()
        await asyncio.wait([pausing])
        await on_call.begin(self.pausing.resume_all(on_call), name="resuming")
        self._drop_recurring()
        await asyncio.gather(*places, operating)

    async def _declare_schedules(self) -> None:
        """Declare the schedules of types that have one, as CDK does."""
        for job in self.app.types.values():
            for declared in job.schedules:
                spec = ScheduleSpec(
                    group=self.topology.schedule_group,
                    name=declared.name,
                    expression=declared.when.expression,
                    function=self.topology.bridge_name,
                    role=self.topology.scheduler_role,
                    input=json.dumps(schedule_input(self.app, job, declared)),
                )
                await self.aws.scheduler.create(spec, token=declared.name)

    def _drop_recurring(self) -> None:
        for spec in self.aws.scheduler.schedules:
            if not spec.name.startswith(PREFIX):
                self.aws.scheduler.drop(spec.group, spec.name)

    async def _submit_all(self, actor: Actor) -> None:
        link = self.aws.link(actor)
        async with (
            AsyncClient(
                self.app,
                events=Events(self.hearing(actor)),
                gather=_GATHER_S if any(each.bundle for each in self.plan.types) else 0,
                backend=async_over(
                    link.sqs,
                    scheduler=link.scheduler if self.plan.long_delays else None,
                    table=link.table,
                    store=link.store,
                    keys=link.keys,
                    secrets=link.secrets,
                    clock=actor.clock,
                ),
            ) as client,
            asyncio.TaskGroup() as group,
        ):
            for job in self.plan.jobs:
                if not job.inner:
                    group.create_task(self._submit(client, job))

    async def _submit(self, client: AsyncClient, job: JobPlan) -> None:
        await asyncio.sleep(job.at_s)
        declared, overrides = self.app.types[job.type], self.overrides_of(job)
        try:
            handle = await client.submit(declared, self.work_of(job), **overrides)
        except (TransportError, PartlySubmitted) as error:
            self.ledger.log("refused", job.index, type(error).__name__, error)
            self.ledger.counts[f"refused:{type(error).__name__}"] += 1
            return
        except SubmissionError as error:
            self.misplanned(job, error)
            return
        self.accepted(job, handle.id, is_duplicate=handle.is_duplicate)
        if job.cancelled_after_s is None:
            return
        await asyncio.sleep(job.cancelled_after_s)
        self.ledger.life(handle.id).cancel_asked_at = self.ledger.now
        try:
            with suppress(RecordsOff):
                await handle.cancel("not wanted any more")
                self.ledger.counts["cancelled"] += 1
        except TransportError as error:
            self.ledger.log("cancel-failed", job.index, repr(error))

    def accepted(self, job: JobPlan, job_id: str, *, is_duplicate: bool) -> None:
        """Record that the system has accepted a job."""
        life = self.ledger.life(job_id)
        self.ledger.log("accepted", job.index, job_id[-6:], is_duplicate)
        if is_duplicate:
            self.ledger.counts["duplicate-submission"] += 1
            return
        life.plan, life.accepted_at = job, self.ledger.now
        life.declared, life.kind = self.types[job.type], job.type

    def misplanned(self, job: JobPlan, error: SubmissionError) -> None:
        """Record that no system would take a job: the simulation is wrong, and not the system."""
        self.ledger.fault("misplanned", f"job {job.index}: {type(error).__name__}: {error}")

    def app_of(self, actor: Actor) -> App:
        """Return the app in the version that a worker or a function runs."""
        place = actor.name.partition(".")[0]
        is_old = any(each.old and each.name == place for each in self.plan.workers)
        return self.old_app if is_old else self.app

    def work_of(self, job: JobPlan) -> Work:
        """Return the payload of a job."""
        return Work(job=job.index, pad="p" * job.pad)

    def overrides_of(self, job: JobPlan) -> Any:
        """Return the options with which a job's submission overrides its type."""
        declared = self.types[job.type]
        fifo = self.plan.queue(declared.queue).fifo
        overrides: dict[str, Any] = {}
        if job.delay_s and (self.plan.long_delays or (job.delay_s <= 900 and not fifo)):
            overrides["delay"] = timedelta(seconds=job.delay_s)
        if fifo:
            overrides["group"] = job.group or "g"
        if job.key is not None and declared.unique_s:
            overrides["unique"] = uniqueness_of(declared, job.key)
        overrides |= {
            "tenant": job.tenant,
            "max_attempts": job.attempts,
            "priority": job.priority,
            "expires": job.expires_s,
            "backoff": Backoff.steps(*job.backoff_s) if job.backoff_s is not None else None,
        }
        return overrides

    # --- healing ----------------------------------------------------------------------------------

    async def _heal(self) -> None:
        """Work until nothing is left, or until something evidently stays forever."""
        on_lambda = {function.queue for function in self.plan.functions}
        groups = tuple(each.name for each in self.plan.queues if each.name not in on_lambda)
        healer = WorkerPlan(name="healer", groups=groups)
        for _ in range(ROUNDS):
            if not self._is_anything_left() or self.ledger.now > LIFETIME_S:
                return
            await self._skip()
            if not groups:
                await self._until_idle(None)
                continue
            actor, worker, running = self.fleet.start(healer)
            waiting = asyncio.create_task(self._until_idle(worker))
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            await self.fleet.end(actor, worker, running)

    async def _replay_by(self, policy: PolicyPlan) -> None:
        """Sweep until no dead letter is left that the policy replays.

        A letter is counted by one sweep, and sent back by the next; its job may submit another.
        """
        for _ in range(4 * policy.max_replays):
            await asyncio.sleep(max(policy.after_s, _SWEEP_OVER_S) + self.plan.skew_s + 1)
            self.functions.sweep()
            await self._heal()

    def _is_anything_left(self) -> bool:
        if self.functions.is_sending:
            return True
        if any(self.aws.sqs.messages(spec.name) for spec in self.topology.queues):
            return True
        return any(spec.name.startswith(PREFIX) for spec in self.aws.scheduler.schedules)

    async def _skip(self) -> None:
        """Let time pass until something is due."""
        wait_s = self._due_in_s()
        self.ledger.log("skip", f"{wait_s:.0f}")
        await asyncio.sleep(wait_s if wait_s < LIFETIME_S else 0.0)

    def _due_in_s(self) -> float:
        """Return the seconds until a message is visible or sent, as far as known; 0: now."""
        if self.functions.is_sending:
            return 0.0  # what they send must not lie for days in a queue that nobody works on
        waits = [
            0.0 if head.state is MessageState.VISIBLE else head.visible_s - self.ledger.now
            for head in self._heads()
        ]
        if (due := self.aws.scheduler.next_due(PREFIX)) is not None:
            waits.append((due - self.aws.clock.now()).total_seconds())
        return max(0.0, min(waits, default=float("inf")))

    async def _until_idle(self, worker: Worker | None) -> None:
        ends_at, calm = self.loop.time() + ROUND_S, 0
        while self.loop.time() < ends_at and calm < _CALM_LOOKS:
            await asyncio.sleep(1)
            calm = 0 if self._is_busy(worker) else calm + 1

    def _is_busy(self, worker: Worker | None) -> bool:
        if self.ledger.running or (worker is not None and len(worker._parts.holdings)):
            return True
        return self._due_in_s() < _WORTH_WAITING_S

    def _heads(self) -> Iterator[StoredIn]:
        for spec in self.topology.queues:
            queue = self.aws.queue(spec.name)
            queue.tick(self.ledger.now)
            yield from queue.heads()

    # --- actors -----------------------------------------------------------------------------------

    def actor(self, name: str, *, skew_s: float = 0.0, jump: Jump | None = None) -> Actor:
        """Start a new process."""
        actor = Actor(f"{name}.{next(self._names)}", skew_s=skew_s, jump=jump)
        self.actors[actor.name] = actor
        return actor

    def hearing(self, actor: Actor) -> Callable[[Event], None]:
        """Return a subscriber to an actor's events while it lives."""

        def hear(event: Event) -> None:
            if actor.alive:
                self.ledger.heard(actor, event)
                self.observer.heard(actor, event)

        return hear
