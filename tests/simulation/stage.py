"""The stage on which handlers are played: the act that is due, and how it really ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate import BatchContext, JobContext
from headgate.errors import SubmissionError
from headgate.jobs.definitions.handlers.context import is_to_stop
from tests.simulation.actors import current_actor
from tests.simulation.apps import Work
from tests.simulation.children import Died
from tests.simulation.ledger import Life, Run
from tests.simulation.plan import Act, TypePlan
from tests.simulation.surroundings import Entered

if TYPE_CHECKING:
    from tests.simulation.world import World

_TIMEOUT_SLACK_S = 0.01

_NEARLY_ALL = 0.9
"""The part of an invocation's time after which a job has timed out, as docs/lambda.md says."""


class Stage:
    """Plays the handlers of all apps of a life."""

    def __init__(self, world: World) -> None:
        self._world = world

    def begins(self, declared: TypePlan, work: Work, ctx: JobContext) -> Played:
        """Record that a handler has been called; return its scene."""
        world, ledger, actor = self._world, self._world.ledger, current_actor()
        assert actor is not None
        actor.check()
        life = ledger.life(ctx.id)
        life.declared = declared
        if life.plan is None and work.job >= 0:
            life.plan = world.jobs.get(work.job)
        acts = life.plan.acts if life.plan is not None else (Act(takes_s=0.2),)
        act = acts[min(len(life.runs), len(acts) - 1)]
        run = Run(
            job_id=ctx.id,
            actor=actor,
            attempt=ctx.attempt,
            max_attempts=ctx.max_attempts,
            began_at=ledger.now,
            delivery=life.latest_to(actor),
        )
        world.observer.begins(life, run)
        life.runs.append(run)
        ledger.running[run] = life
        ledger.counts[f"act:{act.how}"] += 1
        attempt = f"{ctx.attempt}/{ctx.max_attempts}"
        ledger.log("run", actor.name, declared.name, ctx.id[-6:], attempt)
        return Played(world, life, run, act, ctx)

    def begins_batch(self, ctx: BatchContext) -> None:
        """Record a call of a batch handler; what has been tried before runs alone."""
        ledger = self._world.ledger
        if len(ctx.jobs) == 1:
            return
        ledger.counts["batch"] += 1
        for job in ctx.jobs:
            if job.attempt > 1:
                ledger.fault("batched-again", f"{job.id} runs with others at its {job.attempt}.")

    def stops_batch(self, ctx: BatchContext) -> None:
        """Record that a call of a batch handler ends for the jobs in it that are to end."""
        if len({is_to_stop(job) for job in ctx.jobs}) > 1:
            self._world.ledger.counts["batch-stopped"] += 1

    def enters(self, name: str, ctx: JobContext) -> Entered:
        """Record that what is around an attempt has been entered."""
        actor = current_actor()
        assert actor is not None
        actor.check()
        entered = Entered(name, ctx.id, actor)
        self._world.ledger.entries.append(entered)
        self._world.ledger.counts[f"entered:{name}"] += 1
        return entered

    def leaves(self, entered: Entered) -> None:
        """Record that it has been left, unless its process was killed before."""
        if entered.actor.alive:
            assert not entered.left
            entered.left = True


class Played:
    """One run of a handler."""

    def __init__(self, world: World, life: Life, run: Run, act: Act, ctx: JobContext) -> None:
        self.act = act
        self._world = world
        self._life = life
        self._run = run
        self._ctx = ctx

    def ends(self, how: str) -> None:
        """Record its end, unless its process was killed before."""
        if self._run.actor.alive and self._run.ended_at is None:
            self._end("raised" if how == "cut" and self._timed_out() else how)

    def tells(self, how: str) -> None:
        """Record the end that its handler tells before its call is over."""
        self._run.told = how

    def busy(self) -> None:
        """Take the act's time, in a synchronous handler."""
        self._world.loop.busy(self.act.takes_s)

    def dies(self) -> None:
        """Kill the process that it runs in.

        Raises:
            Died: it runs in a child process.
        """
        self._world.ledger.counts["died"] += 1
        if self._life.declared is not None and self._life.declared.isolated:
            self._end("killed")
            raise Died
        self._world.fleet.kill(self._run.actor, f"by {self._run.job_id[-6:]}")

    async def submits(self) -> None:
        """Submit the job that the plan names."""
        world, plan = self._world, self._life.plan
        if plan is None or plan.child is None or (child := world.jobs.get(plan.child)) is None:
            return
        if (declared := world.app_of(self._run.actor).types.get(child.type)) is None:
            return  # an old version submits no job of a new type
        try:
            ref = await self._ctx.submit(
                declared, world.work_of(child), **world.overrides_of(child)
            )
        except SubmissionError as error:
            world.misplanned(child, error)
            return
        if self._run.actor.alive:
            world.accepted(child, ref.id, is_duplicate=ref.is_duplicate)

    def _timed_out(self) -> bool:
        """Return True if it has had its type's time, or for itself nearly all of a function's."""
        if (declared := self._life.declared) is None:
            return False
        ran_s = self._world.ledger.now - self._run.began_at
        if declared.timeout_s is not None and ran_s >= declared.timeout_s - _TIMEOUT_SLACK_S:
            return True
        given_s = self._run.actor.gives_s
        return given_s is not None and not declared.batch and ran_s >= _NEARLY_ALL * given_s

    def _end(self, how: str) -> None:
        ledger, run = self._world.ledger, self._run
        ledger.ended(run, how)
        ledger.log("ran", run.actor.name, run.job_id[-6:], how)
