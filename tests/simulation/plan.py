"""The plan of a simulated life, as values: the whole life follows from its plan and its seed.

A plan lists all faults and all jobs. It can be made smaller part by part (`Plan.parts`,
`Plan.without`), which is how a failing life is shrunk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, TypeVar

from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.core.topology import Priority


class How(StrEnum):
    """The end of one run of a handler."""

    RETURN = "return"
    FLAKY = "flaky"
    """An error that a retry may cure."""
    ODD = "odd"
    """An error of an unknown kind."""
    WRONG = "wrong"
    """An error that no retry cures."""
    GIVE_UP = "give-up"
    DISCARD = "discard"
    LATER = "later"
    """`RetryLater`."""
    SUBMIT = "submit"
    """Submits another job, and returns."""
    DIE = "die"
    """Kills the process that runs it."""
    UGLY = "ugly"
    """An error whose text no table accepts: very long, with lone surrogates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One run of a handler."""

    how: How = How.RETURN
    takes_s: float = 0.1
    after_s: float = 0.0
    """Delay of `How.LATER`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """One submission."""

    index: int
    type: str
    at_s: float
    acts: tuple[Act, ...] = (Act(),)
    """Its runs in order; the last one repeats."""
    delay_s: float = 0.0
    tenant: str | None = None
    pad: int = 0
    """Bytes of ballast in its payload."""
    key: str | None = None
    """The uniqueness key: jobs of one type with equal keys are the same job."""
    group: str | None = None
    attempts: int | None = None
    priority: Priority | None = None
    cancelled_after_s: float | None = None
    child: int | None = None
    """The index of the job that it submits."""
    inner: bool = False
    """Submitted by another job's handler, not by a client."""
    expires_s: float | None = None
    """Seconds from when it is due within which it has to start."""
    backoff_s: tuple[float, ...] | None = None
    """The delays between its own attempts; None: its type's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitPlan:
    """One limit of an app, a queue or a type."""

    kind: Literal["rate", "concurrency", "budget", "breaker"]
    of: str
    """``app``, ``queue:NAME`` or ``type:NAME``."""
    limit: int
    per_s: float = 1.0
    fleet: bool = False
    by_tenant: bool = False
    dead_letter: bool = False

    @property
    def has_cost(self) -> bool:
        """True if it is a rate of which jobs take one to three tokens."""
        return self.kind == "rate" and self.limit >= 3 and self.per_s == 10.0

    def cost_of(self, job: int) -> int:
        """Return the tokens that a job takes, by its index; a schedule's jobs have -1."""
        return 1 + job % 3 if self.has_cost else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TypePlan:
    """One job type."""

    name: str
    queue: str
    priority: Priority
    attempts: int = 3
    backoff_s: tuple[float, ...] = (1.0, 2.0)
    timeout_s: float | None = None
    plain: bool = False
    isolated: bool = False
    once: bool = False
    unique_s: float = 0.0
    replaces: bool = False
    records: RecordsLevel | None = None
    keep_last: int | None = None
    results: bool = False
    large_results: bool = False
    hook: Literal["plain", "async", "raises", "cancels", "hangs"] | None = None
    schema: int = 1
    session: bool = False
    """True if its handler wants the session of an attempt."""
    every_min: int | None = None
    """Minutes between firings of its schedule; None for no schedule."""
    also_every_min: int | None = None
    """Likewise of a further schedule."""
    new: bool = False
    """True if old workers don't know it."""
    batch: int = 0
    """Number of jobs that one call of its handler takes; 0 for a handler that takes one."""
    by_tenant: bool = False
    """True if such a call takes jobs of one tenant only."""
    reports: bool = False
    """True if such a handler says how each job has ended, in place of returning it."""
    stops: bool = False
    """True if such a handler lets the `Stopped` of one cancelled job end the call of all."""
    custom: bool = False
    """True if its backoff is a function, whose answer for every third job is none."""
    bundle: bool = False
    """True if its jobs share messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlan:
    """One queue group."""

    name: str
    priorities: tuple[Priority, ...]
    visibility_s: int = 30
    fifo: bool = False
    gather_s: float = 0.0
    """Seconds for which messages gather between two receives, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """A jump of a machine's wall clock, as when its time is set anew."""

    at_s: float
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """One place of the fleet: a worker, and its successors when it is killed."""

    name: str
    start_s: float = 0.0
    stop_s: float | None = None
    """The time at which it is told to stop; None: once all else has ended."""
    concurrency: int = 10
    children: int = 2
    skew_s: float = 0.0
    jump: Jump | None = None
    old: bool = False
    drain_s: float = 22.0
    groups: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionPlan:
    """Lambda in place of workers, for one queue group."""

    queue: str
    batch: int = 10
    window_s: float = 0.0
    """Seconds for which messages are gathered for an invocation, unless a batch is full before."""
    timeout_s: float = 20.0
    concurrency: int = 10
    skew_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPlan:
    """The killing of a worker, whatever it does then."""

    worker: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PausePlan:
    """A pause of a queue, a type or a tenant, and its end."""

    kind: Literal["queue", "type", "tenant"]
    name: str
    at_s: float
    lasts_s: float
    ends: bool = False
    """True if it ends by itself; else somebody resumes what it has paused."""
    priority: Priority | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPlan:
    """One look of an operator after all dead letters."""

    kind: Literal["replay", "purge"]
    at_s: float
    killed_after_s: float | None = None
    """Seconds after which its process is killed; None: never."""
    spread_s: float = 0.0
    canary: int | None = None
    skew_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPlan:
    """The policy by which sweeps replay dead letters."""

    max_replays: int = 1
    after_s: float = 300.0


Owner = TypeVar("Owner")

Service = Literal["sqs", "table", "store", "scheduler", "secrets", "keys"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """A period in which calls of one service fail."""

    name: str
    service: Service
    mode: str
    start_s: float
    lasts_s: float
    part: float = 1.0
    """Fraction of all calls that it hits."""
    action: str | None = None
    queue: str | None = None
    actor: str | None = None
    """The actor whose calls it hits; None: everyone's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A life."""

    seed: int
    busy_s: float
    records: RecordsLevel
    long_delays: bool
    keep_s: float
    queues: tuple[QueuePlan, ...]
    types: tuple[TypePlan, ...]
    limits: tuple[LimitPlan, ...]
    jobs: tuple[JobPlan, ...]
    workers: tuple[WorkerPlan, ...]
    functions: tuple[FunctionPlan, ...]
    kills: tuple[KillPlan, ...]
    faults: tuple[FaultPlan, ...]
    pauses: tuple[PausePlan, ...] = ()
    operations: tuple[OperationPlan, ...] = ()
    old_receipts_work: bool = False
    max_message_bytes: int = 262_144
    sweeps: bool = False
    around: bool = False
    """True if its app runs code around every attempt."""
    policy: PolicyPlan | None = None
    """The policy of its sweeps' replays; None: they replay nothing."""
    signed: bool = False
    """True if its messages are signed; old workers sign by the other of two keys."""
    sealed: bool = False
    """True if payloads and results are sealed."""
    secret: bool = False
    """True if the keys that sign are read from a secret, by old workers too."""
    rotated_at_s: float | None = None
    """The time at which that secret gets another key; None: never."""
    removed: frozenset[str] = field(default=frozenset())

    @property
    def skew_s(self) -> float:
        """The greatest difference between two clocks."""
        skews = [*(each.skew_s for each in self.workers), *(f.skew_s for f in self.functions), 0.0]
        skews += [each.skew_s + each.jump.by_s for each in self.workers if each.jump is not None]
        return max(skews) - min(skews)

    def queue(self, name: str) -> QueuePlan:
        return next(queue for queue in self.queues if queue.name == name)

    def type(self, name: str) -> TypePlan:
        return next(declared for declared in self.types if declared.name == name)

    def limits_of(self, owner: str) -> list[LimitPlan]:
        """Return the limits of an app, a queue or a type."""
        return [limit for limit in self.limits if limit.of == owner]

    # --- making it smaller ----------------------------------------------------------------------

    def parts(self) -> list[str]:
        """Return the names of removable parts, the larger parts first."""
        return [
            *(f"fault:{fault.name}" for fault in self.faults),
            *(f"kill:{at}" for at, _ in enumerate(self.kills)),
            *(f"pause:{at}" for at, _ in enumerate(self.pauses)),
            *(f"operation:{at}" for at, _ in enumerate(self.operations)),
            *(f"worker:{worker.name}" for worker in self.workers),
            *(f"limit:{limit.kind}:{limit.of}" for limit in self.limits),
            *(f"type:{declared.name}" for declared in self.types),
            *(f"job:{job.index}" for job in self.jobs),
            *_options_of(self),
        ]

    def without(self, parts: Collection[str]) -> Plan:
        """Return the plan without those parts and without what depends on them."""
        gone = frozenset(parts) | self.removed
        types = tuple(
            _without_options(declared, f"type:{declared.name}", gone)
            for declared in self.types
            if f"type:{declared.name}" not in gone
        )
        left = {declared.name for declared in types}
        jobs = tuple(
            _without_options(job, f"job:{job.index}", gone)
            for job in self.jobs
            if job.type in left and f"job:{job.index}" not in gone
        )
        queues = tuple(_without_options(each, f"queue:{each.name}", gone) for each in self.queues)
        workers = tuple(
            _without_options(worker, f"worker:{worker.name}", gone)
            for worker in self.workers
            if f"worker:{worker.name}" not in gone
        )
        return _without_options(
            replace(
                self,
                queues=queues,
                types=types,
                jobs=jobs,
                workers=workers,
                kills=tuple(k for at, k in enumerate(self.kills) if f"kill:{at}" not in gone),
                pauses=tuple(
                    each
                    for at, each in enumerate(self.pauses)
                    if f"pause:{at}" not in gone and (each.kind != "type" or each.name in left)
                ),
                operations=tuple(
                    each for at, each in enumerate(self.operations) if f"operation:{at}" not in gone
                ),
                faults=tuple(each for each in self.faults if f"fault:{each.name}" not in gone),
                limits=tuple(
                    each
                    for each in self.limits
                    if f"limit:{each.kind}:{each.of}" not in gone
                    and (not each.of.startswith("type:") or each.of[5:] in left)
                ),
                removed=gone,
            ),
            "plan",
            gone,
        )


_OPTIONS: dict[type, dict[str, Any]] = {
    QueuePlan: {"gather_s": 0.0},
    TypePlan: {
        "plain": False,
        "isolated": False,
        "once": False,
        "unique_s": 0.0,
        "hook": None,
        "results": False,
        "large_results": False,
        "schema": 1,
        "every_min": None,
        "session": False,
        "new": False,
        "keep_last": None,
        "timeout_s": None,
        "records": None,
        "custom": False,
        "also_every_min": None,
        "batch": 0,
        "by_tenant": False,
        "reports": False,
        "stops": False,
        "bundle": False,
    },
    JobPlan: {
        "delay_s": 0.0,
        "pad": 0,
        "cancelled_after_s": None,
        "tenant": None,
        "key": None,
        "attempts": None,
        "priority": None,
        "child": None,
        "expires_s": None,
        "backoff_s": None,
    },
    WorkerPlan: {"skew_s": 0.0, "jump": None, "old": False, "stop_s": None, "start_s": 0.0},
    Plan: {
        "sweeps": False,
        "around": False,
        "old_receipts_work": False,
        "policy": None,
        "signed": False,
        "sealed": False,
        "rotated_at_s": None,
    },
}
"""The fields of a part that can be reset, and their value afterwards."""


def _options_of(plan: Plan) -> Iterator[str]:
    owners: Sequence[tuple[str, Any]] = [
        ("plan", plan),
        *((f"queue:{each.name}", each) for each in plan.queues),
        *((f"worker:{each.name}", each) for each in plan.workers),
        *((f"type:{each.name}", each) for each in plan.types),
        *((f"job:{each.index}", each) for each in plan.jobs),
    ]
    for name, owner in owners:
        for option, default in _OPTIONS[type(owner)].items():
            if getattr(owner, option) != default:
                yield f"{name}.{option}"


def _without_options(owner: Owner, name: str, gone: Collection[str]) -> Owner:
    changes = {
        option: default
        for option, default in _OPTIONS[type(owner)].items()
        if f"{name}.{option}" in gone
    }
    if not changes:
        return owner
    smaller: Owner = replace(owner, **changes)  # type: ignore[type-var]  # all of them are dataclasses
    return smaller


def described(plan: Plan) -> str:
    """Return the plan as readable lines; defaults are left out."""
    lines = [
        f"seed {plan.seed}: {plan.busy_s:.0f} s, records {plan.records}, skew {plan.skew_s:.1f} s"
        + (", without long delays" if not plan.long_delays else "")
        + (", old receipts work" if plan.old_receipts_work else "")
        + (", sweeps" if plan.sweeps else "")
        + (", code around attempts" if plan.around else "")
        + (", signed" if plan.signed else "")
        + (", sealed" if plan.sealed else "")
        + (", by a secret" if plan.secret else "")
        + (f", rotated at {plan.rotated_at_s:.1f} s" if plan.rotated_at_s is not None else "")
        + (f", {_brief(plan.policy)}" if plan.policy is not None else "")
    ]
    for name in (
        "queues",
        "types",
        "limits",
        "workers",
        "functions",
        "kills",
        "pauses",
        "operations",
    ):
        lines += [f"  {_brief(each)}" for each in getattr(plan, name)]
    for name in ("faults", "jobs"):
        lines += [f"  {_brief(each)}" for each in getattr(plan, name)]
    return "\n".join(lines)


def _brief(value: Any) -> str:
    kind = type(value)
    shown = []
    for name in kind.__dataclass_fields__:
        found, default = getattr(value, name), kind.__dataclass_fields__[name].default
        if found != default:
            shown.append(f"{name}={_short(found)}")
    return f"{kind.__name__.removesuffix('Plan')}({', '.join(shown)})"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, Jump):
        return f"{value.by_s:.3g} at {value.at_s:.3g}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_short, value)) + "]"
    if isinstance(value, Act):
        after = f" after {value.after_s:.3g}" if value.after_s else ""
        return f"{value.how} {value.takes_s:.3g}{after}"
    return repr(value)
