"""A call of a handler under a claim: one runner at a time, and none once the job is done.

    claim    held by another runner → given back; already done → its outcome;
             the table is unreachable → given back; none of Headgate's → parked
    call     like every handler, while a task renews the claim every third of its lease
    settle   done → recorded in the claim, before the message is deleted; else the claim is released

A runner that loses its claim is stopped, if its handler can be stopped, and its outcome counts only
if no other runner has claimed the job since.

While the table is unreachable no job is claimed, and a job that has ended is held until its claim
can record that. This works for an outage of any length, if the runner lives and reaches the table
about as soon as others do (`jobs.execution.calling.claims`). A job that has ended runs again in two
cases: its process died before the claim recorded the end; or the process had to stop before that,
the message was deleted, and a second message of the job arrives.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from typing import Any, Literal, TypeVar

from headgate.jobs.core.events import ClaimFailed, ItemsSkipped
from headgate.jobs.definitions.policies import job_keep_of
from headgate.jobs.errors import ConfigurationError, ItemUnreadable, TransportError
from headgate.jobs.execution import job_events
from headgate.jobs.execution.calling.batch_call import Seat
from headgate.jobs.execution.calling.call import BatchSeat, HandlerCall
from headgate.jobs.execution.calling.claim_items import Ended, Held, Unreadable
from headgate.jobs.execution.calling.claims import Claim
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery, Job
from headgate.jobs.execution.outcome import (
    Deferred,
    Discarded,
    Done,
    Failed,
    Interrupted,
    Outcome,
    Reason,
    Unrunnable,
)
from headgate.jobs.retry.backoff import Backoff, job_rng
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import text_of

T = TypeVar("T")

_log = OwnLog("headgate.worker")

_AWAY = Backoff.exponential(base=5, cap=900, jitter="equal")
"""Backoff, by delivery, while the claims table is unreachable."""

_LONGEST_S = 3600.0
"""Longest redelivery delay, in seconds, of a job that another runner has claimed."""

_ROUNDS = Backoff.exponential(base=0.25, factor=2, cap=1, jitter="equal")
"""Pauses between attempts to record that a job is done: short enough for
`jobs.execution.calling.claims.GRACE_S`, so that once the table is back the end is recorded before
another runner can claim the job."""

_PATIENCE_S = 1.0
"""Seconds for which an interrupted call still tries to settle its claim."""

RENEWALS, _TRIES = 3, 12
"""Renewals per lease, and attempts per lease while renewing fails."""

_Action = Literal["take", "renew", "release", "finish"]


def call_of(
    means: Means, job: Job, delivery: Delivery, names: dict[str, Any], seat: Seat | None
) -> HandlerCall | OnceCall:
    """Return a job's call of its handler.

    Args:
        means: the app, and the means of calling its handlers.
        job: the job.
        delivery: its delivery.
        names: the fields that each of its events carries.
        seat: its place in the call of a batch handler; None if its handler takes single jobs.
    """
    make = OnceCall if job.type.once else HandlerCall
    return make(means, job, delivery, names, seat)


class OnceCall:
    """One call of a job's handler, made only if the job can be claimed. Same interface as
    `jobs.execution.calling.call.HandlerCall`."""

    def __init__(
        self,
        means: Means,
        job: Job,
        delivery: Delivery,
        names: dict[str, Any],
        seat: BatchSeat | None = None,
    ) -> None:
        if means.claims is None:
            raise ConfigurationError(
                f"{job.type!r} is claimed in the app's table, and this process has none"
            )
        self._means = means
        self._job = job
        self._delivery = delivery
        self._names = names
        self._call = HandlerCall(means, job, delivery, names, seat)
        keep = job_keep_of(means.app, job.type, job.envelope).completed
        tenant = job.envelope.tenant
        self._claim: Claim = means.claims.on(
            job.attempt.job_id,
            job.type.name,
            delivery.queue,
            keep=keep,
            org=tenant.org if tenant is not None else "",
        )
        self._interruption: str | None = None
        self._goes_on = False
        """True if the call was given up while its thread, which can't be stopped, runs on."""
        self._keeping: asyncio.Task[str] | None = None
        self._asking: asyncio.Timeout | None = None
        """The timeout of the current request to the table."""

    @property
    def running(self) -> bool:
        """True while the handler runs."""
        return self._call.running

    @property
    def began(self) -> bool:
        """True once the handler has been called; it never is if the job can't be claimed."""
        return self._call.began

    @property
    def began_at(self) -> float:
        """Time at which the handler was called, on the monotonic clock; 0 before."""
        return self._call.began_at

    @property
    def ran_s(self) -> float:
        """Seconds that the handler ran, once it has ended; 0 if it was not called."""
        return self._call.ran_s

    def interrupt(self, reason: str, *, abandon: bool, spent: bool = False) -> None:
        """Ask the handler to end early; see `jobs.execution.run.Run.interrupt`."""
        self._interruption = self._interruption or reason
        if abandon and self._call.running:
            self._goes_on = not self._means.can_cancel(self._job)
            if self._keeping is not None:
                self._keeping.cancel()  # nothing waits for it any more, so the lease may run out
        self._call.interrupt(reason, abandon=abandon, spent=spent)
        if self._asking is not None and self._asking.when() is None:
            self._asking.reschedule(asyncio.get_running_loop().time() + _PATIENCE_S)

    def given_up(self) -> Failed:
        """See `jobs.execution.calling.call.HandlerCall.given_up`.

        The claim stands until its lease ends.
        """
        return self._call.given_up()

    async def outcome(self) -> Outcome:
        """Claim the job, call the handler, settle the claim, and return the outcome."""
        try:
            standing = await self._bounded(self._claim.take())
        except ItemUnreadable:
            return self._unrunnable()
        except TransportError as error:
            self._report("take", error)
            return self._deferred_by_table(error)
        except TimeoutError:
            return self._interrupted()
        if self._claim.is_aside:
            self._tell_skipped("another type's or queue's")
        match standing:
            case Unreadable():
                return self._unrunnable()
            case Held():
                return self._deferred_by_another(standing)
            case Ended(outcome=outcome):
                at = self._means.clock.now()
                self._means.events.emit(job_events.already_done(self._names, at))
                return outcome
        if self._interruption is not None:
            return await self._settled(self._interrupted())
        return await self._called()

    async def _called(self) -> Outcome:
        self._keeping = asyncio.create_task(self._keep(), name="headgate-claim")
        self._keeping.add_done_callback(self._kept_no_more)
        try:
            return await self._call.outcome(self._settled)
        finally:
            self._keeping.cancel()

    # --- keeping the claim -----------------------------------------------------------------------

    async def _keep(self) -> str:
        """Renew the claim until it is lost, and return the reason."""
        pause_s = self._claim.lease_s / RENEWALS
        while True:
            await asyncio.sleep(min(pause_s, self._claim.left_s))
            try:
                async with asyncio.timeout(self._claim.left_s):
                    if not await self._claim.renew():
                        return "another runner has claimed the job"
                pause_s = self._claim.lease_s / RENEWALS
            except TransportError as error:
                self._report("renew", error)
                pause_s = self._claim.lease_s / _TRIES
            except TimeoutError:
                return "its claim on the job could not be renewed in time"

    def _kept_no_more(self, keeping: asyncio.Task[str]) -> None:
        if keeping.cancelled():
            return
        if (error := keeping.exception()) is not None:
            # A bug of ours. Without renewals another runner would soon claim the job too.
            _log.error("renewing the claim of job %s failed", self._names["job_id"], exc_info=error)
        self.interrupt("its claim was not renewed" if error else keeping.result(), abandon=False)

    # --- settling the claim ----------------------------------------------------------------------

    async def _settled(self, outcome: Outcome) -> Outcome:
        """Record the outcome in the claim, and return the outcome that counts."""
        if self._keeping is not None:
            self._keeping.cancel()  # or it would renew from a state that is out of date
        if self._goes_on and isinstance(outcome, Interrupted | Failed):
            return outcome  # a retry must not start before the lease has ended
        try:
            if isinstance(outcome, Done | Discarded):
                is_ours = await self._bounded(self._insist(outcome))
            else:
                is_ours = await self._bounded(self._release())
        except TimeoutError:
            return self._unsaid(outcome)
        return outcome if is_ours else self._interrupted()

    def _unsaid(self, outcome: Outcome) -> Outcome:
        """Return the outcome that counts when the claim could not record it in time.

        A job that has ended would certainly run again if its message were released. With the
        message deleted, only a second message of the job can run it, and only after the lease.
        """
        if not isinstance(outcome, Done | Discarded):
            return self._interrupted()
        self._report("finish", TransportError("that the job is done could not be said in time"))
        return outcome

    async def _insist(self, outcome: Done | Discarded) -> bool:
        """Try until the claim records that the job is done: otherwise it would run again.

        The host keeps the message hidden meanwhile, and interrupts this when it no longer can.
        However long the table was unreachable, a runner that finds the lease expired leaves
        `jobs.execution.calling.claims.GRACE_S` for this write.
        """
        rounds = 0
        while True:
            try:
                return await self._claim.finish(outcome)
            except ItemUnreadable as error:  # and never will be: the job is done all the same
                self._report("finish", error)
                return True
            except TransportError as error:
                self._report("finish", error)
            rounds += 1
            await asyncio.sleep(_ROUNDS.delay_s(min(rounds, 10), self._rng))

    async def _release(self) -> bool:
        """Release the claim for the next runner; return True if it was still ours."""
        still_ours = self._claim.left_s > 0
        try:
            return await self._claim.release()
        except TransportError as error:
            self._report("release", error)
            return still_ours

    async def _bounded(self, asking: Awaitable[T]) -> T:
        """Wait for the table without a limit, or for `_PATIENCE_S` once the call is interrupted.

        Raises:
            TimeoutError: `_PATIENCE_S` has passed.
        """
        loop = asyncio.get_running_loop()
        ends_at = None if self._interruption is None else loop.time() + _PATIENCE_S
        try:
            async with asyncio.timeout_at(ends_at) as self._asking:
                return await asking
        finally:
            self._asking = None

    # --- giving the delivery back ----------------------------------------------------------------

    def _unrunnable(self) -> Unrunnable:
        """Return the outcome where the claim doesn't tell whether the job has ended."""
        detail = "its claim in the table is none that Headgate has written"
        self._tell_skipped(detail)
        return Unrunnable(reason=Reason.CLAIM_UNREADABLE, detail=detail)

    def _tell_skipped(self, detail: str) -> None:
        job_id = self._job.attempt.job_id
        at = self._means.clock.now()
        self._means.events.emit(
            ItemsSkipped(at=at, kind="claim", items=1, job_id=job_id, detail=detail)
        )

    def _interrupted(self) -> Interrupted:
        return Interrupted(reason=self._interruption or "another runner has claimed the job")

    def _deferred_by_another(self, held: Held) -> Deferred:
        # A runner that has held the job for long may well hold it for as long again. So a job that
        # runs for hours is rarely looked at, and the delay after its runner's death is in
        # proportion to its run time.
        after_s = max(held.left_s, min(held.ran_s, _LONGEST_S))
        return Deferred(after_s=after_s, reason="another runner has claimed the job")

    def _deferred_by_table(self, error: TransportError) -> Deferred:
        after_s = _AWAY.delay_s(self._job.attempt.receives, self._rng)
        return Deferred(after_s=after_s, reason=f"the job could not be claimed: {text_of(error)}")

    @property
    def _rng(self) -> random.Random:
        return job_rng(self._job.attempt.job_id)

    def _report(self, action: _Action, error: TransportError) -> None:
        self._means.events.emit(
            ClaimFailed(
                at=self._means.clock.now(),
                queue=self._delivery.queue.name,
                action=action,
                job_id=self._names["job_id"],
                error=str(error),
            )
        )
