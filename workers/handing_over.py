"""Handing jobs over to one-time schedules, where their next attempt lies beyond what SQS can hold.

Without a scheduler, or where it fails, the message stays in its queue and shows again sooner.
"""

from __future__ import annotations

from jobs.clock import Clock
from jobs.errors import TransportError
from jobs.events import Events, SettlementFailed
from jobs.execution import Verdict
from jobs.handover import beyond_sqs, cut, next_attempt
from jobs.ports import Scheduler
from jobs.settlement import Release, RetryAfter
from jobs.topology import Topology
from workers.holding import Hold

_SQS_LIMIT = "SQS hides a message for 12 hours since its receipt at most"


class HandOver:
    """Makes the schedules.

    Args:
        scheduler: keeps them; None if the app has none.
        topology: names what they invoke.
        clock: tells the time.
        events: hears of schedules that could not be made.
    """

    def __init__(
        self, scheduler: Scheduler | None, topology: Topology, *, clock: Clock, events: Events
    ) -> None:
        self._scheduler = scheduler
        self._topology = topology
        self._clock = clock
        self._events = events

    async def take(self, hold: Hold, verdict: Verdict) -> tuple[Verdict, bool]:
        """Take a job over if need be.

        Returns the verdict as it can be carried out, and whether a schedule owns the job now, so
        that its message has to be deleted.
        """
        if not isinstance(verdict.action, RetryAfter | Release):
            return verdict, False
        delay_s = verdict.action.delay_s
        possible_s = hold.possible_s(delay_s, self._clock.monotonic())
        now = self._clock.now()
        if not beyond_sqs(hold.delivery, verdict, possible_s, now):
            return cut(verdict, possible_s, _SQS_LIMIT), False
        if self._scheduler is None:
            return cut(verdict, possible_s, f"{_SQS_LIMIT}, and there is no scheduler"), False
        spec = next_attempt(hold.delivery, verdict, self._topology, now)
        if spec is None:
            return cut(verdict, possible_s, "the job is too large for a one-time schedule"), False
        try:
            made = await self._scheduler.create(
                spec, token=f"{hold.delivery.message.message_id}-{delay_s}"[-64:]
            )
        except TransportError as error:
            self._report(hold, verdict, error)
            return cut(verdict, possible_s, f"no one-time schedule: {error}"), False
        if not made:
            why = "there is a one-time schedule of this job already"
            return cut(verdict, possible_s, why), False
        return verdict, True

    def _report(self, hold: Hold, verdict: Verdict, error: TransportError) -> None:
        self._events.emit(
            SettlementFailed(
                at=self._clock.now(),
                queue=hold.delivery.queue.name,
                message_id=hold.delivery.message.message_id,
                job_id=verdict.attempt.job_id,
                action="schedule",
                error=str(error),
            )
        )
