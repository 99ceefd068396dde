"""Messages that are no job here: refused for good, or until their signatures can be checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from headgate.jobs.core.events import Event
from headgate.jobs.definitions.app import App
from headgate.jobs.execution import job_events
from headgate.jobs.execution.adoption import UNNAMED
from headgate.jobs.execution.delivery import UNRUNNABLE, Delivery, legible
from headgate.jobs.execution.failure import unrunnable_failure
from headgate.jobs.execution.outcome import NAMED_JOBS, Attempt, Reason, Unrunnable, Unstarted
from headgate.jobs.execution.settling.actions import Action
from headgate.jobs.execution.settling.settlement import Room
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.messages.keyring import GAP_S, Keyring, KeyUnknown
from headgate.jobs.retry.backoff import Backoff, job_rng
from headgate.jobs.values.texts import text_of

_BACKOFF = Backoff.exponential(base=5, cap=900, jitter="equal")
"""Backoff while the keys can't be read: long enough that SQS's limit on deliveries comes near only
after days."""

_SOON = Backoff.fixed(2 * GAP_S, jitter="equal")

_STEPS = 10  # by then the backoff has long reached its cap


def refusal(error: Exception) -> Unrunnable:
    """Return the outcome of a message that was refused by one of the errors of `UNRUNNABLE`."""
    return Unrunnable(reason=UNRUNNABLE[type(error)], detail=text_of(error))


async def checked_late(
    unfit: Unrunnable, delivery: Delivery, keyring: Keyring | None
) -> Unrunnable | Unstarted:
    """Return the outcome of a message whose signature names a key that was not known.

    Any other has the outcome that is known: ``unfit``.

    If the key is known after all once the keys are read anew, or if they can't be read, the message
    goes back to its queue, at no cost of an attempt: what is known of a job is read before its
    start, and not at it.
    """
    if keyring is None or unfit.reason is not Reason.WAIT_TOO_LONG:
        return unfit
    message = delivery.message
    try:
        await keyring.verify(message.body, delivery.destination)
    except KeyUnknown as error:
        backoff = _SOON if error.is_soon else _BACKOFF
        steps = min(message.receive_count, _STEPS)
        after_s = backoff.delay_s(steps, job_rng(message.message_id))
        return Unstarted(after_s=after_s, reason=str(error))
    except tuple(UNRUNNABLE) as error:
        return refusal(error)
    return Unstarted(reason="the key of its signature had to be read")


def verdict_on(
    outcome: Unrunnable | Unstarted,
    delivery: Delivery,
    app: App,
    *,
    unfit: Unrunnable,
    tries: int | None,
    known: bool,
    lives_s: float,
    room: Room,
) -> Verdict:
    """Return the verdict on a delivery of a message that is no job here.

    Args:
        outcome: the outcome of this delivery.
        delivery: the delivery.
        app: its parking policy applies.
        unfit: why the message is no job here.
        tries: earlier deliveries that could not be run either; None if only deliveries are counted.
        known: False if records of earlier deliveries could not be read.
        lives_s: seconds for which the message may stay hidden.
        room: the waits that are possible.
    """
    message, envelope = delivery.message, legible(app, delivery)
    job_type = envelope.type if envelope else message.attributes.get("JobType", UNNAMED)
    attempt = Attempt(
        job_id=str(envelope.id) if envelope else message.message_id,
        number=message.receive_count if tries is None else tries + 1,
        max_attempts=app.parking.max_attempts,
        receives=message.receive_count,
        known=known,
        lives_s=lives_s,
        renewable=False,  # a message that can't be read is left as it is
    )
    if app.parking.backoff.needs_context:
        attempt = replace(attempt, failed=unrunnable_failure(delivery, attempt, job_type))
    tell: Callable[[Action, datetime], Sequence[Event]]
    tell = partial(job_events.unrunnable, delivery, envelope, unfit)
    if envelope is not None and unfit.reason in NAMED_JOBS and envelope.type in app.types:
        tell = partial(job_events.unrunnable_job, delivery, envelope, unfit, attempt)
    return Verdict(
        outcome=outcome,
        attempt=attempt,
        policy=app.parking,
        room=room,
        job_type=job_type,
        tell=tell,
    )
