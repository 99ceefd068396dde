"""A call of a handler under a claim: one runner at a time, and none once the job is done.

    claim    another has it → given back; done already → its outcome; the table is away → given back
    call     as every handler is called, while a task renews the claim at a third of its lease
    settle   done → said in the claim, before the message is deleted; else the claim is given back

A runner that loses its claim is stopped, as far as its handler can be, and its outcome counts only
if nobody has claimed the job since.

While the table is away nothing new is claimed, and what has ended is held until that can be said.
That holds however long it takes, if the runner lives and reaches the table about as soon as others
do (`jobs.execution.claims`). A job that has ended is run again in two cases: its process dies
before it could say so, or it had to stop before, its message was deleted, and a second message of
the job comes.

Whether a later job has replaced one is asked here too (`replaced_by`): it is looked up in the same
table, when the job would start.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable
from typing import Any, Literal, TypeVar

from headgate.jobs.core.events import ClaimFailed, JobDeduplicated
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.uniqueness import place
from headgate.jobs.errors import ConfigurationError, TransportError
from headgate.jobs.execution import job_events
from headgate.jobs.execution.call import Call, Means
from headgate.jobs.execution.claims import Claim, Claims, Ended, Held, answered
from headgate.jobs.execution.delivery import Delivery, Job
from headgate.jobs.execution.outcome import Deferred, Discarded, Done, Failed, Interrupted, Outcome
from headgate.jobs.retry.backoff import Backoff, job_rng
from headgate.jobs.values.texts import text_of

T = TypeVar("T")

_log = logging.getLogger("headgate.worker")

_AWAY = Backoff.exponential(base=5, cap=900, jitter="equal")
"""How long a job stays away that can't be claimed because the table is, by the delivery."""

_LONGEST_S = 3600.0
"""How long one stays away at most that another runner has."""

_ROUNDS = Backoff.exponential(base=0.25, factor=2, cap=1, jitter="equal")
"""The pauses between tries to say that a job is done: no longer than
`jobs.execution.claims.GRACE_S` allows, so that it is said before another runner can have the job,
once the table is back."""

_PATIENCE_S = 1.0
"""How long an interrupted call still tries to settle its claim."""

RENEWALS, _TRIES = 3, 12
"""A lease is renewed so many times in its length, and tried so many times while that fails."""

_Action = Literal["take", "renew", "release", "finish"]


def needs_claims(app: App) -> bool:
    """Whether a type of the app needs claims, and so the table."""
    return any(_is_claimed(job) for job in app.types.values())


def require_claims(app: App, claims: Claims | None) -> None:
    """Check that what the app's types want of the table is there where they are to run.

    Raises:
        ConfigurationError: there is no table for that.
    """
    if claims is None and needs_claims(app):
        raise _unclaimable(app)


def _unclaimable(app: App) -> ConfigurationError:
    names = ", ".join(repr(job.name) for job in app.types.values() if _is_claimed(job))
    return ConfigurationError(
        f"the app {app.name!r} has types with once=True or unique='replace' ({names}), whose "
        "jobs are claimed in its table: give Worker or consumer a table="
    )


def _is_claimed(job: JobType[Any, Any]) -> bool:
    return job.once or (bool(job.unique.lasting) and job.unique.mode == "replace")


async def replaced_by(means: Means, job: Job, delivery: Delivery) -> str | None:
    """The id of the job that has replaced this one, if any; see `jobs.client.unique`.

    A job that can be replaced costs a read. Without an answer it is run: it may have been replaced,
    but it must not be lost.
    """
    by = job.envelope.options.unique if job.envelope.options else None
    if by is None or by.mode != "replace" or means.claims is None:
        return None
    where, job_id = place(by), job.attempt.job_id
    try:
        standing = await answered(means.claims.table.get(where.pk, where.sk))
    except TransportError as error:
        means.events.emit(
            ClaimFailed(
                at=means.clock.now(),
                queue=delivery.queue.name,
                action="look",
                job_id=job_id,
                error=str(error),
            )
        )
        return None
    if standing is None or standing.data["job"] <= job_id:
        return None
    later: str = standing.data["job"]
    means.events.emit(
        JobDeduplicated(
            at=means.clock.now(),
            job_id=job_id,
            job_type=job.type.name,
            queue=delivery.queue.group,
            priority=delivery.queue.priority,
            tenant=job.envelope.tenant,
            kept=later,
        )
    )
    return later


class OnceCall:
    """One call of a job's handler, if the job can be claimed; the face of
    `jobs.execution.call.Call`."""

    def __init__(
        self,
        means: Means,
        job: Job,
        delivery: Delivery,
        names: dict[str, Any],
    ) -> None:
        if means.claims is None:
            raise _unclaimable(means.app)  # its host should have looked before
        self._means = means
        self._job = job
        self._delivery = delivery
        self._names = names
        self._call = Call(means, job, delivery, names)
        keep = means.app.keep_of(job.type).completed
        self._claim: Claim = means.claims.on(job.attempt.job_id, delivery.queue, keep=keep)
        self._interruption: str | None = None
        self._goes_on = False
        """It was given up, while its thread can't be stopped."""
        self._keeping: asyncio.Task[str] | None = None
        self._asking: asyncio.Timeout | None = None
        """Of what is asked of the table now."""

    @property
    def running(self) -> bool:
        """Whether the handler has been called and has not ended."""
        return self._call.running

    @property
    def ran_s(self) -> float:
        """How long the handler ran, once it has ended; 0 where it was not called."""
        return self._call.ran_s

    def interrupt(self, reason: str, *, abandon: bool) -> None:
        """Ask it to end early; see `jobs.execution.run.Run.interrupt`."""
        self._interruption = self._interruption or reason
        if abandon and self._call.running:
            self._goes_on = not self._means.can_cancel(self._job)
            if self._keeping is not None:
                self._keeping.cancel()  # nobody answers for it any more, so the lease runs out
        self._call.interrupt(reason, abandon=abandon)
        if self._asking is not None and self._asking.when() is None:
            self._asking.reschedule(asyncio.get_running_loop().time() + _PATIENCE_S)

    def given_up(self) -> Failed:
        """See `jobs.execution.call.Call.given_up`; the claim stands until its lease has run out."""
        return self._call.given_up()

    async def outcome(self) -> Outcome:
        """Claim the job, call the handler, settle the claim; returns how the delivery ended."""
        try:
            standing = await self._bounded(self._claim.take())
        except TransportError as error:
            self._report("take", error)
            return self._deferred_by_table(error)
        except TimeoutError:
            return self._interrupted()
        match standing:
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
        """Renew the claim until it is lost; returns how."""
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
            # A fault of ours. Without renewals another runner would soon have the job too.
            _log.error("the claim of job %s is not kept", self._names["job_id"], exc_info=error)
        self.interrupt("its claim is not kept" if error else keeping.result(), abandon=False)

    # --- settling the claim ----------------------------------------------------------------------

    async def _settled(self, outcome: Outcome) -> Outcome:
        """What an outcome counts as, once the claim says the same."""
        if self._keeping is not None:
            self._keeping.cancel()  # or it would go on from what is no longer there
        if self._goes_on and isinstance(outcome, Interrupted):
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
        """What an outcome counts as that could not be said in the claim before the end of this.

        A job that has ended would surely run again if its message were given back; deleted, only a
        second message of the job can bring it back, and only after the lease.
        """
        if not isinstance(outcome, Done | Discarded):
            return self._interrupted()
        self._report("finish", TransportError("that the job is done could not be said in time"))
        return outcome

    async def _insist(self, outcome: Done | Discarded) -> bool:
        """Try until the claim says that the job is done: it would be run again otherwise.

        The host holds the message meanwhile, and interrupts this when it no longer can. However
        long the table is away, whoever finds that the lease has ended leaves the time for it.
        """
        rounds = 0
        while True:
            try:
                return await self._claim.finish(outcome)
            except TransportError as error:
                self._report("finish", error)
            rounds += 1
            await asyncio.sleep(_ROUNDS.delay_s(min(rounds, 10), self._rng))

    async def _release(self) -> bool:
        """Let the next runner have it at once; whether it can't be another's by now."""
        still_ours = self._claim.left_s > 0
        try:
            return await self._claim.release()
        except TransportError as error:
            self._report("release", error)
            return still_ours

    async def _bounded(self, asking: Awaitable[T]) -> T:
        """Ask the table for as long as it takes; but who has been interrupted has little patience.

        Raises:
            TimeoutError: that is used up.
        """
        loop = asyncio.get_running_loop()
        ends_at = None if self._interruption is None else loop.time() + _PATIENCE_S
        try:
            async with asyncio.timeout_at(ends_at) as self._asking:
                return await asking
        finally:
            self._asking = None

    # --- giving the delivery back ----------------------------------------------------------------

    def _interrupted(self) -> Interrupted:
        return Interrupted(reason=self._interruption or "another runner has claimed the job")

    def _deferred_by_another(self, held: Held) -> Deferred:
        # Who has had it for long may well go on for as long. So a job that runs for hours costs few
        # looks, and what its runner's death adds is in proportion.
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
