"""Settlement of verdicts on queues in memory, where a request that is not taken raises."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headgate.jobs.core.batching import EntryRejected
from headgate.jobs.core.ports.transport import EntryFailure, VisibilityChange
from headgate.jobs.definitions.app import App
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.settling.actions import (
    Ack,
    DeadLetter,
    Quarantine,
    Release,
    RetryAfter,
    Way,
)
from headgate.jobs.execution.settling.delayed_retry import HandOver
from headgate.jobs.execution.settling.verdict import Verdict, parked
from headgate.jobs.testing.memory.sqs import MemorySqs


async def settled(
    verdict: Verdict,
    delivery: Delivery,
    sqs: MemorySqs,
    app: App,
    hand_over: HandOver,
    at: datetime,
) -> Verdict:
    """Carry out a verdict; return it, as decided again if no schedule could be created.

    What goes on of a bundle's jobs is sent at once; the bundle is deleted with the last of them.

    Raises:
        EntryRejected: a queue did not take a request.
    """
    queue, receipt, part = delivery.queue.name, delivery.message.receipt, delivery.part
    match verdict.action:
        case RetryAfter() | Release() if part is not None:
            verdict = await _moved(verdict, delivery, sqs, hand_over)
        case RetryAfter(delay_s=delay_s, way=Way.HIDDEN) | Release(delay_s=delay_s, way=Way.HIDDEN):
            change = VisibilityChange(receipt=receipt, timeout_s=delay_s)
            _all_done(await sqs.change_visibility(queue, [change]))
            return verdict
        case RetryAfter() | Release():
            verdict = await _moved(verdict, delivery, sqs, hand_over)
        case DeadLetter() | Quarantine() as action:
            quarantine = app.topology.quarantine_name
            target, letter = parked(delivery, verdict, action, quarantine=quarantine, at=at)
            _all_done(await sqs.send(target, [letter]))
        case Ack():
            pass
    if part is None or part.settle():
        _all_done(await sqs.delete(queue, [receipt]))
    return verdict


async def _moved(
    verdict: Verdict, delivery: Delivery, sqs: MemorySqs, hand_over: HandOver
) -> Verdict:
    verdict, message = await hand_over.take(delivery, verdict)
    if message is not None:
        _all_done(await sqs.send(delivery.queue.name, [message]))
    return verdict


def _all_done(failures: Sequence[EntryFailure]) -> None:
    if failures:
        raise EntryRejected(failures[0])
