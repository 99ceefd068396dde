"""The way of checked submissions through a client, written once for both clients.

It runs over ports that are awaited; `headgate.Client` drives it to its end at once (see
`jobs.core.immediate`). The clients differ in how they send: one request after the other, or
concurrent submissions together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from headgate.jobs.client.fallback import Fallback
from headgate.jobs.client.submitting.key_claims import ClaimMeans
from headgate.jobs.client.submitting.large_payloads import check_sizes, refuse_if
from headgate.jobs.client.submitting.unique import UniqueSubmitter
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.events import Events, JobSubmitted
from headgate.jobs.core.ports.table import AsyncTable
from headgate.jobs.errors import HeadgateError, TransportError
from headgate.jobs.messages.sealing import Seals
from headgate.jobs.submission.mixed import deliver_mixed
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.submission.refused import raise_refused
from headgate.jobs.submission.sealing import sealed

Submit = Callable[[Sequence[Submission]], Awaitable[None]]
"""`SubmissionEngine.send`, for those who need no more of it."""

Send = Callable[[Sequence[Submission]], Awaitable[Sequence[TransportError | None]]]
"""Hands over submissions of one call; returns each one's error, or None."""


class SubmissionEngine:
    """Delivers the submissions of one client.

    Args:
        send: sends jobs to SQS, in order within a FIFO group.
        hold: puts jobs into one-time schedules.
        enter: records the submissions that were taken.
        table: the app's table, in which unique jobs are claimed.
        concurrency: makes several requests at once.
        sleep: pauses between lookups of a claim.
        clock: tells the time.
        events: receives an event for each submission.
        paused: if true, sends nothing, as if SQS could not be reached.
        seals: seals the payloads; None sends them as they are.
    """

    def __init__(
        self,
        *,
        send: Send,
        hold: Send,
        enter: Callable[[Sequence[Submission]], None],
        table: AsyncTable,
        concurrency: Parallelism,
        sleep: Callable[[float], Awaitable[None]],
        clock: Clock,
        events: Events,
        paused: bool,
        seals: Seals | None,
    ) -> None:
        self.fallback: Fallback | None = None
        """The fallback while SQS can't be reached; it may submit through this object itself."""
        self._send = send
        self._hold = hold
        self._enter = enter
        self._clock = clock
        self._events = events
        self._paused = paused
        self._seals = seals
        self._unique = UniqueSubmitter(
            means=ClaimMeans(table=table, sleep=sleep, now=clock.now, tell=events.emit),
            send=self.send,
            concurrency=concurrency,
        )

    async def deliver(self, submissions: Sequence[Submission]) -> Sequence[Submission]:
        """Send the jobs of one call, unique ones without duplicates; return what each became.

        The jobs are of one type, and have the same delay.

        Raises:
            TransportError: SQS could not be reached, or refused; it took none.
            PartlySubmitted: it took only some; the error lists both.
            InlineFailed: the only job ran in place, and failed.
        """
        if not submissions or submissions[0].unique is None:  # then none of them is
            await self.send(submissions)
            return submissions
        return await self._unique.submit(submissions)

    async def deliver_mixed(self, submissions: Sequence[Submission]) -> Sequence[Submission]:
        """Send the jobs of a call of several types; see `jobs.submission.mixed.deliver_mixed`."""
        return await deliver_mixed(submissions, self.deliver)

    async def send(self, submissions: Sequence[Submission]) -> None:
        """Send jobs, or have a schedule or the fallback take them; raises as `deliver`."""
        if not submissions:
            return
        try:
            closed = await sealed(self._seals, submissions)
        except TransportError as error:
            if self.fallback is None or self.fallback.stores or submissions[0].due is not None:
                raise  # nothing is stored that could not be sealed
            await self._fall_back(submissions, [error] * len(submissions))
        else:
            await self._send_closed(submissions, closed)

    async def _send_closed(
        self, submissions: Sequence[Submission], closed: Sequence[Submission]
    ) -> None:
        """Send jobs that are sealed, if the app seals any."""
        if closed[0].due is not None:
            refuse_if(self._paused, scheduled=True)
            raise_refused(closed, self._told(closed, await self._hold(closed)))
            return
        check_sizes(each.message for each in closed)
        if self.fallback is not None and await self.fallback.takes(closed):
            return
        results = self._told(closed, await self._send(closed))
        stores = self.fallback is not None and self.fallback.stores
        await self._fall_back(closed if stores else submissions, results)

    async def _fall_back(
        self, submissions: Sequence[Submission], results: Sequence[TransportError | None]
    ) -> None:
        """Have the fallback take what SQS could not be asked to; raise what remains."""
        outcomes: Sequence[HeadgateError | None] = results
        if self.fallback is not None:
            outcomes = await self.fallback.instead(submissions, results)
        raise_refused(submissions, outcomes)

    def _told(
        self, submissions: Sequence[Submission], results: Sequence[TransportError | None]
    ) -> Sequence[TransportError | None]:
        """Emit and record which submissions have been taken; return the results."""
        at = self._clock.now()
        taken = [each for each, result in zip(submissions, results, strict=True) if result is None]
        if self._events.has_listeners(JobSubmitted):
            for submission in taken:
                self._events.emit(submission.event(at))
        self._enter(taken)
        return results
