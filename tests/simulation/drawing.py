"""Drawing of a plan from a seed: its features, its jobs, and its faults."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.core.topology import Priority
from tests.simulation.entropy import stream
from tests.simulation.plan import (
    Act,
    FaultPlan,
    FunctionPlan,
    How,
    JobPlan,
    Jump,
    KillPlan,
    LimitPlan,
    OperationPlan,
    PausePlan,
    Plan,
    PolicyPlan,
    QueuePlan,
    Service,
    TypePlan,
    WorkerPlan,
)

HOUR, DAY = 3_600.0, 86_400.0

_LEVELS: tuple[RecordsLevel, ...] = (
    *("outcomes",) * 6,
    *("full",) * 2,
    "failures",
    "off",
)

_ENDING_S = 5.0
"""Minimum number of seconds that a function reserves for settling its jobs."""


def draw(seed: int) -> Plan:
    """Draw the plan of a seed; the same one each time."""
    return _Drawing(stream(seed, "plan"), seed).plan()


class _Drawing:
    def __init__(self, rng: random.Random, seed: int) -> None:
        self._rng = rng
        self._seed = seed

    def plan(self) -> Plan:
        rng = self._rng
        busy_s = rng.choice((30.0, 60.0, 120.0, 240.0))
        queues = self._queues()
        functions = self._functions(queues)
        types = self._types(queues, functions)
        workers = self._workers(busy_s, queues, functions)
        records: RecordsLevel = rng.choice(_LEVELS)
        if records == "off":
            types = tuple(replace(declared, records=None) for declared in types)
        jobs = self._jobs(busy_s, queues, types, functions)
        around = stream(self._seed, "around")  # its own, so that older seeds keep their lives
        types = tuple(replace(declared, session=around.random() < 0.3) for declared in types)
        types, jobs = _own_options(stream(self._seed, "options"), queues, types, jobs)
        types = _batched(stream(self._seed, "batches"), queues, types)
        types = _bundled(stream(self._seed, "bundles"), queues, types)
        queues, types = _later(stream(self._seed, "later"), queues, types)
        types, jobs = _stopping(stream(self._seed, "stopping"), types, jobs, functions)
        functions = _windows(stream(self._seed, "windows"), queues, functions)
        queues = _long_hidden(stream(self._seed, "visibility"), queues)
        trust = stream(self._seed, "trust")
        policy = _policy(stream(self._seed, "policy"))
        plan = Plan(
            seed=self._seed,
            busy_s=busy_s,
            records=records,
            long_delays=self._may(0.85),
            keep_s=rng.choice((0.0, DAY, 7 * DAY)),
            queues=queues,
            types=types,
            limits=self._limits(queues, types),
            jobs=self._without_killers(jobs) if records == "off" else jobs,
            workers=workers,
            functions=functions,
            kills=self._kills(busy_s, workers),
            faults=self._faults(busy_s, workers),
            old_receipts_work=self._may(0.3),
            max_message_bytes=rng.choice((262_144, 2_048)),
            sweeps=self._may(0.3) or policy is not None,
            policy=policy,
            around=around.random() < 0.3,
            signed=trust.random() < 0.2,
            sealed=trust.random() < 0.15,
            pauses=_pauses(stream(self._seed, "pauses"), busy_s, queues, types),
            operations=_operations(stream(self._seed, "operations"), busy_s),
        )
        plan = _entrusted(stream(self._seed, "secrets"), plan)
        return replace(plan, workers=_jumping(stream(self._seed, "jumps"), busy_s, workers))

    @staticmethod
    def _without_killers(jobs: Sequence[JobPlan]) -> tuple[JobPlan, ...]:
        """Drop jobs that always kill: without records they can't be told from long waits."""
        return tuple(
            replace(job, acts=(*job.acts, Act())) if job.acts[-1].how is How.DIE else job
            for job in jobs
        )

    def _may(self, part: float) -> bool:
        return self._rng.random() < part

    def _some(self, values: Sequence[Any], most: int) -> list[Any]:
        return self._rng.sample(values, self._rng.randint(0, min(most, len(values))))

    # --- the app --------------------------------------------------------------------------------

    def _queues(self) -> tuple[QueuePlan, ...]:
        rng, queues = self._rng, []
        for number in range(rng.choices((1, 2, 3), (5, 4, 2))[0]):
            count = rng.choices((1, 2, 4), (6, 3, 1))[0]
            chosen = set(rng.sample(list(Priority), count))
            queues.append(
                QueuePlan(
                    name=f"q{number}",
                    priorities=tuple(each for each in Priority if each in chosen),
                    visibility_s=rng.choice((12, 30, 60)),
                    fifo=self._may(0.2),
                )
            )
        return tuple(queues)

    def _functions(self, queues: Sequence[QueuePlan]) -> tuple[FunctionPlan, ...]:
        rng = self._rng
        return tuple(
            FunctionPlan(
                queue=queue.name,
                batch=rng.choice((1, 10)),
                timeout_s=float(min(queue.visibility_s, rng.choice((8, 12, 30)))),
                concurrency=rng.choice((1, 10)),
            )
            for queue in queues
            if self._may(0.2)
        )

    def _types(
        self, queues: Sequence[QueuePlan], functions: Sequence[FunctionPlan]
    ) -> tuple[TypePlan, ...]:
        rng = self._rng
        on_lambda = {function.queue for function in functions}
        types = []
        for number in range(rng.choices((1, 2, 3, 5), (3, 5, 4, 1))[0]):
            queue = rng.choice(queues)
            base: dict[str, Any] = {
                "name": f"t{number}",
                "queue": queue.name,
                "priority": rng.choice(queue.priorities),
                "attempts": rng.choice((1, 2, 3, 5)),
                "backoff_s": rng.choice(
                    ((1.0, 2.0), (1.0, 5.0, 20.0), (0.0,), (60.0, 300.0), (13 * HOUR,), (5 * DAY,))
                    if self._may(0.3)
                    else ((1.0, 2.0),)
                ),
            }
            options: dict[str, Any] = {
                "plain": self._may(0.5),
                "once": True,
                "results": True,
                "timeout_s": rng.choice((2.0, 20.0)),
                "hook": rng.choice(("plain", "async", "raises", "cancels")),
                "schema": 2,
                "new": True,
                "keep_last": 3,
                "records": rng.choice(("full", "failures")),
                "every_min": rng.choice((1, 2)),
            }
            chosen = {name: options[name] for name in self._some(list(options), 4)}
            if self._may(0.2) and queue.name not in on_lambda:
                chosen["isolated"] = True
                chosen["plain"] = False
            if self._may(0.2):
                chosen |= {"unique_s": rng.choice((30.0, HOUR)), "replaces": self._may(0.5)}
            if chosen.get("results") and self._may(0.3):
                chosen["large_results"] = True
            types.append(TypePlan(**base, **chosen))
        types[0] = replace(types[0], new=False)  # an old app has types, too
        return tuple(types)

    def _limits(
        self, queues: Sequence[QueuePlan], types: Sequence[TypePlan]
    ) -> tuple[LimitPlan, ...]:
        rng = self._rng
        if self._may(0.4):
            return ()
        owners = ["app", *(f"queue:{q.name}" for q in queues), *(f"type:{t.name}" for t in types)]
        limits: dict[tuple[str, str], LimitPlan] = {}
        for _ in range(rng.choices((1, 2, 3), (5, 3, 1))[0]):
            kind, of = rng.choice(("rate", "concurrency", "budget", "breaker")), rng.choice(owners)
            # `choice` returns a str: one of the kinds listed just above.
            limits[kind, of] = LimitPlan(
                kind=kind,  # type: ignore[arg-type]
                of=of,
                limit=rng.choice((1, 2, 3, 5)),
                per_s=rng.choice((1.0, 10.0, 60.0)),
                fleet=self._may(0.4) and kind != "breaker",
                by_tenant=kind != "budget" and self._may(0.4),
                dead_letter=kind == "budget" and self._may(0.3),
            )
        return tuple(limits.values())

    # --- its jobs -------------------------------------------------------------------------------

    def _jobs(
        self,
        busy_s: float,
        queues: Sequence[QueuePlan],
        types: Sequence[TypePlan],
        functions: Sequence[FunctionPlan],
    ) -> tuple[JobPlan, ...]:
        rng = self._rng
        count = rng.choice((3, 8, 20, 40))
        last_s = busy_s * rng.choice((0.1, 0.8))
        by_name = {queue.name: queue for queue in queues}
        long_s = min(rng.choice((1.0, 8.0, 40.0)), _most_s(functions))
        jobs: list[JobPlan] = []
        for _ in range(count):
            jobs.append(self._job(len(jobs), rng.choice(types), by_name, last_s, long_s))
            if jobs[-1].acts[-1].how is How.SUBMIT:
                child = self._job(len(jobs), rng.choice(types), by_name, last_s, long_s, inner=True)
                jobs.append(child)
        return tuple(jobs)

    def _job(
        self,
        index: int,
        declared: TypePlan,
        queues: dict[str, QueuePlan],
        last_s: float,
        long_s: float,
        *,
        inner: bool = False,
    ) -> JobPlan:
        queue = queues[declared.queue]
        acts = self._acts(declared, long_s, inner=inner)
        return JobPlan(
            index=index,
            type=declared.name,
            at_s=self._rng.uniform(0, last_s),
            acts=acts,
            inner=inner,
            child=index + 1 if acts[-1].how is How.SUBMIT else None,
            **self._overrides(declared, queue),
        )

    def _overrides(self, declared: TypePlan, queue: QueuePlan) -> dict[str, Any]:
        """Draw the options that a submission may override, each of them only sometimes."""
        rng = self._rng
        delays = (1_200.0,) if queue.fifo else (5.0, 60.0, 1_200.0, 2 * HOUR)
        possible: dict[str, tuple[float, Any]] = {
            "group": (1.0 if queue.fifo else 0.0, rng.choice(("g1", "g2"))),
            "delay_s": (0.12, rng.choice(delays)),
            "tenant": (0.4, rng.choice(("org-1", "org-2"))),
            "pad": (0.06, 5_000),
            "key": (0.8 if declared.unique_s else 0.0, rng.choice(("k1", "k2"))),
            "attempts": (0.05, rng.choice((1, 4))),
            "priority": (0.05, rng.choice(queue.priorities)),
            "cancelled_after_s": (0.08, rng.choice((0.0, 1.0, 10.0))),
        }
        return {name: value for name, (part, value) in possible.items() if self._may(part)}

    def _acts(self, declared: TypePlan, long_s: float, *, inner: bool) -> tuple[Act, ...]:
        rng = self._rng
        acts = []
        for _ in range(rng.choices((0, 1, 2, 6), (10, 4, 2, 1))[0]):
            how = rng.choices(
                (How.FLAKY, How.ODD, How.LATER, How.UGLY, How.DIE), (6, 3, 2, 1, 0.5)
            )[0]
            after_s = rng.choice((1.0, 5.0, 60.0)) if how is How.LATER else 0.0
            acts.append(Act(how=how, takes_s=self._takes_s(long_s), after_s=after_s))
        last = rng.choices(
            (How.RETURN, How.SUBMIT, How.WRONG, How.GIVE_UP, How.DISCARD, How.FLAKY, How.DIE),
            (30, 2, 1, 1, 1, 1, 0.5),
        )[0]
        if last is How.SUBMIT and (inner or declared.plain or declared.isolated):
            last = How.RETURN
        acts.append(Act(how=last, takes_s=self._takes_s(long_s)))
        return tuple(acts)

    def _takes_s(self, long_s: float) -> float:
        return self._rng.choice((0.0, 0.05, 0.5, long_s * self._rng.random()))

    # --- its processes --------------------------------------------------------------------------

    def _workers(
        self, busy_s: float, queues: Sequence[QueuePlan], functions: Sequence[FunctionPlan]
    ) -> tuple[WorkerPlan, ...]:
        rng = self._rng
        on_lambda = {function.queue for function in functions}
        groups = tuple(queue.name for queue in queues if queue.name not in on_lambda)
        if not groups:
            return ()
        skew_s = rng.choices((0.0, 2.0, 30.0), (5, 3, 2))[0]
        workers = []
        for number in range(rng.choices((1, 2, 3), (3, 5, 2))[0]):
            leaves = number and self._may(0.4)
            workers.append(
                WorkerPlan(
                    name=f"w{number}",
                    start_s=rng.uniform(0, busy_s / 4) if number else 0.0,
                    stop_s=rng.uniform(0.2, 1) * busy_s if leaves else None,
                    concurrency=rng.choice((1, 3, 10)),
                    children=rng.choice((1, 2)),
                    skew_s=rng.uniform(-skew_s, skew_s),
                    old=bool(leaves) and self._may(0.4),
                    drain_s=rng.choice((2.0, 22.0)),
                    groups=groups,
                )
            )
        return tuple(workers)

    def _kills(self, busy_s: float, workers: Sequence[WorkerPlan]) -> tuple[KillPlan, ...]:
        rng = self._rng
        if not workers or self._may(0.5):
            return ()
        return tuple(
            KillPlan(worker=rng.choice(workers).name, at_s=rng.uniform(0, busy_s))
            for _ in range(rng.choices((1, 2, 4), (5, 3, 1))[0])
        )

    # --- its faults -----------------------------------------------------------------------------

    def _faults(self, busy_s: float, workers: Sequence[WorkerPlan]) -> tuple[FaultPlan, ...]:
        rng = self._rng
        if self._may(0.3):
            return ()
        faults = []
        for number in range(rng.choices((1, 2, 3), (5, 3, 2))[0]):
            service: Service = rng.choices(("sqs", "table", "store", "scheduler"), (8, 8, 1, 1))[0]
            mode, action = rng.choice(MODES[service])
            faults.append(
                FaultPlan(
                    name=f"f{number}",
                    service=service,
                    mode=mode,
                    start_s=rng.uniform(0, busy_s * 0.8),
                    lasts_s=rng.choice((2.0, 10.0, 40.0, busy_s)),
                    part=rng.choice((0.1, 0.5, 1.0)),
                    action=action,
                    actor=rng.choice(workers).name if workers and self._may(0.3) else None,
                )
            )
        return tuple(faults)


def _batched(
    rng: random.Random, queues: Sequence[QueuePlan], types: Sequence[TypePlan]
) -> tuple[TypePlan, ...]:
    """Draw the types whose handlers take several jobs; by randomness of its own."""
    fifo = {queue.name for queue in queues if queue.fifo}
    drawn = []
    for declared in types:
        size, is_wanted = rng.choice((2, 3, 10)), rng.random() < 0.4
        unfit = declared.isolated or declared.session or declared.queue in fifo
        drawn.append(replace(declared, batch=size if is_wanted and not unfit else 0))
    return tuple(drawn)


def _stopping(
    rng: random.Random,
    types: Sequence[TypePlan],
    jobs: Sequence[JobPlan],
    functions: Sequence[FunctionPlan],
) -> tuple[tuple[TypePlan, ...], tuple[JobPlan, ...]]:
    """Draw the batch handlers that one cancelled job ends for all, and cancel some of their jobs.

    By randomness of its own.
    """
    drawn = tuple(replace(each, stops=rng.random() < 0.5 and each.batch > 0) for each in types)
    stopping = {each.name for each in drawn if each.stops}
    long_s = min(12.0, _most_s(functions))
    cancelled = [
        _cancelled(rng, job, long_s) if job.type in stopping and rng.random() < 0.15 else job
        for job in jobs
    ]
    return drawn, tuple(cancelled)


def _most_s(functions: Sequence[FunctionPlan]) -> float:
    """Return the most seconds that a job takes: beyond its function's time, `check` refuses it."""
    return min((each.timeout_s - _ENDING_S for each in functions), default=40.0)


def _cancelled(rng: random.Random, job: JobPlan, long_s: float) -> JobPlan:
    """Return a job that first runs for so long that it is cancelled meanwhile."""
    first, *others = job.acts
    acts = (replace(first, takes_s=long_s), *others)
    return replace(job, acts=acts, cancelled_after_s=rng.choice((1.0, 3.0, 6.0)))


def _windows(
    rng: random.Random, queues: Sequence[QueuePlan], functions: Sequence[FunctionPlan]
) -> tuple[FunctionPlan, ...]:
    """Let messages gather for some functions, where their visibility is long enough."""
    visible_s = {queue.name: 0.0 if queue.fifo else queue.visibility_s for queue in queues}
    drawn = []
    for each in functions:
        window_s = min(rng.choice((0.0, 1.0, 5.0)), visible_s[each.queue] - each.timeout_s)
        drawn.append(replace(each, window_s=max(0.0, window_s)))
    return tuple(drawn)


def _long_hidden(rng: random.Random, queues: Sequence[QueuePlan]) -> tuple[QueuePlan, ...]:
    """Draw the queues whose messages stay hidden for long; by randomness of its own."""
    drawn = []
    for each in queues:
        long_s, is_long = rng.choice((300, 3 * int(HOUR))), rng.random() < 0.15
        drawn.append(replace(each, visibility_s=long_s) if is_long else each)
    return tuple(drawn)


def _later(
    rng: random.Random, queues: Sequence[QueuePlan], types: Sequence[TypePlan]
) -> tuple[tuple[QueuePlan, ...], tuple[TypePlan, ...]]:
    """Draw gathering receives, further schedules, and kinds of batches and of hooks."""
    drawn = []
    for declared in types:
        is_batch, hangs = declared.batch > 0, rng.random() < 0.3
        drawn.append(
            replace(
                declared,
                by_tenant=rng.random() < 0.3 and is_batch,
                reports=rng.random() < 0.4 and is_batch,
                also_every_min=rng.choice((1, 3)) if rng.random() < 0.1 else None,
                hook="hangs" if hangs and declared.hook == "async" else declared.hook,
            )
        )
    gathering = (
        replace(each, gather_s=rng.choice((0.2, 5.0)) if rng.random() < 0.3 else 0.0)
        for each in queues
    )
    return tuple(gathering), tuple(drawn)


def _bundled(
    rng: random.Random, queues: Sequence[QueuePlan], types: Sequence[TypePlan]
) -> tuple[TypePlan, ...]:
    """Let the jobs of some types share messages, where they may."""
    if rng.random() > 0.25:
        return tuple(types)
    fifo = {queue.name for queue in queues if queue.fifo}
    return tuple(
        replace(declared, bundle=declared.queue not in fifo and not declared.replaces)
        for declared in types
    )


def _own_options(
    rng: random.Random,
    queues: Sequence[QueuePlan],
    types: Sequence[TypePlan],
    jobs: Sequence[JobPlan],
) -> tuple[tuple[TypePlan, ...], tuple[JobPlan, ...]]:
    """Draw expiries and backoffs of jobs, and custom backoffs; by randomness of their own."""
    fifo = {queue.name for queue in queues if queue.fifo}
    short = {declared.name for declared in types if declared.queue in fifo}
    types = tuple(replace(declared, custom=rng.random() < 0.2) for declared in types)
    drawn = []
    for job in jobs:
        expires_s = rng.choice((0.5, 3.0, 20.0, 600.0))
        backoff_s = rng.choice(((0.0,), (3.0, 7.0), (45.0,), (13 * HOUR,)))
        may_wait = job.type not in short or max(backoff_s) < HOUR
        drawn.append(
            replace(
                job,
                expires_s=expires_s if rng.random() < 0.15 else None,
                backoff_s=backoff_s if rng.random() < 0.15 and may_wait else None,
            )
        )
    return types, tuple(drawn)


def _jumping(
    rng: random.Random, busy_s: float, workers: Sequence[WorkerPlan]
) -> tuple[WorkerPlan, ...]:
    """Draw the workers whose clock is set anew; by randomness of its own."""
    drawn = []
    for each in workers:
        jump = Jump(at_s=rng.uniform(0, busy_s), by_s=rng.choice((-30.0, -2.0, 2.0, 30.0, HOUR)))
        drawn.append(replace(each, jump=jump) if rng.random() < 0.08 else each)
    return tuple(drawn)


def _entrusted(rng: random.Random, plan: Plan) -> Plan:
    """Draw the secret of signed messages, its rotation, and the faults of both kinds of keys.

    By randomness of its own.
    """
    has_secret, is_rotated = rng.random() < 0.7, rng.random() < 0.5
    rotated_at_s = rng.uniform(0.1, 0.9) * plan.busy_s
    faults = [*plan.faults]
    used: dict[Service, bool] = {"secrets": plan.signed and has_secret, "keys": plan.sealed}
    for service, is_used in used.items():
        fault = _key_fault(rng, service, plan.busy_s)
        if is_used and rng.random() < 0.5:
            faults.append(fault)
    if not (plan.signed and has_secret):
        return replace(plan, faults=tuple(faults))
    return replace(
        plan,
        secret=True,
        rotated_at_s=rotated_at_s if is_rotated else None,
        faults=tuple(faults),
    )


def _key_fault(rng: random.Random, service: Service, busy_s: float) -> FaultPlan:
    mode, action = rng.choice(MODES[service])
    return FaultPlan(
        name=service,
        service=service,
        mode=mode,
        start_s=rng.choice((0.0, rng.uniform(0, busy_s * 0.8))),
        lasts_s=rng.choice((10.0, 40.0, busy_s)),
        part=rng.choice((0.5, 1.0)),
        action=action,
    )


def _policy(rng: random.Random) -> PolicyPlan | None:
    """Draw the policy of the sweeps' replays; by randomness of its own, as `_pauses`."""
    if rng.random() < 0.8:
        return None
    return PolicyPlan(max_replays=rng.choice((1, 1, 2)), after_s=rng.choice((300.0, HOUR)))


def _pauses(
    rng: random.Random, busy_s: float, queues: Sequence[QueuePlan], types: Sequence[TypePlan]
) -> tuple[PausePlan, ...]:
    """Draw pauses; by randomness of their own, so that older seeds keep the rest of their lives."""
    if rng.random() < 0.6:
        return ()
    pauses = []
    for _ in range(rng.choices((1, 2, 4), (5, 3, 1))[0]):
        queue = rng.choice(queues)
        kind, name = rng.choice(
            (
                ("queue", queue.name),
                ("type", rng.choice(types).name),
                ("tenant", rng.choice(("org-1", "org-2"))),
            )
        )
        only = rng.choice(queue.priorities) if kind == "queue" and rng.random() < 0.4 else None
        pauses.append(
            PausePlan(
                kind=kind,  # type: ignore[arg-type]  # `choice` returns a str
                name=name,
                at_s=rng.uniform(0, busy_s * 0.6),
                lasts_s=rng.choice((5.0, 20.0, 60.0, busy_s)),
                ends=rng.random() < 0.4,
                priority=only,
            )
        )
    targets = {(each.kind, each.name, each.priority): each for each in pauses}
    return tuple(targets.values())  # each target once, so that no pause replaces another


def _operations(rng: random.Random, busy_s: float) -> tuple[OperationPlan, ...]:
    """Draw what operators do with dead letters; by randomness of their own, as `_pauses`."""
    if rng.random() < 0.65:
        return ()
    return tuple(
        OperationPlan(
            kind="purge" if rng.random() < 0.25 else "replay",
            at_s=rng.uniform(0.2, 1.0) * busy_s,
            killed_after_s=rng.uniform(0.0, 2.0) if rng.random() < 0.5 else None,
            spread_s=rng.choice((0.0, 0.0, 20.0)),
            canary=rng.choice((None, None, 2)),
            skew_s=rng.choice((0.0, 0.0, -2.0, 2.0)),
        )
        for _ in range(rng.choices((1, 2, 3), (5, 3, 2))[0])
    )


MODES: dict[str, tuple[tuple[str, str | None], ...]] = {
    "sqs": (
        ("refuse", None),
        ("throttle", None),
        ("lose", None),
        ("lose", "delete"),
        ("lose", "send"),
        ("lose", "receive"),
        ("lose", "change_visibility"),
        ("late", None),
        ("late-answer", None),
        ("partial", "send"),
        ("partial", "delete"),
        ("partial", "change_visibility"),
        ("gone", None),
        ("hang", None),
        ("duplicate", "receive"),
        ("undelete", "delete"),
    ),
    "table": (
        ("refuse", None),
        ("throttle", None),
        ("lose", None),
        ("lose", "replace"),
        ("lose", "put"),
        ("late", None),
        ("late-answer", None),
        ("unprocessed", "put"),
        ("gone", None),
        ("hang", None),
        ("refuse-item", "put"),
    ),
    "store": (("refuse", None), ("gone", None), ("late", None)),
    "scheduler": (("refuse", None), ("late", None), ("lose", "create")),
    "secrets": (("refuse", None), ("throttle", None), ("late", None), ("hang", None)),
    "keys": (
        ("refuse", None),
        ("refuse", "generate"),
        ("refuse", "unwrap"),
        ("throttle", None),
        ("late", None),
        ("hang", None),
    ),
}
"""For each service, the ways in which its calls fail, and the action affected (None: any)."""
