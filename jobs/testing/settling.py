"""Settlement of verdicts on queues in memory, where a request that is not taken raises."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headgate.jobs.core.batching import EntryRejected
from headgate.jobs.core.ports import EntryFailure, VisibilityChange
from headgate.jobs.definitions.app import App
from headgate.jobs.execution.delayed_retry import Course, Renewed, Stays
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.settlement import Ack, DeadLetter, Quarantine, Release, RetryAfter
from headgate.jobs.execution.verdict import Verdict, parked
from headgate.jobs.testing.memory.sqs import MemorySqs


async def follow(
    course: Course, delivery: Delivery, sqs: MemorySqs, app: App, at: datetime
) -> None:
    """Carry out a message's course.

    Raises:
        EntryRejected: a queue did not take a request.
    """
    if isinstance(course, Stays):
        await _carry_out(course.verdict, delivery, sqs, app, at)
        return
    queue = delivery.queue.name
    if isinstance(course, Renewed):
        _all_done(await sqs.send(queue, [course.message]))
    _all_done(await sqs.delete(queue, [delivery.message.receipt]))


async def _carry_out(
    verdict: Verdict, delivery: Delivery, sqs: MemorySqs, app: App, at: datetime
) -> None:
    queue, receipt = delivery.queue.name, delivery.message.receipt
    match verdict.action:
        case Ack():
            _all_done(await sqs.delete(queue, [receipt]))
        case RetryAfter(delay_s=delay_s) | Release(delay_s=delay_s):
            change = VisibilityChange(receipt=receipt, timeout_s=delay_s)
            _all_done(await sqs.change_visibility(queue, [change]))
        case DeadLetter() | Quarantine() as action:
            quarantine = app.topology.quarantine_name
            target, letter = parked(delivery, verdict, action, quarantine=quarantine, at=at)
            _all_done(await sqs.send(target, [letter]))
            _all_done(await sqs.delete(queue, [receipt]))


def _all_done(failures: Sequence[EntryFailure]) -> None:
    if failures:
        raise EntryRejected(failures[0])
