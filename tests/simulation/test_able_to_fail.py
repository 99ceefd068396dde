"""Proof that the judge detects faults: each break of the code is exposed by a small life."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from unittest import mock

import pytest

from headgate import Backoff
from headgate.jobs.core.topology import Priority
from headgate.jobs.dead_letters import purging
from headgate.jobs.dead_letters.policy_replay import PolicyReplay
from headgate.jobs.dead_letters.replaying.sending import Dispatcher
from headgate.jobs.errors import SignatureInvalid
from headgate.jobs.execution import run as runs
from headgate.jobs.execution.calling import surroundings
from headgate.jobs.execution.calling.claims import Claim
from headgate.jobs.execution.outcome import Failed
from headgate.jobs.execution.recording.recall import Recall
from headgate.jobs.execution.recording.recorder import Recorder
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling import verdict as verdicts
from headgate.jobs.execution.settling.actions import Ack
from headgate.jobs.execution.settling.settlement import settle
from headgate.jobs.execution.settling.settler import Settler
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.messages.job_options import StepsBackoff
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.records.lives import Fate
from headgate.jobs.records.pausing.paused import Paused
from headgate.jobs.schedules import bridging
from headgate.jobs.schedules.bridging import Bridge
from headgate.lambdas.sweep.memory import SweepMemory
from headgate.lambdas.verdicts import Verdicts
from headgate.workers.dispatch.fifo_groups import Groups
from headgate.workers.held import Hold, Holdings
from headgate.workers.limits.fleet_leases import FleetLeases
from headgate.workers.limits.slots import Slots
from headgate.workers.limits.token_bucket import CostWindow, Window
from headgate.workers.receiving.heartbeat import Heartbeat
from headgate.workers.receiving.poller import Poller
from tests.simulation.plan import (
    Act,
    FaultPlan,
    FunctionPlan,
    How,
    JobPlan,
    LimitPlan,
    OperationPlan,
    PausePlan,
    Plan,
    PolicyPlan,
    QueuePlan,
    TypePlan,
    WorkerPlan,
)
from tests.simulation.runner import kind_of, of_plan
from tests.simulation.world import World

HOUR_S, DAY_S = 3_600.0, 86_400.0

WRONG = "misplanned"
_BACK_IN_TIME = {"delay": -1}


def _jobs(*acts: Act, count: int = 1, **options: Any) -> tuple[JobPlan, ...]:
    return tuple(
        JobPlan(index=index, type="t", at_s=1.0 + index / 100, acts=acts or (Act(),), **options)
        for index in range(count)
    )


_FLAKY = Act(how=How.FLAKY)
_WRONG = Act(how=How.WRONG)
_QUEUE = QueuePlan(name="q", priorities=(Priority.CRITICAL,), visibility_s=12)
_TYPE = TypePlan(name="t", queue="q", priority=Priority.CRITICAL)

_PLAN = Plan(
    seed=1,
    busy_s=30.0,
    records="outcomes",
    long_delays=True,
    keep_s=DAY_S,
    queues=(_QUEUE,),
    types=(_TYPE,),
    limits=(),
    jobs=_jobs(),
    workers=(WorkerPlan(name="w0", groups=("q",)),),
    functions=(),
    kills=(),
    faults=(),
)
"""One job, and one worker that runs it; without faults."""


def _nothing_of(*_given: object) -> None:
    """Find no reason."""


def _a_second(_self: object) -> Backoff:
    return Backoff.fixed(1)


def _all_of_them(*_given: object) -> bool:
    return True


_LOST = FaultPlan(name="f", service="sqs", mode="lose", start_s=0.0, lasts_s=5.0, action="receive")


_LEFT_BEHIND = replace(
    _PLAN,
    queues=(replace(_QUEUE, visibility_s=30, fifo=True),),
    types=(replace(_TYPE, plain=True),),
    jobs=_jobs(Act(takes_s=10.0), Act(), count=2, group="g"),
    workers=(),
    functions=(FunctionPlan(queue="q", batch=10, timeout_s=8.0),),
)
"""A function whose time is up before its synchronous handler's, whose group has another job."""


_OPERATED = replace(
    _PLAN,
    jobs=_jobs(Act(how=How.GIVE_UP), Act()),
    operations=(OperationPlan(kind="replay", at_s=10.0),),
)
"""A job that dies, and completes once it is replayed."""


def _limited(kind: Any, *, fleet: bool = False, limit: int = 1) -> Plan:
    declared = LimitPlan(kind=kind, of="app", limit=limit, per_s=10.0, fleet=fleet)
    return replace(_PLAN, limits=(declared,), jobs=_jobs(Act(takes_s=1.0), count=3))


def _once(_given: Any) -> str:
    return "once"


async def _delete_first(self: Settler[Any], hold: Hold, verdict: Verdict, *_given: Any) -> Any:
    return await self._left(hold, verdict)


async def _nothing(*_given: Any) -> None:
    """Do nothing in place of the real method."""


def _forget(*_given: Any, **_named: Any) -> None:
    """Do nothing in place of the real function."""


async def _shown_at_once(self: Verdicts, run: Run, verdict: Verdict) -> bool:
    return await self._settler.settle(run, verdict) == "gone"


async def _agreed(*_given: Any) -> bool:
    return True


def _refused(*_given: Any) -> None:
    raise SignatureInvalid("it is not valid")


def _acknowledged(outcome: Any, *facts: Any) -> Any:
    return Ack() if isinstance(outcome, Failed) else settle(outcome, *facts)


def _always_first(self: Groups, hold: Hold) -> bool:
    _take(self, hold)
    return True


async def _believed(self: Heartbeat, holds: Sequence[Hold], asked_at: float) -> None:
    if _is_late():
        await _extend(self, holds, asked_at)
    for hold in holds:
        hold.extended_at = self._clock.monotonic()


async def _unsent(_self: Dispatcher, remade: Sequence[Any], mark: Any) -> list[Any]:
    await mark(remade)
    return [(each, None) for each in remade]


async def _sent_twice(self: Dispatcher, batch: Sequence[Any]) -> Any:
    await _send(self, batch)
    return await _send(self, batch)


def _claim_late(self: Poller, *given: Any, **named: Any) -> Any:
    return _claim(self, *given, **named) if _is_late() else None


def _is_late() -> bool:
    """Return True once it has been broken for long enough: a life has to end."""
    return asyncio.get_running_loop().time() > 20


class _NeverLeft(AsyncExitStack):
    """Leaves nothing, and keeps it from the garbage collector, which would leave it."""

    kept: ClassVar[list[AsyncExitStack]] = []

    async def __aexit__(self, *_raised: object) -> bool:
        self.kept.append(self)
        return False


_take, _claim, _extend = Groups.take, Poller._claim, Heartbeat._extend
_send = Dispatcher._send_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """One break of the code."""

    owner: Any
    name: str
    by: Any
    """The replacement of the attribute of that name."""
    plan: Plan
    """A life that exposes it."""
    kind: str
    """The kind of violation."""


BREAKS: dict[str, Break] = {
    "a dead letter is told to nobody": Break(
        owner=Settler,
        name="_tell",
        by=_forget,
        plan=replace(_PLAN, jobs=_jobs(_WRONG)),
        kind="untold",
    ),
    "a function shows at once what its thread still runs": Break(
        owner=Verdicts,
        name="settle",
        by=_shown_at_once,
        plan=_LEFT_BEHIND,
        kind="group-order",
    ),
    "a dead letter is never sent": Break(
        owner=Settler,
        name="_park",
        by=_delete_first,
        plan=replace(_PLAN, jobs=_jobs(_WRONG)),
        kind="deleted-early",
    ),
    "a failure is acknowledged": Break(
        owner=verdicts,
        name="settle",
        by=_acknowledged,
        plan=replace(_PLAN, jobs=_jobs(_FLAKY, Act())),
        kind="deleted-early",
    ),
    "the bridge claims the job": Break(
        owner=bridging,
        name="place_of",
        by=_once,
        plan=replace(
            _PLAN,
            types=(replace(_TYPE, backoff_s=(13 * HOUR_S,)),),
            jobs=_jobs(_FLAKY, Act(), delay_s=1_200.0),
        ),
        kind="lost",
    ),
    "the bridge sends nothing": Break(
        owner=Bridge,
        name="submit",
        by=_forget,
        plan=replace(_PLAN, jobs=_jobs(delay_s=1_200.0)),
        kind="lost",
    ),
    "a job that was replaced is run": Break(
        owner=runs,
        name="replaced_by",
        by=_nothing,
        plan=replace(
            _PLAN,
            types=(replace(_TYPE, unique_s=HOUR_S, replaces=True),),
            jobs=_jobs(count=2, key="k1", delay_s=60.0),
        ),
        kind="replaced-ran",
    ),
    "a group starts together": Break(
        owner=Groups,
        name="take",
        by=_always_first,
        plan=replace(
            _PLAN,
            queues=(replace(_QUEUE, fifo=True),),
            jobs=_jobs(Act(takes_s=1.0), count=3, group="g1"),
        ),
        kind="group-order",
    ),
    "the heartbeat extends nothing": Break(
        owner=Heartbeat,
        name="_extend",
        by=_believed,
        plan=replace(_PLAN, jobs=_jobs(Act(takes_s=20.0))),
        kind="lapsed",
    ),
    "slots are without limit": Break(
        owner=Slots, name="start", by=_forget, plan=_limited("concurrency"), kind="concurrency"
    ),
    "a rate counts nothing": Break(
        owner=Window, name="start", by=_forget, plan=_limited("rate"), kind="rate-limit"
    ),
    "a rate counts no costs": Break(
        owner=CostWindow,
        name="start",
        by=_forget,
        plan=_limited("rate", limit=3),
        kind="rate-limit",
    ),
    "leases are kept": Break(
        owner=FleetLeases,
        name="close",
        by=_nothing,
        plan=_limited("concurrency", fleet=True),
        kind="lease-left",
    ),
    "a death is not recorded": Break(
        owner=Recorder,
        name="parked",
        by=_forget,
        plan=replace(_PLAN, jobs=_jobs(_WRONG)),
        kind="untrue-record",
    ),
    "a failure is not recorded": Break(
        owner=Recorder,
        name="explain",
        by=_nothing,
        plan=replace(_PLAN, jobs=_jobs(_FLAKY, Act())),
        kind="untrue-record",
    ),
    "a finished job is not recorded, and not deleted": Break(
        owner=Recorder,
        name="_ended",
        by=_nothing,
        plan=replace(
            _PLAN,
            busy_s=120.0,
            records="failures",
            workers=(),
            functions=(FunctionPlan(queue="q", timeout_s=8.0),),
            faults=(replace(_LOST, mode="undelete", lasts_s=100.0, action="delete"),),
        ),
        kind="blamed",
    ),
    "whoever left no trace has died": Break(
        owner=Recall,
        name="_fate_of_the_first",
        by=lambda *_given, **_named: Fate.DIED,
        plan=replace(_PLAN, faults=(_LOST,)),
        kind="blamed",
    ),
    "holds are never dropped": Break(
        owner=Holdings, name="drop", by=_forget, plan=_PLAN, kind="left-behind"
    ),
    "nothing is received for a while": Break(
        owner=Poller, name="_claim", by=_claim_late, plan=_PLAN, kind="critical-waits"
    ),
    "sweeps remember nothing": Break(
        owner=SweepMemory,
        name="remember",
        by=_forget,
        plan=replace(_PLAN, busy_s=120.0, sweeps=True, jobs=_jobs(_WRONG)),
        kind="sweep-counts",
    ),
    "what is around an attempt is never left": Break(
        owner=surroundings,
        name="AsyncExitStack",
        by=_NeverLeft,
        plan=replace(_PLAN, types=(replace(_TYPE, session=True),), around=True),
        kind="never-left",
    ),
    "a payload fits no type": Break(
        owner=World, name="work_of", by=lambda *_given: {"job": "first"}, plan=_PLAN, kind=WRONG
    ),
    "an option is impossible": Break(
        owner=World, name="overrides_of", by=lambda *_given: _BACK_IN_TIME, plan=_PLAN, kind=WRONG
    ),
    "an option of a handler's submission is impossible": Break(
        owner=World,
        name="overrides_of",
        by=lambda _self, job: _BACK_IN_TIME if job.inner else {},
        plan=replace(
            _PLAN,
            jobs=(
                *_jobs(Act(how=How.SUBMIT), child=1),
                JobPlan(index=1, type="t", at_s=0.0, inner=True),
            ),
        ),
        kind=WRONG,
    ),
    "a paused job starts": Break(
        owner=Paused,
        name="of",
        by=lambda *_given: None,
        plan=replace(
            _PLAN,
            busy_s=60.0,
            jobs=(JobPlan(index=0, type="t", at_s=25.0, tenant="org-1"),),
            pauses=(PausePlan(kind="tenant", name="org-1", at_s=5.0, lasts_s=40.0),),
        ),
        kind="started-paused",
    ),
    "a replay deletes what it has not sent": Break(
        owner=Dispatcher, name="send", by=_unsent, plan=_OPERATED, kind="letter-lost"
    ),
    "a replay sends everything twice": Break(
        owner=Dispatcher, name="_send_batch", by=_sent_twice, plan=_OPERATED, kind="replayed-twice"
    ),
    "a purge keeps no copy": Break(
        owner=purging,
        name="save_copy",
        by=_nothing,
        plan=replace(_OPERATED, operations=(OperationPlan(kind="purge", at_s=10.0),)),
        kind="letter-lost",
    ),
    "no job ever expires": Break(
        owner=runs,
        name="expired",
        by=_nothing_of,
        plan=replace(
            _PLAN,
            jobs=_jobs(expires_s=3.0),
            workers=(WorkerPlan(name="w0", start_s=15.0, groups=("q",)),),
        ),
        kind="ran-expired",
    ),
    "a job's own backoff is ignored": Break(
        owner=StepsBackoff,
        name="backoff",
        by=_a_second,
        plan=replace(_PLAN, jobs=_jobs(_FLAKY, Act(), backoff_s=(7.0,))),
        kind="backoff",
    ),
    "sweeps replay whatever is dead": Break(
        owner=PolicyReplay,
        name="selects",
        by=_all_of_them,
        plan=replace(_PLAN, busy_s=120.0, sweeps=True, policy=PolicyPlan(), jobs=_jobs(_WRONG)),
        kind="policy-wrong",
    ),
    "no signature is valid": Break(
        owner=Keyring,
        name="check",
        by=_refused,
        plan=replace(_PLAN, signed=True, secret=True),
        kind="false-reason",
    ),
    "a claim is never finished": Break(
        owner=Claim,
        name="finish",
        by=_agreed,
        plan=replace(_PLAN, types=(replace(_TYPE, once=True),)),
        kind="claim-left",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_fault_is_noticed_and_without_it_nothing_is(name: str) -> None:
    broken = BREAKS[name]
    assert of_plan(broken.plan).violations == ()
    with mock.patch.object(broken.owner, broken.name, broken.by):
        found = of_plan(broken.plan).violations
    assert broken.kind in set(map(kind_of, found)), found
