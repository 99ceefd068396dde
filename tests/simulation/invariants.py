"""Checks of the promises against a finished life.

Each check is fair: it allows deviations that an injected fault excuses (`excuses`). Any other is a
violation, reported by its kind and in a sentence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.events import (
    JobCompleted,
    JobDeadLettered,
    JobDiscarded,
    JobDropped,
    JobQuarantined,
    MessageUnrunnable,
)
from headgate.jobs.execution.outcome import STRANGERS, Reason
from headgate.jobs.records.history import read_job
from headgate.jobs.records.items import asked_partition, keeps, partition
from headgate.jobs.records.state import JobState
from tests.simulation.excuses import (
    FOREVER,
    deaths,
    ended_unwritten,
    holder_died,
    is_blind,
    is_out_of_order,
    level_of,
    may_be_replayed_twice,
    ran_twice,
    was_delivered_twice,
    was_replayed_twice,
    went_on_behind,
)
from tests.simulation.ledger import Life, Message
from tests.simulation.own_options import (
    expires_unstarted,
    has_expired,
    policies_are_kept,
    waits_as_it_says,
)

if TYPE_CHECKING:
    from tests.simulation.world import World

Violations = Iterator[tuple[str, str]]
"""Pairs of a kind and a sentence that says what happened."""


def judge(world: World) -> None:
    """Check a finished life against all promises."""
    for life in [*world.ledger.lives.values()]:
        for check in OF_JOBS:
            for kind, text in check(world, life):
                world.ledger.fault(kind, f"{life.name}: {text}")
    for whole in OF_ALL:
        for kind, text in whole(world):
            world.ledger.fault(kind, text)


# --- the end of a job ----------------------------------------------------------------------------


def ends_one_way(world: World, life: Life) -> Violations:
    """Check that every job that was accepted, or has come to a queue, ends in exactly one way."""
    if life.accepted_at is None and not life.messages:
        return
    ends = set(_ends(life))
    if waiting := [message for message in life.messages if message.gone_at is None]:
        yield "stuck", f"it is still in {waiting[0].queue} when all has had its time"
    elif world.observer.is_scheduled(life):
        yield "stuck", "a schedule holds it when all has had its time"
    elif not ends:
        hows = [f"{message.queue}: {message.gone_how}" for message in life.messages]
        yield "lost", f"it is nowhere, and has come to no end ({hows}, {life.ran_so})"
    elif len(ends) > 1 and not was_delivered_twice(world, life):
        yield "two-ends", f"it ended in several ways: {sorted(ends)} ({life.ran_so})"


def _ends(life: Life) -> Iterator[str]:
    if life.ran("returned"):
        yield "completed"
    if life.ran("discarded") or life.told(JobDiscarded):
        yield "discarded"
    if life.resting:
        yield "dead"
    if life.told(JobDropped):
        yield "replaced"
    if life.unsubmitted:
        yield "unsubmitted"
    has_ended = life.ran("returned") or life.ran("discarded") or life.resting
    if life.cancel_asked_at is not None and not has_ended and not life.told(JobDropped):
        yield "cancelled"


def leaves_by_a_verdict(_world: World, life: Life) -> Violations:
    """Check that no message expires, and that SQS's own redrive takes none."""
    for message in life.messages:
        if message.gone_how == "expired":
            yield "expired", f"SQS deleted its message in {message.queue} after the retention"
        elif message.gone_how == "redriven":
            yield "redriven", f"SQS moved it away after {len(message.deliveries)} receives"


# --- dead letters --------------------------------------------------------------------------------

_AFTER_A_FAILURE = {
    Reason.ATTEMPTS_EXHAUSTED,
    Reason.PERMANENT_ERROR,
    Reason.DO_NOT_RETRY,
    Reason.RETRY_BUDGET,
}

_WAITED = {Reason.DEFERRED_TOO_OFTEN, Reason.RECEIVED_TOO_OFTEN}

_LONG_WAIT_S = 12 * 3_600.0
"""A wait so long that a few, its own or of jobs before it in its group, outlast the retention."""

_OLD = {Reason.UNKNOWN_TYPE, Reason.NEWER_SCHEMA}

_NEVER = {
    *STRANGERS,
    Reason.UNREADABLE,
    Reason.CLAIM_UNREADABLE,
    Reason.PAYLOAD_INVALID,
    Reason.PAYLOAD_UNOPENABLE,
    Reason.PAYLOAD_NOT_SEALED,
}
"""Reasons for which no message of a life can be dead: all are sent by its own app."""


def dies_for_a_reason(world: World, life: Life) -> Violations:
    """Check that each dead letter has a true reason, and that an event reported it."""
    for letter in life.letters:
        reason = letter.attributes.get("Reason", "")
        world.ledger.counts[f"reason:{reason}"] += 1
        yield from _reason_is_true(world, life, letter, reason)
    parked = any(event.retry_in_s is None for _, _, event in life.told(MessageUnrunnable))
    told = life.told(JobDeadLettered) or life.told(JobQuarantined) or parked
    known = any(letter.confirmed for letter in life.letters)
    if known and not told and not holder_died(life):
        yield "untold", "it is among the dead letters, and no event has said so"


def _reason_is_true(world: World, life: Life, letter: Message, reason: str) -> Violations:
    if not reason:
        yield "no-reason", f"it is in {letter.queue} without a reason"
    elif reason in _AFTER_A_FAILURE and not life.ran("raised") and not life.ran("killed"):
        yield "false-reason", f"{reason}, and it never failed ({life.ran_so})"
    elif reason in _WAITED:
        yield "given-up", f"{reason} after {life.receives} receives ({life.ran_so})"
    elif reason == Reason.WAIT_TOO_LONG and not _outwaits_sqs(world, life):
        yield "given-up", f"{reason}, and no wait of its type is ({life.ran_so})"
    elif reason in _NEVER:
        yield "false-reason", f"{reason}, and its own app has sent it"
    elif reason in _OLD:
        yield from _was_met_by_old_ones(world, life, reason)
    elif reason == Reason.ATTEMPTS_EXHAUSTED and life.runs and not is_blind(world, life):
        made, allowed = len(life.ran("raised")) + deaths(world, life), life.runs[-1].max_attempts
        if made < allowed:
            yield "given-up-early", f"{made} of {allowed} attempts were made ({life.ran_so})"


def _was_met_by_old_ones(world: World, life: Life, reason: str) -> Violations:
    seen = len(life.told(MessageUnrunnable))
    if not any(worker.old for worker in world.plan.workers):
        yield "false-reason", f"{reason}, where every worker is new"
    elif seen < world.app.parking.max_attempts and level_of(world, life) != "off":
        yield "parked-early", f"{reason} after it was met {seen} times"


def _outwaits_sqs(world: World, life: Life) -> bool:
    """True if a job's wait may outlast SQS's retention, where the message can't be sent anew."""
    if life.declared is None:
        return False
    queue = world.plan.queue(life.declared.queue)
    of_queue = (declared for declared in world.plan.types if declared.queue == queue.name)
    return queue.fifo and any(max(each.backoff_s) >= _LONG_WAIT_S for each in of_queue)


def letters_leave_for_a_reason(world: World, life: Life) -> Violations:
    """Check that each letter that operators took was replayed, or has a copy in the bucket."""
    replayed = life.replayed
    for letter in life.letters:
        if letter in replayed:
            world.ledger.counts["replayed"] += 1
        elif letter.gone_how == "deleted":
            world.ledger.counts["purged"] += 1
            if not any(key.endswith(f"/{letter.id}.json.gz") for key in world.aws.store.objects):
                yield "letter-lost", f"it is gone from {letter.queue}, not sent and not copied"


def replays_send_once(_world: World, life: Life) -> Violations:
    """Check that of each letter one job is sent; two only if an excuse says why."""
    if was_replayed_twice(life) and not may_be_replayed_twice(life):
        sent = [f"{each.sent_at:.1f}" for each in life.replays]
        yield "replayed-twice", f"it died {len(life.letters)} times, and was sent again at {sent}"


# --- attempts ------------------------------------------------------------------------------------


def attempts_are_true(world: World, life: Life) -> Violations:
    """Check that a handler's attempt number equals the number of tries, this one included."""
    if is_blind(world, life) or ran_twice(world, life):
        return
    died = deaths(world, life)
    for runs in life.tries:
        least, most = 1, 1 + died - len(life.ran("killed"))
        for run in runs:
            if not least <= run.attempt <= most:
                told = f"it was told attempt {run.attempt}"
                yield "attempts", f"{told}, and {least} to {most} is true ({life.ran_so})"
                return
            # If a worker died, it may be unknown whether it had begun this job.
            is_told = run.how == "raised" and not ended_unwritten(world, run)
            least += is_told or (run.how == "killed" and run.actor.killed_at is None)
            most += run.how in ("raised", "killed")


def attempts_are_bounded(world: World, life: Life) -> Violations:
    """Check that a job out of attempts is not tried again."""
    if not life.runs or is_blind(world, life) or ran_twice(world, life):
        return
    allowed = max(run.max_attempts for run in life.runs) + deaths(world, life)
    for runs in life.tries:
        if sum(run.how == "raised" for run in runs) > allowed:
            yield "too-many-attempts", f"it failed more often than it may ({life.ran_so})"


def runs_once(world: World, life: Life) -> Violations:
    """Check that no ended job runs again unless excused; never with once=True."""
    completions = sum(not went_on_behind(life, run) for run in life.ran("returned"))
    once = life.declared is not None and life.declared.once
    if once and len(life.told(JobCompleted)) > 1:
        yield "once-twice", f"once=True, and {len(life.told(JobCompleted))} completions are told"
    elif once and completions > 1 and world.plan.skew_s <= SKEW_S and not holder_died(life):
        yield "once-twice", f"once=True, and it completed {completions} times ({life.ran_so})"
    elif not was_delivered_twice(world, life):
        ends = [run.how in ("returned", "discarded") for run in life.runs]
        if any(ends[:-1]):
            yield "ran-on", f"it ran again after its end ({life.ran_so})"


# --- records -------------------------------------------------------------------------------------


def records_are_true(world: World, life: Life) -> Violations:
    """Check that a job's record says how it ended."""
    declared, level = life.declared, level_of(world, life)
    if declared is None or not life.runs or level == "off" or was_delivered_twice(world, life):
        return
    if is_out_of_order(world, life):
        return
    if world.aws.faults.was_troubled("table", 0, FOREVER) or _is_forgotten(world, life):
        return
    rows = (partition(life.id), asked_partition(life.id))
    items = [item for row in rows for item in world.aws.table._store.query(row, "")]
    record = read_job(life.id, items, now=world.aws.clock.now())
    if life.resting:
        if record.state not in (JobState.DEAD, JobState.QUARANTINED):
            yield "untrue-record", f"it is dead, and its record says {record.state}"
    elif life.ran("returned") and (keeps(level, "outcomes") or life.replays):
        if record.state is not JobState.COMPLETED:
            yield "untrue-record", f"it completed, and its record says {record.state}"
        elif (
            keeps(level, "outcomes")
            and declared.results
            and not record.has_result
            and not record.result_fault
        ):
            yield "no-result", "it returned something, and its record has no result"
    elif life.ran("returned") and record.state is JobState.RETRYING:
        yield "untrue-record", "it completed, and its record says that it is retried"


def _is_forgotten(world: World, life: Life) -> bool:
    declared = life.declared
    if declared is not None and declared.keep_last is not None:
        return True
    kept_s = world.plan.keep_s
    ended_at = max((run.ended_at or 0.0) for run in life.runs)
    return kept_s <= 0 or world.ledger.now > ended_at + kept_s - 60


# --- uniqueness ----------------------------------------------------------------------------------

_STARTING_S = 30.0
"""The longest that a job may take from its last look at its key to its handler, in a new child."""


def unique_jobs_are_one(world: World) -> Violations:
    """Check that of identical jobs only one counts: the first, or the last."""
    if world.aws.faults.was_troubled("table", 0, FOREVER):
        return
    same: dict[tuple[str, str, str | None], list[Life]] = defaultdict(list)
    for life in world.ledger.lives.values():
        plan, declared = life.plan, life.declared
        if plan is None or declared is None or not declared.unique_s or plan.key is None:
            continue
        if life.accepted_at is not None:
            same[declared.name, plan.key, life.tenant or plan.tenant].append(life)
    for lives in same.values():
        declared = lives[0].declared
        assert declared is not None
        ordered = sorted(lives, key=lambda life: life.id)
        of_keys = _last_counts if declared.replaces else _first_counts
        yield from of_keys(ordered, declared.unique_s)


def _last_counts(ordered: list[Life], within_s: float) -> Violations:
    if ordered[-1].told(JobDropped) and not has_expired(ordered[-1]):
        yield "last-replaced", f"{ordered[-1].name} is the last, and was replaced"
    for first, last in pairwise(ordered):
        if late_s := _started_late_s(first, last, within_s):
            yield "replaced-ran", f"{first.name} began {late_s:.0f} s after {last.name} came"


def _first_counts(ordered: list[Life], within_s: float) -> Violations:
    for first, second in pairwise(ordered):
        apart_s = (second.accepted_at or 0.0) - (first.accepted_at or 0.0)
        if apart_s < within_s - 60 and not has_expired(first):  # its key is free
            yield "not-unique", f"{first.name} and {second.name} are the same"


def _started_late_s(first: Life, last: Life, within_s: float) -> float:
    """Return how long after the job that replaced it a job began, which had not begun before.

    Its claim lapses at the end of the time, which begins with the delay: who waits longer runs.
    """
    came_at = last.accepted_at or 0.0
    if not first.runs or came_at - (first.accepted_at or 0.0) > within_s - 60:  # or both count
        return 0.0
    began_at = min(run.began_at for run in first.runs)
    delay_s = max(each.plan.delay_s for each in (first, last) if each.plan is not None)
    if began_at > came_at + delay_s + within_s - 60:
        return 0.0
    return began_at - came_at if began_at - came_at > _STARTING_S else 0.0


# --- leftovers -----------------------------------------------------------------------------------


def claims_are_settled(world: World) -> Violations:
    """Check that no claim is held for a job that isn't running."""
    if world.aws.faults.was_troubled("table", 0, FOREVER):
        return
    for pk, sk in world.aws.table._store.places():
        if sk != "claim" or not pk.startswith("job#"):
            continue
        item = world.aws.table._store.get(pk, sk)
        life = world.ledger.lives.get(pk.removeprefix("job#"))
        if item is None or life is None or holder_died(life) or life.declared is None:
            continue
        if item.data.get("state") == "running" and not life.declared.plain:
            yield "claim-left", f"{life.name}: its claim still says that it runs"


def leases_are_returned(world: World) -> Violations:
    """Check that workers stopped in order hold no part of a limit."""
    if world.aws.faults.was_troubled("table", 0, FOREVER):
        return
    died = {name for name, actor in world.actors.items() if actor.killed_at is not None}
    for pk, sk in world.aws.table._store.places():
        # A rate's used tokens stay out until their time has passed.
        if not pk.startswith("limit#concurrency") or sk != "leases":
            continue
        item = world.aws.table._store.get(pk, sk)
        for name in (item.data.get("leases") or {}) if item is not None else {}:
            entry = item.data["leases"][name] if item is not None else {}
            if name not in died and entry.get("tokens"):
                yield "lease-left", f"{pk}: {name} has stopped, and holds {entry['tokens']}"


def dead_letters_are_told(world: World) -> Violations:
    """Check that the sweep counts each dead letter once, and notifies people of all."""
    if not world.plan.sweeps:
        return
    letters = sum(len(life.letters) for life in world.ledger.lives.values())
    lying = sum(
        each.gone_at is None for life in world.ledger.lives.values() for each in life.letters
    )
    counted, troubled = world.functions.counted, world.aws.faults.was_troubled("table", 0, FOREVER)
    if counted > letters and not troubled:
        yield "sweep-counts", f"{counted} dead letters were counted, and there are {letters}"
    if lying and not world.aws.topic.published:
        yield "sweep-silent", f"there are {lying} dead letters, and nobody was told"


def what_is_entered_is_left(world: World) -> Violations:
    """Check that sessions of attempts are closed, and code around them is left."""
    for entered in world.ledger.entries:
        if not entered.left and entered.actor.killed_at is None:
            name = world.ledger.life(entered.job_id).name
            yield "never-left", f"{name}: its {entered.name} was entered in {entered.actor.name}"


OF_JOBS: tuple[Callable[[World, Life], Violations], ...] = (
    ends_one_way,
    leaves_by_a_verdict,
    dies_for_a_reason,
    letters_leave_for_a_reason,
    replays_send_once,
    attempts_are_true,
    attempts_are_bounded,
    runs_once,
    records_are_true,
    expires_unstarted,
    waits_as_it_says,
    policies_are_kept,
)

OF_ALL: tuple[Callable[[World], Violations], ...] = (
    unique_jobs_are_one,
    claims_are_settled,
    leases_are_returned,
    dead_letters_are_told,
    what_is_entered_is_left,
)
