"""Coverage of lives: how often each feature and fault occurred, and each pair of them.

A feature counts if it took effect in a life, not if it was only declared: a limit that held
something back, a breaker that opened, a worker that was killed. So a simulation that has become
vacuous shows as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.topology import MAX_DELAY
from tests.simulation.ledger import Ledger, Life
from tests.simulation.plan import Plan, TypePlan

LONG_RUN_S = 12.0
"""The shortest visibility timeout of any plan."""

LONG_HIDDEN_S = 300
"""The visibility timeout from which on a queue counts as one that hides its messages for long."""

_EVENTS = {
    "event:job.retry_scheduled": "retry",
    "event:job.dead_lettered": "dead-letter",
    "event:job.quarantined": "quarantine",
    "event:job.deferred": "deferral",
    "event:job.crashed": "crash",
    "event:job.discarded": "discard",
    "event:job.cancelled": "cancellation",
    "event:job.already_done": "already-done",
    "event:job.interrupted": "interruption",
    "event:job.deduplicated": "replacement",
    "event:job.stalled": "stalled-thread",
    "event:message.unrunnable": "unrunnable",
    "event:limit.reached": "limit-held",
    "event:breaker.opened": "breaker-open",
    "event:budget.spent": "budget-spent",
    "event:hook.failed": "hook-failed",
    "event:receipt.lost": "receipt-lost",
    "event:records.failed": "records-failed",
    "event:lease.failed": "lease-failed",
    "event:claim.failed": "claim-failed",
    "duplicate-submission": "duplicate-submission",
    "fired": "schedule-fired",
    "entered:session": "session",
    "entered:around": "around",
    "bundle": "bundle",
    "paused:queue": "paused-queue",
    "paused:type": "paused-type",
    "paused:tenant": "paused-tenant",
    "operation:replay": "replay",
    "operation:purge": "purge",
    "operator-killed": "operator-killed",
    "resumed": "replay-resumed",
    "replayed": "replayed",
    "purged": "purged",
    "kill": "kill",
    "stop": "stop",
    "sweep": "sweep",
    "invoke": "lambda",
    "function-failed": "function-failed",
    "expired": "expired",
    "own-backoff": "own-backoff",
    "backoff-fault": "backoff-fault",
    "policy-replayed": "policy-replay",
    "act:submit": "submission-within",
    "act:ugly": "ugly-error",
    "act:die": "killer",
    "batch": "batch",
    "batch-stopped": "batch-stopped",
    "rotated": "key-rotated",
}
"""By event counted in a life, the feature that it shows."""


def features_of(plan: Plan, ledger: Ledger) -> Iterator[str]:
    """Yield the features that took effect in a life."""
    yield f"records-{plan.records}"
    if plan.skew_s > SKEW_S:
        yield "large-skew"
    yield from (feature for counted, feature in _EVENTS.items() if ledger.counts[counted])
    yield from _of_faults(ledger)
    if ledger.counts["event:limit.reached"]:
        yield from _of_limits(plan)
    if any(worker.jump is not None for worker in plan.workers):
        yield "clock-jump"
    if any(worker.old for worker in plan.workers):
        yield "old-worker"
    for life in ledger.lives.values():
        if life.runs and life.declared is not None:
            yield from _of_type(plan, life.declared)
            yield from _of_job(plan, life)


def _of_faults(ledger: Ledger) -> Iterator[str]:
    for name in ledger.counts:
        if name.startswith("fault:"):
            _, service, mode, _ = name.split(":")
            yield f"{service}-{mode}"
        elif name.startswith("reason:"):
            yield f"reason-{name.removeprefix('reason:')}"


def _of_limits(plan: Plan) -> Iterator[str]:
    for limit in plan.limits:
        yield f"{limit.kind}-of-{limit.of.partition(':')[0]}"
        if limit.fleet:
            yield f"{limit.kind}-of-the-fleet"


def _of_type(plan: Plan, declared: TypePlan) -> Iterator[str]:
    for name in ("plain", "isolated", "once", "unique_s", "hook", "results", "new", "every_min"):
        if getattr(declared, name):
            yield name.removesuffix("_s").removesuffix("_min")
    if declared.schema > 1:
        yield "schema"
    queue = plan.queue(declared.queue)
    if queue.fifo:
        yield "fifo"
    if queue.visibility_s >= LONG_HIDDEN_S:
        yield "long-visibility"


def _of_job(plan: Plan, life: Life) -> Iterator[str]:
    if len(life.messages) > 1:
        yield "several-messages"
    if len(life.runs) > 1:
        yield "several-runs"
    if len({run.actor for run in life.runs}) > 1:
        yield "several-workers"
    if max((run.ended_at or 0) - run.began_at for run in life.runs) > LONG_RUN_S:
        yield "beyond-visibility"
    if (job := life.plan) is None:
        return
    if job.pad and plan.max_message_bytes < job.pad:
        yield "large-payload"
    if job.delay_s:
        yield "long-delay" if job.delay_s > MAX_DELAY.total_seconds() else "delay"


ALWAYS_MET = frozenset(
    {
        "retry",
        "dead-letter",
        "quarantine",
        "deferral",
        "crash",
        "discard",
        "cancellation",
        "interruption",
        "unrunnable",
        "limit-held",
        "breaker-open",
        "kill",
        "paused-queue",
        "paused-type",
        "paused-tenant",
        "replayed",
        "purged",
        "operator-killed",
        "stop",
        "lambda",
        "once",
        "unique",
        "fifo",
        "isolated",
        "plain",
        "schedule-fired",
        "long-delay",
        "large-payload",
        "several-messages",
        "beyond-visibility",
        "old-worker",
        "large-skew",
        "long-visibility",
        "clock-jump",
        "key-rotated",
        "sweep",
    }
)
"""The features that every hundred lives must show at least once."""

_ENOUGH = 100
"""Number of lives from which on a feature counts as missing."""


@dataclass(slots=True)
class Coverage:
    """The features of many lives."""

    lives: int = 0
    features: Counter[str] = field(default_factory=Counter)
    """Number of lives in which each feature took effect."""
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, features: Iterable[str]) -> None:
        """Count a life."""
        ordered = sorted(set(features))
        self.lives += 1
        self.features.update(ordered)
        self.pairs.update(combinations(ordered, 2))

    def missing(self) -> set[str]:
        """Return the features that never took effect, although there were enough lives."""
        return set(ALWAYS_MET - self.features.keys()) if self.lives >= _ENOUGH else set()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        width = max((len(name) for name in self.features), default=0)
        for name, count in sorted(self.features.items(), key=lambda each: (-each[1], each[0])):
            yield f"  {name:<{width}} {count:>7} {count / self.lives:>7.1%}"
        possible = len(self.features) * (len(self.features) - 1) // 2
        met = len(self.pairs)
        yield f"  {met:,} of {possible:,} pairs of them met ({met / max(1, possible):.1%})"
