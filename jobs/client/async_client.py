"""The client that submits jobs from an event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from headgate.jobs.client.concurrency import Tasks
from headgate.jobs.client.delaying import hold_all
from headgate.jobs.client.fallback import AsyncFallback, FallbackName, check_choice
from headgate.jobs.client.handle import AsyncJobHandle, Lookup
from headgate.jobs.client.large_payloads import Storing, refuse_if
from headgate.jobs.client.own_table import AsyncOwnTable
from headgate.jobs.client.preparing import Preparing
from headgate.jobs.client.schedules import AsyncSchedules
from headgate.jobs.client.spool.policy import Spool, StrPath
from headgate.jobs.client.submission_records import AsyncRegister
from headgate.jobs.client.turns import Turns
from headgate.jobs.client.unique import UniqueSubmitter
from headgate.jobs.core.batcher import Batcher, Pacing
from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports import (
    EntryFailure,
    ObjectStore,
    OutgoingMessage,
    Scheduler,
    Table,
    Transport,
)
from headgate.jobs.core.settings import Settings
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import Given, JobType, NewJob
from headgate.jobs.definitions.overrides import Overrides
from headgate.jobs.errors import ConfigurationError, HeadgateError, TransportError
from headgate.jobs.execution.handler_host import Send
from headgate.jobs.messages.outgoing import lane_of, size_of
from headgate.jobs.schedules.delayed_jobs import DelayedJobs
from headgate.jobs.submission.mixed import deliver_mixed, listed
from headgate.jobs.submission.prepare import Submission, prepare_each, prepare_many
from headgate.jobs.submission.refused import raise_refused

P = TypeVar("P")
R = TypeVar("R")


class AsyncClient:
    """Submits jobs of one app through SQS, from one event loop; use it with ``async with``.

    Concurrent submits share requests: an idle client sends at once, and jobs submitted while a
    request is under way go with the next one. Each `submit` returns when SQS has its own job.
    Jobs of one FIFO group keep the order of their calls, even if the calls overlap.

    Args:
        app: the app whose jobs are submitted.
        transport: sends the jobs; None creates one with aiobotocore and the standard AWS settings.
        scheduler: holds long delays, and keeps schedules; None creates one with aiobotocore when it
            is needed.
        table: the app's table, in which jobs are looked up; None opens it when first needed.
        store: takes payloads over the app's limit. None creates one with aiobotocore if there is no
            ``transport`` either; else SQS's own limit of 1 MiB applies.
        clock: tells the time.
        events: receives an event for each submitted job; None logs what a fallback has to do.
        pacing: how submissions are batched.
        sleep: pauses between two lookups of a job.
        spool: as for `headgate.Client`.
        fallback: as for `headgate.Client`, but in the calling task.

    Example:
        >>> async with AsyncClient(app) as client:  # doctest: +SKIP
        ...     job = await client.submit(send_email, Email(to="a@b.example"))
    """

    def __init__(
        self,
        app: App,
        *,
        transport: Transport | None = None,
        scheduler: Scheduler | None = None,
        table: Table | None = None,
        store: ObjectStore | None = None,
        clock: Clock | None = None,
        events: Events | None = None,
        pacing: Pacing = Pacing(),  # noqa: B008 - frozen
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        spool: StrPath | Spool | None = None,
        fallback: FallbackName | None = None,
    ) -> None:
        self._app = app
        self._concurrency = Tasks()
        self._clock = clock or SystemClock()
        kept_in = check_choice(spool, fallback)
        self._events = events or (Events(log_event) if kept_in or fallback else Events())
        self._paused = Settings.from_env().paused
        # With a fallback, submitters need not wait for an outage to end.
        insist = pacing.insist and not (kept_in or fallback or self._paused)
        self._pacing = replace(pacing, insist=insist)
        self._rng = random.Random()  # noqa: S311 - spreads pauses, guards no secret
        self._storing = self._storing_by(transport, store) if transport is not None else None
        self._store = store
        self._scheduler = scheduler
        # With a transport from the caller there is a scheduler only if the caller gave one.
        self._has_scheduler = app.long_delays and (scheduler is not None or transport is None)
        self._delayed = DelayedJobs(self._open_scheduler, lambda: app.topology, self._clock)
        self.schedules: AsyncSchedules[AsyncJobHandle[Any]] = AsyncSchedules(
            app,
            self._open_scheduler,
            self._send_all,
            self.handle,
            self._delayed,
            self._clock,
            concurrency=self._concurrency,
            sleep=sleep,
            rng=self._rng,
        )
        """The app's schedules, and the jobs that wait in one; see
        `jobs.client.schedules.Schedules`."""
        self._owned = AsyncExitStack()
        self._table = table or self._own_table(app)
        self._register = AsyncRegister(
            app, self._table, clock=self._clock, events=self._events, rng=self._rng
        )
        self._lookup = Lookup(
            app=app,
            table=self._table,
            clock=self._clock,
            rng=self._rng,
            concurrency=self._concurrency,
            sleep=sleep,
            unschedule=self._unschedule,
            store=lambda: self._store,
        )
        self._sending: set[asyncio.Future[Submission]] = set()
        self._batchers: dict[str, Batcher[OutgoingMessage]] = {}
        self._preparing = Preparing(app)
        self._turns = Turns()
        self._unique = UniqueSubmitter(
            table=self._lookup.table,
            send=self._send_all,
            concurrency=self._concurrency,
            sleep=self._lookup.sleep,
            now=self._clock.now,
            tell=self._events.emit,
        )
        self._fallback = self._make_fallback(kept_in, fallback)

    def _own_table(self, app: App) -> Table:
        table = AsyncOwnTable(app)
        self._owned.push_async_callback(table.close)
        return table

    async def __aenter__(self) -> Self:
        if self._storing is None:
            from headgate.jobs.aws.sqs.transport import AsyncSqsTransport

            sqs = await self._owned.enter_async_context(AsyncSqsTransport())
            if self._store is None:
                from headgate.jobs.aws.s3 import AsyncS3Store

                own = AsyncS3Store(self._app.topology.bucket)
                self._store = await self._owned.enter_async_context(own)
            self._storing = self._storing_by(sqs, self._store)
        if self._fallback is not None:
            try:
                await self._fallback.open()
            except BaseException:
                await self._owned.aclose()
                raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Send the waiting jobs, then close everything that this client opened. Idempotent."""
        await self._preparing.all_over()
        await asyncio.gather(*(batcher.drain() for batcher in self._batchers.values()))
        await self._turns.all_over()
        if self._sending:
            await asyncio.wait(self._sending)
        if self._fallback is not None:
            await self._fallback.close()
        await self._register.drain()
        await self._owned.aclose()

    @overload
    async def submit(self, job: NewJob[R]) -> AsyncJobHandle[R]: ...
    @overload
    async def submit(
        self, job: JobType[None, R], **overrides: Unpack[Overrides]
    ) -> AsyncJobHandle[R]: ...
    @overload
    async def submit(
        self, job: JobType[P, R], payload: Given[P], **overrides: Unpack[Overrides]
    ) -> AsyncJobHandle[R]: ...
    async def submit(
        self,
        job: JobType[Any, Any] | NewJob[Any],
        payload: Any = None,
        **overrides: Unpack[Overrides],
    ) -> AsyncJobHandle[Any]:
        """Submit one job: `headgate.Client.submit`, awaited."""
        prepare = partial(prepare_many, self._app, self._app.topology, job, [payload], overrides)
        kind, told = (job.type, job.payload) if isinstance(job, NewJob) else (job, payload)
        [handle] = await self._submit(prepare, [kind], [told])
        return handle

    @overload
    async def submit_many(self, jobs: Iterable[NewJob[R]], /) -> list[AsyncJobHandle[R]]: ...
    @overload
    async def submit_many(
        self, job: JobType[P, R], payloads: Iterable[Given[P]], **overrides: Unpack[Overrides]
    ) -> list[AsyncJobHandle[R]]: ...
    async def submit_many(
        self, job: Any, payloads: Iterable[Any] | None = None, **overrides: Unpack[Overrides]
    ) -> list[AsyncJobHandle[Any]]:
        """Submit many jobs: `headgate.Client.submit_many`, awaited."""
        if payloads is None:
            jobs = listed(job, overrides)
            prepare = partial(prepare_each, self._app, self._app.topology, jobs)
            kinds, told = [new.type for new in jobs], [new.payload for new in jobs]
            return await self._submit(prepare, kinds, told, mixed=True)
        told = [*payloads]
        prepare = partial(prepare_many, self._app, self._app.topology, job, told, overrides)
        return await self._submit(prepare, [job] * len(told), told)

    async def _submit(
        self,
        prepare: Callable[[datetime], list[Submission]],
        kinds: Sequence[JobType[Any, Any]],
        payloads: Sequence[Any],
        *,
        mixed: bool = False,
    ) -> list[AsyncJobHandle[Any]]:
        queues = {getattr(kind, "queue", "") for kind in kinds}  # `prepare` refuses non-types
        check = partial(prepare, self._clock.now())
        submissions = await self._preparing.prepared(check, queues, payloads)
        if mixed and self._storing is not None:
            self._storing.check(each.message for each in submissions if each.due is None)
        sent = await self._deliver(submissions, self._turns, mixed=mixed)
        return [
            AsyncJobHandle(each.id, self._lookup, kind, is_duplicate=each.is_duplicate)
            for kind, each in zip(kinds, sent, strict=True)
        ]

    @overload
    def handle(self, job_id: str) -> AsyncJobHandle[Any]: ...
    @overload
    def handle(self, job_id: str, job: JobType[P, R]) -> AsyncJobHandle[R]: ...
    def handle(self, job_id: str, job: JobType[Any, Any] | None = None) -> AsyncJobHandle[Any]:
        """Return a handle of a job that was submitted elsewhere; see `headgate.Client.handle`."""
        return AsyncJobHandle(job_id, self._lookup, job)

    def send(self, submission: Submission) -> asyncio.Future[Submission]:
        """Send a prepared submission, in the background even if the future is not awaited.

        Returns:
            A future that is done once SQS has the job, and raises as `submit` does. Its result is
            the submission, possibly marked as a duplicate.
        """
        return self._begin(submission, self._turns)

    def _begin(self, submission: Submission, turns: Turns) -> asyncio.Future[Submission]:
        sending = asyncio.ensure_future(self._deliver_one(submission, turns))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        return sending

    def _sends_within(self) -> AbstractContextManager[Send]:
        """Return a context manager for inline jobs' submissions, sent within their call's turn."""
        return nullcontext(partial(self._begin, turns=Turns()))

    async def _deliver_one(self, submission: Submission, turns: Turns) -> Submission:
        [became] = await self._deliver([submission], turns)
        return became

    async def _deliver(
        self, submissions: Sequence[Submission], turns: Turns, *, mixed: bool = False
    ) -> Sequence[Submission]:
        """Send the jobs of one call in its turn; return what each of them has become."""
        become = partial(deliver_mixed, deliver=self._become) if mixed else self._become
        lanes = {lane for each in submissions if (lane := lane_of(each.message)) is not None}
        if not lanes:
            return await become(submissions)
        async with turns.of(lanes):
            return await become(submissions)

    async def _become(self, submissions: Sequence[Submission]) -> Sequence[Submission]:
        """Send the jobs of one call, unique ones without duplicates; return what each became."""
        if not submissions or submissions[0].unique is None:  # then none of them is
            await self._send_all(submissions)
            return submissions
        return await self._unique.submit(submissions)

    async def _send_all(self, submissions: Sequence[Submission]) -> None:
        if submissions and submissions[0].due is not None:  # all of a call have the same delay
            refuse_if(self._paused)
            held = await hold_all(self._delayed, submissions, self._concurrency)
            raise_refused(submissions, self._told(submissions, held))
            return
        if self._storing is not None:
            self._storing.check(each.message for each in submissions)
        if self._fallback and submissions and await self._fallback.takes(submissions):
            return
        pending = [self._batcher(each.queue).put(each.message) for each in submissions]
        await asyncio.wait(pending) if pending else None
        results = self._told(submissions, [_error_of(future) for future in pending])
        outcomes: Sequence[HeadgateError | None] = results
        if self._fallback and submissions:
            outcomes = await self._fallback.instead(submissions, results)
        raise_refused(submissions, outcomes)

    def _told(
        self, submissions: Sequence[Submission], results: Sequence[TransportError | None]
    ) -> Sequence[TransportError | None]:
        """Emit and record which submissions have been taken; return the results."""
        at = self._clock.now()
        taken = [each for each, result in zip(submissions, results, strict=True) if result is None]
        for submission in taken:
            self._events.emit(submission.event(at))
        self._register.enter(taken)
        return results

    def _make_fallback(
        self, spool: Spool | None, fallback: FallbackName | None
    ) -> AsyncFallback | None:
        if spool is not None:
            from headgate.jobs.client.spool.async_spooler import (
                AsyncSpooler,  # imports SQLite only if it is used
            )

            return AsyncSpooler(
                spool,
                send=self._send_now,
                sent=self._register.enter,
                clock=self._clock,
                events=self._events,
            )
        if fallback is not None:
            from headgate.jobs.client.inline import AsyncInline

            return AsyncInline(
                self._app, sending=self._sends_within, clock=self._clock, events=self._events
            )
        return None

    async def _send_now(
        self, queue: str, messages: Sequence[OutgoingMessage]
    ) -> list[EntryFailure]:
        return await self._opened().send(queue, messages)

    def _open_scheduler(self) -> Scheduler:
        if self._scheduler is None:
            from headgate.jobs.aws.scheduler import AsyncEventBridgeScheduler

            self._scheduler = scheduler = AsyncEventBridgeScheduler()
            self._owned.push_async_callback(scheduler.stop)
        return self._scheduler

    async def _unschedule(self, job_id: str) -> bool:
        return self._has_scheduler and await self._delayed.cancel(job_id)

    def _storing_by(self, transport: Transport, store: ObjectStore | None) -> Storing:
        return Storing(
            transport,
            store,
            concurrency=self._concurrency,
            limit=self._app.max_message_bytes,
            paused=self._paused,
        )

    def _batcher(self, spec: QueueSpec) -> Batcher[OutgoingMessage]:
        queue = spec.name
        if (batcher := self._batchers.get(queue)) is None:
            batcher = Batcher(
                partial(self._opened().send, queue),
                pacing=self._pacing,
                eager=lambda: not self._batchers[queue].busy,
                size_of=size_of,
                lane_of=lane_of,
                name=f"headgate-submit-{queue}",
                rng=self._rng,
            )
            self._batchers[queue] = batcher
        return batcher

    def _opened(self) -> Storing:
        if self._storing is None:
            raise ConfigurationError("AsyncClient is not open: use it in `async with`")
        return self._storing


def _error_of(future: asyncio.Future[None]) -> TransportError | None:
    error = future.exception()
    if error is None or isinstance(error, TransportError):
        return error
    raise error
