"""Checks of the options that jobs set for themselves, and of the replays that a policy makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headgate.jobs.core.events import JobDropped, JobRetryScheduled
from headgate.jobs.execution.outcome import DropKind, Reason
from tests.simulation.apps import answers_badly
from tests.simulation.excuses import (
    FOREVER,
    is_blind,
    level_of,
    may_be_replayed_twice,
    was_delivered_twice,
)
from tests.simulation.ledger import SWEEP, Life, Message
from tests.simulation.plan import TypePlan

if TYPE_CHECKING:
    from tests.simulation.world import World

Violations = Iterator[tuple[str, str]]

_STARTING_S = 5.0
"""Seconds between the last look at a job's expiry and its start: it may have to be claimed."""

_SLACK_S = 1.0


def has_expired(life: Life) -> bool:
    """True if a job was dropped because it had not started in time."""
    return any(event.kind == DropKind.EXPIRED for _, _, event in life.told(JobDropped))


def expires_unstarted(world: World, life: Life) -> Violations:
    """Check that a job that has not started in time never starts, and that no other is dropped.

    One whose bundle was delivered again counts as begun, and no longer expires.
    """
    drops = [each for each in life.told(JobDropped) if each[2].kind == DropKind.EXPIRED]
    world.ledger.counts["expired"] += bool(drops)
    if life.expires_at is None:
        if drops:
            yield "expired-unasked", "it was dropped as expired, and it never expires"
        return
    troubled = world.aws.faults.was_troubled("table", 0, FOREVER)
    if (first := min(life.runs, key=lambda run: run.began_at, default=None)) is not None:
        late_s = first.began_at + first.actor.clock.skew_s(first.began_at) - life.expires_at
        is_first = first.delivery is not None and first.delivery.number == 1
        waits = life.declared is not None and life.declared.isolated  # for a child process
        is_replayed = any(each.sent_at <= first.began_at for each in life.replays)
        is_told = is_first and not (is_replayed or waits or troubled or life.is_scattered)
        if is_told and late_s > _STARTING_S:
            yield "ran-expired", f"it started {late_s:.1f} s too late"
    if was_delivered_twice(world, life) or is_blind(world, life) or troubled:
        return
    for at, name, _ in drops:
        if any(run.began_at < at for run in life.runs):
            yield "dropped-begun", f"it was dropped as expired after it had run ({life.ran_so})"
        early_s = life.expires_at - (at + world.actors[name].clock.skew_s(at))
        if early_s > _SLACK_S:
            yield "dropped-early", f"it was dropped {early_s:.1f} s before it expires"


def waits_as_it_says(world: World, life: Life) -> Violations:
    """Check that retries come after the delays of the job's own backoff, or of its type's."""
    declared, plan = life.declared, life.plan
    if declared is None or is_blind(world, life):
        return
    own = plan.backoff_s if plan is not None else None
    steps = declared.backoff_s if own is None else own
    for _, _, event in life.told(JobRetryScheduled):
        world.ledger.counts["own-backoff"] += own is not None
        world.ledger.counts["backoff-fault"] += bool(event.backoff_fault)
        index = plan.index if plan is not None else -1
        is_bad = own is None and answers_badly(declared, index)
        if event.backoff_fault and not is_bad:
            yield "backoff-fault", f"its backoff is sound, and {event.backoff_fault}"
        # What a budget or SQS has changed is noted; a thread that goes on holds its message.
        if event.note or event.backoff_fault or declared.plain:
            continue
        wanted = round(steps[min(event.attempt, len(steps)) - 1])
        if event.delay_s < wanted or (event.delay_s > wanted and not _has_budget(world, declared)):
            said = f"attempt {event.attempt} is followed by {event.delay_s} s, and not {wanted}"
            yield "backoff", f"{said} ({life.ran_so})"


def _has_budget(world: World, declared: TypePlan) -> bool:
    """Return True if a retry budget may put a type's retries off, by a little without a note."""
    owners = ("app", f"queue:{declared.queue}", f"type:{declared.name}")
    limits = (limit for owner in owners for limit in world.plan.limits_of(owner))
    return any(limit.kind == "budget" for limit in limits)


def _expires_no_more(world: World, life: Life) -> bool:
    """Return True if it has begun, in a bundle or without records, and gone on in a message that
    tells so."""
    is_sent_anew = any(each.shared for each in life.messages) or level_of(world, life) == "off"
    has_gone_back = any(run.how in ("deferred", "cut") for run in life.runs)
    return life.is_scattered or (is_sent_anew and has_gone_back)


def policies_are_kept(world: World, life: Life) -> Violations:
    """Check that sweeps replay what their policy selects, and nothing else."""
    if (policy := world.plan.policy) is None:
        return
    sent = life.replays
    for index, replay in enumerate(sent):
        if replay.sender is None or not replay.sender.name.startswith(SWEEP):
            continue
        world.ledger.counts["policy-replayed"] += 1
        is_twice = may_be_replayed_twice(life) or was_delivered_twice(world, life)
        if index >= policy.max_replays and not is_twice:
            yield "policy-often", f"a sweep has replayed it {index + 1} times"
        letters = [each for each in life.letters if each.sent_at <= replay.sent_at]
        if not any(_is_due(world, each, replay) for each in letters):
            yield "policy-wrong", f"no policy has it replayed at {replay.sent_at:.1f}"
        expires_at = life.expires_at if index == 0 and not _expires_no_more(world, life) else None
        if expires_at is not None and expires_at + _SLACK_S < replay.sent_at:
            yield "policy-expired", "a sweep has replayed it after it had expired"
    if world.aws.faults.was_troubled("table", 0, FOREVER) or len(sent) >= policy.max_replays:
        return
    for letter in life.letters:
        is_meant = letter.attributes.get("Reason") == Reason.ATTEMPTS_EXHAUSTED
        is_lying = letter.gone_at is None and not _stands_behind(world, letter)
        if is_lying and is_meant and life.expires_at is None:
            yield "policy-forgotten", f"it lies in {letter.queue}, replayed {len(sent)} times"


def _stands_behind(world: World, letter: Message) -> bool:
    """Return True if others of its ordering group lie before it, which a look may end at.

    SQS hands out no more of a group while some are held: those of the first answer, and it may be
    short.
    """
    return letter.group is not None and any(
        other is not letter
        and (other.queue, other.group, other.gone_at) == (letter.queue, letter.group, None)
        and other.sent_at <= letter.sent_at
        for life in world.ledger.lives.values()
        for other in life.letters
    )


def _is_due(world: World, letter: Message, replay: Message) -> bool:
    """Return True if the policy selects a letter by the time that it was sent again."""
    policy = world.plan.policy
    assert policy is not None
    old_s = replay.sent_at - letter.sent_at + world.plan.skew_s + _SLACK_S
    is_meant = letter.attributes.get("Reason") == Reason.ATTEMPTS_EXHAUSTED
    return is_meant and old_s >= policy.after_s
