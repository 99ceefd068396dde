"""Faults of a life that excuse deviations from the promises."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from headgate.jobs.core.events import JobFailed, JobInterrupted, JobStarted
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.errors import JobTimeout
from headgate.jobs.records.items import keeps
from headgate.jobs.records.lives import LEASE_S, RENEW_S
from headgate.workers.running.trimmer import EVERY_S
from tests.simulation.actors import Actor
from tests.simulation.ledger import Delivery, Life, Message, Run

if TYPE_CHECKING:
    from tests.simulation.world import World

FOREVER = float("inf")

_UNWRITTEN_S = 3.0
"""Seconds after a run in which a worker's death may leave its end unwritten, with a sound table."""

_WRITTEN_S = 0.2
"""Seconds after which a completed run's end has been written: writes wait to be batched."""

_STARTING_S = 5.0
"""Seconds after its receipt in which a redelivered job may still start.

It is looked up, its start is written, and it may have to be claimed.
"""

_TRIMS_S = EVERY_S * 0.8
"""The shortest time after which a worker trims lists of completed jobs."""

_MARKED_S = 1.0
"""Seconds after which a replayed job is marked as sent, with a sound table."""

_JOURNAL_S = 120.0
"""The same as `_UNWRITTEN_S` where the table refuses: pending writes die with their worker."""

_BEAT_S = RENEW_S + 2.0
"""Seconds within which each worker has renewed its sign of life."""

_AROUND_S = 90.0
"""Uncertainty, in seconds, of a time of death, known by the last beat and by skewed clocks."""


def level_of(world: World, life: Life) -> RecordsLevel:
    """Return the level of records of a job."""
    return (life.declared.records if life.declared else None) or world.plan.records


def is_blind(world: World, life: Life) -> bool:
    """True if attempts may have been counted by deliveries: records are off or were unavailable."""
    if level_of(world, life) == "off":
        return True
    return world.aws.faults.was_troubled("table", 0, world.ledger.now)


def deaths(world: World, life: Life) -> int:
    """Return the number of processes that died with the job, as far as an observer could blame it.

    If a worker dies just after a run, the run's end may be unknown. And if a first delivery left no
    trace, it can't be told whether it had begun: short runs leave none.
    """
    unwritten = sum(ended_unwritten(world, run) for run in life.runs)
    unknown = sum(
        _left_no_trace(world, life, message) and _somebody_died_about(world, message)
        for message in life.messages
        if len(message.deliveries) > 1
    )
    # For its worker, a run whose child was still starting has begun.
    begun = sum(
        world.actors[name].killed_at is not None
        and not any(run.actor.name == name and run.began_at >= at for run in life.runs)
        for at, name, _ in life.told(JobStarted)
    )
    seemed = sum(_seemed_to_die(life, run) for run in life.runs)
    return len(life.ran("killed")) + unwritten + unknown + begun + seemed + _about_to_start(life)


def _seemed_to_die(life: Life, run: Run) -> bool:
    """True if the table took no beat of its worker for a whole lease while others could read it."""
    return run.actor.killed_at is None and any(
        delivery.actor is not run.actor
        and _was_refused(run.actor, delivery.at - LEASE_S, delivery.at)
        for delivery in _after(life, run)
    )


def _after(life: Life, run: Run) -> Iterator[Delivery]:
    """Yield the later deliveries of the message of a run."""
    if (its := run.delivery) is None:
        return
    for message in life.messages:
        if its in message.deliveries:
            yield from (each for each in message.deliveries if each.number > its.number)


def _was_refused(actor: Actor, since: float, until: float) -> bool:
    """True if each of an actor's beats within a time met a fault of the table."""
    met = (at for at, service in actor.troubles if service == "table" and since <= at <= until)
    return all(later - earlier <= _BEAT_S for earlier, later in pairwise([since, *met, until]))


def _about_to_start(life: Life) -> int:
    """Return the number of workers that died between writing a start and calling the handler."""
    return sum(
        delivery.actor is not None
        and delivery.actor.killed_at is not None
        and 0 <= delivery.actor.killed_at - delivery.at <= _STARTING_S
        and all(run.delivery is not delivery for run in life.runs)
        for message in life.messages
        for delivery in message.deliveries[1:]
    )


def ended_unwritten(world: World, run: Run) -> bool:
    """True if its worker died so soon after a run that the run's outcome may be unknown.

    Likewise if it was stopped while the table had taken nothing since: what waits dies with it.
    """
    died_at, ended_at, stopped_at = run.actor.killed_at, run.ended_at, run.actor.stopped_at
    if ended_at is None or run.how == "killed":
        return False
    if died_at is None:
        return (
            stopped_at is not None
            and ended_at <= stopped_at
            and _was_refused(run.actor, ended_at, stopped_at)
            and run.actor.met_fault_of("table", stopped_at)
        )
    troubled = world.aws.faults.was_troubled("table", 0, FOREVER)
    return ended_at <= died_at <= ended_at + (_JOURNAL_S if troubled else _UNWRITTEN_S)


def _left_no_trace(world: World, life: Life, message: Message) -> bool:
    """True if the outcome of a first delivery may have left no record."""
    first = message.deliveries[0]
    ran = next((run for run in life.runs if run.delivery is first), None)
    if ran is None:
        return first.actor is not None
    untold = is_untold(world, life, ran) or _may_be_trimmed(life, ran, message)
    return untold or ran.actor.met_fault_of("table", ran.began_at)


def _may_be_trimmed(life: Life, run: Run, message: Message) -> bool:
    """True if SQS delivered a completed job's message again once its type's list was trimmed.

    The message had been deleted; had it come again before, its records would have stayed.
    """
    if life.declared is None or life.declared.keep_last is None or run.ended_at is None:
        return False
    again_at = min((each.at for each in message.deliveries[1:]), default=0.0)
    return run.how == "returned" and again_at >= run.ended_at + _TRIMS_S


def is_untold(world: World, life: Life, run: Run) -> bool:
    """True if nothing is written about how a run ended.

    So it is for a job that completed at its first delivery and is not to be kept.
    """
    if run.how not in ("returned", "discarded") or run.is_later:
        return False
    return not (keeps(level_of(world, life), "outcomes") and _keeps_completed(world, life))


def _keeps_completed(world: World, life: Life) -> bool:
    counted = life.declared is not None and life.declared.keep_last is not None
    return counted or world.plan.keep_s > 0


def is_written(run: Run, later: Run) -> bool:
    """True if a run's end was in the table when the message of a later one was received."""
    if run.ended_at is None:
        return False
    is_simple = run.how in ("returned", "discarded")  # failures are written before redelivery
    return not is_simple or later.delivery is None or run.ended_at + _WRITTEN_S < later.delivery.at


def _somebody_died_about(world: World, message: Message) -> bool:
    """True if a worker died before anything was written about a delivery after the first."""
    first, *later = message.deliveries
    until = max((each.silent_until or 0.0 for each in later), default=0.0)
    return any(
        actor.killed_at is not None and first.at - _AROUND_S <= actor.killed_at <= until
        for actor in world.actors.values()
    )


def holder_died(life: Life) -> bool:
    """True if a process died that had ever received the job."""
    return any(
        delivery.actor is not None and delivery.actor.killed_at is not None
        for message in life.messages
        for delivery in message.deliveries
    )


def shown_by_an_old_receipt(world: World, message: Message, held: Delivery) -> bool:
    """True if an earlier receiver may have ended the visibility of the delivery that is held.

    It repeats a release whose answer was lost, and SQS may act on a past delivery's receipt.
    """
    return world.plan.old_receipts_work and any(
        earlier.actor is not None
        and earlier.number < held.number
        and earlier.actor.trouble_until >= held.at
        for earlier in message.deliveries
    )


def is_left_to_itself(world: World, life: Life, run: Run) -> bool:
    """True for a run of a synchronous handler that was cut off: its thread goes on.

    A worker that stops gives the message back at once. On Lambda, where the thread outlives its
    invocation, the message stays hidden for its whole visibility timeout.
    """
    if life.declared is None or not life.declared.plain or (its := run.delivery) is None:
        return False
    if run.actor.name.startswith("fn"):
        [message] = (each for each in life.messages if its in each.deliveries)
        if world.ledger.now < its.at + world.aws.watch.sources[message.queue].visibility_s:
            return False
    return any(name == run.actor.name and at >= run.began_at for at, name in _cut_offs(life))


def went_on_behind(life: Life, run: Run) -> bool:
    """True if a synchronous handler returned after its job had been given back, or had timed out.

    Nothing ends a thread; and once an invocation of Lambda is over, nobody hears of its end.
    """
    if life.declared is None or not life.declared.plain or run.ended_at is None:
        return False
    return any(
        name == run.actor.name and run.began_at <= at <= run.ended_at
        for at, name in _cut_offs(life)
    )


def _cut_offs(life: Life) -> Iterator[tuple[float, str]]:
    """Yield the times at which attempts were cut off, with their actors: a thread that is out of
    time when it is abandoned has timed out."""
    for at, name, _ in life.told(JobInterrupted):
        yield at, name
    for at, name, failed in life.told(JobFailed):
        if failed.error_type == JobTimeout.__name__:
            yield at, name


def was_delivered_twice(world: World, life: Life) -> bool:
    """True if two deliveries may have been in flight at once, or one came after the end."""
    return holder_died(life) or ran_twice(world, life) or was_replayed_twice(life)


def was_replayed_twice(life: Life) -> bool:
    """True if operators have sent more jobs than there were letters."""
    return len(life.replays) > len(life.letters)


def may_be_replayed_twice(life: Life) -> bool:
    """True if one of its replays may not have been marked, or a letter stayed that was replayed.

    Its process died between the sending and the mark, or an answer of SQS's or the table's failed.
    """
    return any(_is_unmarked(message) for message in life.replays)


def is_out_of_order(world: World, life: Life) -> bool:
    """True if a replay came so soon after a death that the clocks may tell another order.

    Records of several messages are ordered by their writers' clocks (`jobs.records.state`).
    """
    skews = [abs(each.skew_s) for each in world.plan.operations]
    skew_s = world.plan.skew_s + max(skews, default=0.0)
    ends = [run.ended_at for run in life.runs if run.ended_at is not None]
    died = [letter.sent_at for letter in life.letters]
    return any(
        abs(replay.sent_at - at) <= skew_s for replay in life.replays for at in (*ends, *died)
    )


def _is_unmarked(message: Message) -> bool:
    sender = message.sender
    if sender is None:
        return False
    died_at = sender.killed_at
    died = died_at is not None and 0 <= died_at - message.sent_at <= _MARKED_S
    return died or sender.met_fault_of("sqs", 0) or sender.met_fault_of("table", 0)


def ran_twice(world: World, life: Life) -> bool:
    """True if it may have run twice without a death: by SQS, or by an unstoppable thread."""
    return (
        world.aws.faults.was_troubled("sqs", 0, FOREVER)
        or _was_sent_twice(life)
        or _overlapped(life)
        or (len(life.messages) > 1 and _may_be_sent_twice(world, life))
        or _went_on_in_a_thread(life)
        or _went_on_in_a_call(life)
    )


def _may_be_sent_twice(world: World, life: Life) -> bool:
    """True if a schedule and a message may have held it, or the bridge may have sent it twice."""
    return holder_died(life) or world.aws.faults.was_troubled("table", 0, FOREVER)


def _was_sent_twice(life: Life) -> bool:
    """True if there were two messages of it at a time."""
    return any(
        one is not other
        and one.sent_at <= other.sent_at
        and (one.gone_at is None or other.sent_at < one.gone_at)
        for one in life.messages
        for other in life.messages
    )


def _overlapped(life: Life) -> bool:
    runs = sorted(life.runs, key=lambda run: run.began_at)
    return any(
        later.began_at < (FOREVER if earlier.ended_at is None else earlier.ended_at)
        for earlier, later in pairwise(runs)
    )


def _went_on_in_a_call(life: Life) -> bool:
    """True if a call may have gone on with a cancelled job, until its handler noticed."""
    return (
        life.declared is not None and life.declared.batch > 0 and life.cancel_asked_at is not None
    )


def _went_on_in_a_thread(life: Life) -> bool:
    """True if a synchronous handler may have gone on when its worker stopped."""
    return life.declared is not None and life.declared.plain and len(life.runs) > 1
