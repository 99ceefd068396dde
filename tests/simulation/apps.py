"""A plan's app: queues, types and limits as a user would declare them, with scripted handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Literal, Protocol

from pydantic import BaseModel

from headgate import (
    App,
    Backoff,
    BackoffContext,
    Batch,
    BatchContext,
    Discard,
    DoNotRetry,
    Encryption,
    JobContext,
    Replay,
    Retry,
    RetryLater,
    Signing,
    Unique,
)
from headgate.jobs.core.events import Event
from headgate.jobs.core.limits import Breaker, Concurrency, LimitOptions, RateLimit, RetryBudget
from headgate.jobs.core.retention import Keep
from headgate.jobs.core.topology import DEFAULT_LANES, Lane, Priority
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.queue import Queue
from headgate.jobs.definitions.schedules.schedule import Schedule
from tests.simulation import surroundings
from tests.simulation.actors import current_actor
from tests.simulation.plan import Act, How, LimitPlan, Plan, PolicyPlan, QueuePlan, TypePlan
from tests.simulation.surroundings import Session

LARGE = 320_000
"""Number of characters of a result too large for any record."""

NAME = "sim"

_COMPANY_S = 1.5
"""Seconds for which the first job of a batch waits for others."""

_KEYS = ("the newer key, of thirty-two bytes or more", "the older key, of thirty-two bytes or more")

_HANGS_S = 3_600.0
"""Seconds that a hook hangs."""

_HEEDS_S = 0.05
"""Seconds within which a batch handler notices that one of its jobs is cancelled."""


class Work(BaseModel):
    """The payload of every job."""

    job: int = -1
    """The index in the plan; a schedule's jobs have none."""
    pad: str = ""


class Flaky(ConnectionError):
    """An error that a retry may cure."""


class Odd(Exception):
    """An error of an unknown kind."""


class Wrong(ValueError):
    """An error that no retry cures."""


class Stage(surroundings.Entries, Protocol):
    """The stage on which handlers play their acts, and what is around them is entered."""

    def begins(self, declared: TypePlan, work: Work, ctx: JobContext) -> Scene: ...

    def begins_batch(self, ctx: BatchContext) -> None: ...

    def stops_batch(self, ctx: BatchContext) -> None: ...


class Scene(Protocol):
    """One run of a handler."""

    act: Act

    def ends(self, how: str) -> None: ...

    def tells(self, how: str) -> None: ...

    def busy(self) -> None: ...

    def dies(self) -> None: ...

    async def submits(self) -> None: ...


def build(plan: Plan, stage: Stage | None, *, old: bool = False) -> App:
    """Return the app.

    Args:
        plan: the plan to declare.
        stage: plays the handlers; None for an app without handlers, as a submitter's.
        old: leave out new types and later schema versions.
    """
    app = App(
        NAME,
        stage="",
        records=plan.records,
        keep=Keep(timedelta(seconds=plan.keep_s)),
        long_delays=plan.long_delays,
        max_message_bytes=plan.max_message_bytes,
        replay=_replay(plan.policy),
        signing=_signing(plan, old=old),
        encryption=Encryption() if plan.sealed else None,
        **_limits(plan, "app"),
    )
    if stage is not None:
        surroundings.declare(app, stage, around=plan.around)
    queues = {each.name: _queue(app, plan, each) for each in plan.queues}
    for declared in plan.types:
        if not (old and declared.new):
            _declare(plan, queues[declared.queue], declared, stage, old=old)
    return app


def _signing(plan: Plan, *, old: bool) -> Signing | None:
    if not plan.signed:
        return None
    if plan.secret:
        return Signing()
    return Signing(keys=_KEYS[::-1] if old else _KEYS)


def _queue(app: App, plan: Plan, queue: QueuePlan) -> Queue:
    lanes = {
        priority: Lane(
            visibility=timedelta(seconds=queue.visibility_s),
            start_within=DEFAULT_LANES[priority].start_within,
            share=DEFAULT_LANES[priority].share,
            gather=_gather(queue, priority),
        )
        for priority in queue.priorities
    }
    return app.queue(
        queue.name,
        priorities=queue.priorities,
        lanes=lanes,
        fifo=queue.fifo,
        **_limits(plan, f"queue:{queue.name}"),
    )


def _gather(queue: QueuePlan, priority: Priority) -> float | None:
    """Return the seconds for which a lane's messages gather, at most as many as it may."""
    if queue.fifo:
        return None
    start_s = DEFAULT_LANES[priority].start_within.total_seconds()
    return min(queue.gather_s, start_s, queue.visibility_s / 10)


def _declare(
    plan: Plan, queue: Queue, declared: TypePlan, stage: Stage | None, *, old: bool
) -> JobType[Work, Any]:
    options: dict[str, Any] = {
        "priority": declared.priority,
        "retry": Retry(max_attempts=declared.attempts, backoff=_backoff(declared)),
        "once": declared.once,
        "bundle": declared.bundle,
        "isolation": "process" if declared.isolated else "worker",
        **_limits(plan, f"type:{declared.name}"),
    }
    if declared.batch:
        group_by: Literal["tenant"] | None = "tenant" if declared.by_tenant else None
        options["batch"] = Batch(declared.batch, wait=_COMPANY_S, group_by=group_by)
    bound_s = declared.timeout_s
    options["timeout"] = None if bound_s is None else timedelta(seconds=bound_s)
    if declared.records is not None:
        options["records"] = declared.records
    if declared.keep_last is not None:
        options["keep"] = Keep(last=declared.keep_last)
    if declared.unique_s:
        options["unique"] = uniqueness_of(declared)
    if declared.schema > 1 and not old:
        options |= {"schema": declared.schema, "upgrade": {1: _as_it_is}}
    if declared.every_min is not None:
        options["schedule"] = Schedule.rate(timedelta(minutes=declared.every_min))
    made: JobType[Work, Any] = queue.define(declared.name, Work, returns=dict, **options)
    if declared.also_every_min is not None:
        also = Schedule.rate(timedelta(minutes=declared.also_every_min))
        made.add_schedule("also", Work(pad="also"), schedule=also)
    if stage is not None:
        handler = _batch_handler if declared.batch else _handler
        made.handler(handler(declared, stage))
        if declared.hook is not None:
            made.on_complete(_HOOKS[declared.hook])
            made.on_failed(_HOOKS[declared.hook])
    return made


def uniqueness_of(declared: TypePlan, key: str | None = None) -> Unique:
    """Return the uniqueness of a type's jobs, with the key of a single submission."""
    within = timedelta(seconds=declared.unique_s)
    return Unique(within=within, key=key, keep="last" if declared.replaces else "first")


def _as_it_is(value: Any) -> Any:
    return value


def _backoff(declared: TypePlan) -> Backoff:
    if declared.custom:
        return Backoff.custom(partial(_answer, declared))
    return Backoff.steps(*declared.backoff_s)


def _answer(declared: TypePlan, failed: BackoffContext) -> float:
    """Return the delay of a custom backoff, or none of every third job."""
    work: Work | None = failed.payload  # not read if the job crashed, and its payload is large
    if work is not None and answers_badly(declared, work.job):
        return float("nan") if failed.error is None else -1.0
    return declared.backoff_s[min(failed.attempt, len(declared.backoff_s)) - 1]


def answers_badly(declared: TypePlan, job: int) -> bool:
    """Return True if the backoff of a job, by its index, has no valid answer."""
    return declared.custom and job >= 0 and job % 3 == 2


def _replay(policy: PolicyPlan | None) -> Replay | None:
    if policy is None:
        return None
    return Replay(max_replays=policy.max_replays, after=policy.after_s)


def _limits(plan: Plan, owner: str) -> LimitOptions:
    options: LimitOptions = {}
    for limit in plan.limits_of(owner):
        per = timedelta(seconds=limit.per_s)
        scope: Literal["fleet", "worker"] = "fleet" if limit.fleet else "worker"
        key: Literal["tenant"] | None = "tenant" if limit.by_tenant else None
        match limit.kind:
            case "rate":
                cost = partial(_cost, limit) if limit.has_cost else 1
                options["rate_limit"] = RateLimit(
                    limit.limit, per=per, key=key, cost=cost, scope=scope
                )
            case "concurrency":
                options["concurrency"] = Concurrency(limit.limit, key=key, scope=scope)
            case "budget":
                options["retry_budget"] = RetryBudget(
                    limit.limit,
                    per=per,
                    scope=scope,
                    on_exhausted="dead-letter" if limit.dead_letter else "wait",
                )
            case "breaker":
                options["breaker"] = Breaker(
                    0.5, min_runs=limit.limit, open_for=per, probes=1, key=key
                )
    return options


def _cost(limit: LimitPlan, work: Work) -> int:
    return limit.cost_of(work.job)


# --- handlers ------------------------------------------------------------------------------------


def _handler(declared: TypePlan, stage: Stage) -> Callable[..., Any]:
    handler = _bare_handler(declared, stage)
    return _with_session(handler, plain=declared.plain) if declared.session else handler


def _with_session(handler: Callable[..., Any], *, plain: bool) -> Callable[..., Any]:
    """Return a handler that wants a session of its attempt, which is open while it runs."""
    if plain:

        def run_plainly(work: Work, ctx: JobContext, session: Session) -> Any:
            assert session.is_open
            return handler(work, ctx)

        return run_plainly

    async def run(work: Work, ctx: JobContext, session: Session) -> Any:
        assert session.is_open
        return await handler(work, ctx)

    return run


def _bare_handler(declared: TypePlan, stage: Stage) -> Callable[..., Any]:
    if declared.plain:

        def run_plainly(work: Work, ctx: JobContext) -> dict[str, Any]:
            return _play_plainly(declared, stage.begins(declared, work, ctx), work)

        return run_plainly

    async def run(work: Work, ctx: JobContext) -> dict[str, Any]:
        return await _play(declared, stage.begins(declared, work, ctx), work)

    return run


class _HeldScene:
    """A scene within a batch, whose end counts once the call has ended."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._how = ""
        self.is_told = False
        """True once the handler has told its end, which counts however the call ends."""
        self.act = scene.act
        self.busy, self.dies, self.submits = scene.busy, scene.dies, scene.submits

    def ends(self, how: str) -> None:
        """Record its end, or remember it: what is cut has left the call."""
        if how == "cut":
            self._scene.ends(how)
        else:
            self._how = how

    def tells(self, how: str) -> None:
        """Record the end that is told, which counts however the call ends."""
        self.is_told = True
        self._scene.tells(how)

    def settle(self, *, cut: bool) -> None:
        """Record the end that it remembers; in a call that is cut it has come to nothing."""
        if self._how:
            self._scene.ends("cut" if cut and not self.is_told else self._how)


def _batch_handler(declared: TypePlan, stage: Stage) -> Callable[..., Any]:
    """Return a handler that plays the acts of its jobs, side by side if it is no plain one."""
    if declared.plain:
        return _plain_batch_handler(declared, stage)
    play = _play_and_tell if declared.reports else _play_in_batch

    async def run(works: list[Work], ctx: BatchContext) -> list[Any] | None:
        stage.begins_batch(ctx)
        pairs = zip(works, ctx.jobs, strict=True)
        scenes = [_HeldScene(stage.begins(declared, work, job)) for work, job in pairs]
        plays = [
            asyncio.create_task(play(declared, scene, work, ctx, job))
            for scene, work, job in zip(scenes, works, ctx.jobs, strict=True)
        ]
        playing = asyncio.gather(*plays, return_exceptions=True)
        heeds = _stop_with_one(stage, ctx) if declared.stops else _cut_cancelled(plays, ctx)
        heeding = asyncio.create_task(heeds)
        is_cut = True
        try:
            results: list[Any] = await _unless_stopped(playing, heeding)
            is_cut = False
            return None if declared.reports else results
        finally:
            heeding.cancel()
            for scene in scenes:
                scene.settle(cut=is_cut)

    return run


def _plain_batch_handler(
    declared: TypePlan, stage: Stage
) -> Callable[[list[Work], BatchContext], list[Any] | None]:
    """Return a handler that plays the acts of its jobs one after the other, but for cancelled ones.

    An error is its own job's.
    """

    def run(works: list[Work], ctx: BatchContext) -> list[Any] | None:
        stage.begins_batch(ctx)
        pairs = zip(works, ctx.jobs, strict=True)
        scenes = [_HeldScene(stage.begins(declared, work, job)) for work, job in pairs]
        results: list[Any] = []
        for scene, work, job in zip(scenes, works, ctx.jobs, strict=True):
            if job.cancelled:
                if declared.stops:
                    _cut(scenes)
                    stage.stops_batch(ctx)
                    job.raise_if_cancelled()
                scene.ends("cut")
                results.append(None)
                continue
            try:
                results.append(_play_plainly(declared, scene, work))
            except Exception as error:  # noqa: BLE001 - the scene's own
                results.append(error)
            if declared.reports:
                _tell(scene, ctx, job, results[-1])
        for scene in scenes:
            scene.settle(cut=False)
        return None if declared.reports else results

    return run


async def _play_in_batch(
    declared: TypePlan, scene: _HeldScene, work: Work, _ctx: BatchContext, _job: JobContext
) -> Any:
    return await _play(declared, scene, work)


async def _play_and_tell(
    declared: TypePlan, scene: _HeldScene, work: Work, ctx: BatchContext, job: JobContext
) -> None:
    try:
        result: Any = await _play(declared, scene, work)
    except Exception as error:  # noqa: BLE001 - the scene's own
        result = error
    _tell(scene, ctx, job, result)


def _tell(scene: _HeldScene, ctx: BatchContext, job: JobContext, result: Any) -> None:
    """Tell the end of one job of a batch."""
    if isinstance(result, Exception):
        ctx.fail(job, result)
        scene.tells(_how_of(result))
    else:
        ctx.complete(job, result)
        scene.tells("returned")


def _cut(scenes: Iterable[_HeldScene]) -> None:
    """Record the end of all jobs of a call that ends early."""
    for scene in scenes:
        scene.settle(cut=True)
        scene.ends("cut")


async def _unless_stopped(playing: asyncio.Future[list[Any]], heeding: asyncio.Task[None]) -> Any:
    """Return the results of the acts, unless they are stopped before; end them then.

    Raises:
        Stopped: one of the jobs is to end, and all do with it.
    """
    try:
        either: list[asyncio.Future[Any]] = [playing, heeding]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            heeding.result()
        return await playing
    except BaseException:
        if not playing.done():
            playing.cancel()
            await asyncio.wait([playing])
            playing.exception()
        raise


async def _stop_with_one(stage: Stage, ctx: BatchContext) -> None:
    """Raise what ends a call as soon as one of its jobs is to end."""
    actor = current_actor()
    while actor is not None and actor.alive:
        await asyncio.sleep(_HEEDS_S)
        for job in ctx.jobs:
            if job.cancelled:
                stage.stops_batch(ctx)
                job.raise_if_cancelled()


async def _cut_cancelled(plays: Sequence[asyncio.Task[Any]], ctx: BatchContext) -> None:
    """End the acts of jobs that have left their batch."""
    actor = current_actor()
    while actor is not None and actor.alive:
        await asyncio.sleep(_HEEDS_S)
        for play, job in zip(plays, ctx.jobs, strict=True):
            if job.cancelled and not play.done():
                play.cancel()


async def _play(declared: TypePlan, scene: Scene, work: Work) -> dict[str, Any]:
    act = scene.act
    try:
        await asyncio.sleep(act.takes_s)
        if act.how is How.DIE:
            scene.dies()
            await asyncio.Event().wait()
        if act.how is How.SUBMIT:
            await scene.submits()
        result = _ending(declared, act, work)
    except asyncio.CancelledError:
        scene.ends("cut")
        raise
    except BaseException as error:
        scene.ends(_how_of(error))
        raise
    scene.ends("returned")
    return result


def _play_plainly(declared: TypePlan, scene: Scene, work: Work) -> dict[str, Any]:
    scene.busy()
    if scene.act.how is How.DIE:
        scene.dies()
    try:
        result = _ending(declared, scene.act, work)
    except BaseException as error:
        scene.ends(_how_of(error))
        raise
    scene.ends("returned")
    return result


def _how_of(error: BaseException) -> str:
    match error:
        case RetryLater():
            return "deferred"
        case Discard():
            return "discarded"
        case _:
            return "raised"


def _ending(declared: TypePlan, act: Act, work: Work) -> dict[str, Any]:
    match act.how:
        case How.FLAKY:
            raise Flaky("try again")
        case How.ODD:
            raise Odd("nobody knows")
        case How.WRONG:
            raise Wrong("it never works")
        case How.UGLY:
            raise Flaky("\ud800" + "x" * 500_000)
        case How.GIVE_UP:
            raise DoNotRetry("there is no point")
        case How.DISCARD:
            raise Discard("not needed")
        case How.LATER:
            raise RetryLater(timedelta(seconds=max(1.0, act.after_s)), "not yet")
        case _:
            return _result(declared, work)


def _result(declared: TypePlan, work: Work) -> dict[str, Any]:
    if not declared.results:
        return {}
    return {"job": work.job, "pad": "x" * LARGE if declared.large_results else ""}


# --- hooks ---------------------------------------------------------------------------------------


def _plain(_event: Event) -> None:
    """A hook that does nothing."""


async def _async(_event: Event) -> None:
    await asyncio.sleep(0.01)


async def _raises(_event: Event) -> None:
    raise Odd("a hook that fails")


async def _cancels(_event: Event) -> None:
    raise asyncio.CancelledError


async def _hangs(_event: Event) -> None:
    await asyncio.sleep(_HANGS_S)


_HOOKS: dict[str, Callable[[Any], Awaitable[None] | None]] = {
    "plain": _plain,
    "async": _async,
    "raises": _raises,
    "cancels": _cancels,
    "hangs": _hangs,
}
