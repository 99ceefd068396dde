"""The client that submits jobs from an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from headgate.jobs.client.auditing.auditor import auditor_of
from headgate.jobs.client.desks import AsyncDesks
from headgate.jobs.client.fallback import Fallback, FallbackName, check_choice, events_of
from headgate.jobs.client.inline.course import runs_jobs_in_place
from headgate.jobs.client.lookup import Lookup
from headgate.jobs.client.services import ClientServices
from headgate.jobs.client.shared_requests import SharedRequests
from headgate.jobs.client.spool.policy import Spool, StrPath
from headgate.jobs.client.submitting.delaying import hold_all
from headgate.jobs.client.submitting.engine import SubmissionEngine
from headgate.jobs.client.submitting.large_payloads import Storing, check_sizes
from headgate.jobs.client.submitting.preparing import Preparing
from headgate.jobs.client.submitting.submission_records import AsyncRegister
from headgate.jobs.client.submitting.turns import Turns
from headgate.jobs.core.backend import AsyncBackend, check_alone
from headgate.jobs.core.concurrency import Tasks
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.core.settings import Settings
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import Given, JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.definitions.policies import app_itself, keyring_of
from headgate.jobs.definitions.sealing import seals_of
from headgate.jobs.errors import ConfigurationError, TransportError
from headgate.jobs.execution.calling.handler_host import Send
from headgate.jobs.handles.handle import AsyncJobHandle
from headgate.jobs.messages.outgoing import lane_of
from headgate.jobs.schedules.delayed_jobs import DelayedJobs
from headgate.jobs.submission.mixed import listed
from headgate.jobs.submission.prepare import Submission, prepare_each, prepare_many
from headgate.jobs.values.durations import Duration

if TYPE_CHECKING:
    from aiobotocore.session import AioSession
    from botocore.config import Config

    from headgate.jobs.aws.backend import AsyncAwsBackend

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")


class AsyncClient(AsyncDesks):
    """Submits jobs of one app through SQS, from one event loop; use it with ``async with``.

    Concurrent submits share requests: an idle client sends at once, and jobs submitted while a
    request is under way go with the next one. Each `submit` returns when SQS has its own job.
    Jobs of one FIFO group keep the order of their calls, even if the calls overlap.

    Args:
        app: the app whose jobs are submitted.
        session: the aiobotocore session (``aiobotocore.session.get_session()``) to connect with;
            None makes one with the standard AWS settings.
        config: as for `headgate.Client`; an ``aiobotocore.config.AioConfig`` is one, too.
        spool: as for `headgate.Client`.
        fallback: as for `headgate.Client`, but in the calling task.
        gather: time that a job waits for others of its queue, so that up to ten share a request;
            `submit` returns that much later. With 0 none waits while no request is under way.
        events: as for `headgate.Client`.
        actor: as for `headgate.Client`.
        backend: as for `headgate.Client`.

    Raises:
        ConfigurationError: an argument is of the wrong type, or contradicts another.
        SettingsInvalid: ``gather`` is no duration.

    Example:
        >>> async with AsyncClient(app) as client:  # doctest: +SKIP
        ...     job = await client.submit(send_email, Email(to="a@b.example"))
    """

    def __init__(
        self,
        app: App,
        *,
        session: AioSession | None = None,
        config: Config | None = None,
        spool: StrPath | Spool | None = None,
        fallback: FallbackName | None = None,
        gather: Duration = 0,
        events: Events | None = None,
        actor: str | None = None,
        backend: AsyncBackend | None = None,
    ) -> None:
        self._app, self._concurrency, self._preparing = app_itself(app), Tasks(), Preparing(app)
        settings, kept_in = Settings.from_env(), check_choice(spool, fallback)
        self._events = events_of(events, falls_back=bool(kept_in or fallback))
        check_alone(backend, session, config)
        self._own_backend: AsyncAwsBackend | None = None
        if backend is None:
            from headgate.jobs.aws.backend import AsyncAwsBackend

            self._own_backend = AsyncAwsBackend(app.topology, session=session, config=config)
            backend = self._own_backend
        self._ports = ports = backend.async_ports
        self._clock, self._seals = ports.clock, seals_of(app, ports.keys, self._concurrency)
        self._is_open = self._own_backend is None
        # With a fallback, submitters need not wait for an outage to end.
        insist = ports.pacing.insist and not (kept_in or fallback or settings.paused)
        self.keyring = keyring_of(app, ports.secrets, self._concurrency, ports.clock, self._events)
        self._storing = Storing(
            ports.transport,
            ports.store,
            concurrency=self._concurrency,
            limit=app.max_message_bytes,
            paused=settings.paused,
            keyring=self.keyring,
        )
        self._requests = SharedRequests(
            self._storing.send, pacing=ports.pacing, insist=insist, rng=ports.rng, gather=gather
        )
        self._delayed = DelayedJobs(
            ports.scheduler, lambda: app.topology, ports.clock, self.keyring
        )
        self._register = AsyncRegister(
            app, ports.table, clock=ports.clock, events=self._events, rng=ports.rng
        )
        self._services = ClientServices(
            app=app,
            table=ports.table,
            clock=ports.clock,
            rng=ports.rng,
            concurrency=self._concurrency,
            sleep=ports.sleep,
            store=ports.store,
            seals=self._seals,
            unworked_wait_s=ports.unworked_wait_s,
            auditor=auditor_of(app, ports.table, ports.clock, actor or settings.actor),
        )
        self._lookup = Lookup(self._services, lambda: self._delayed if app.long_delays else None)
        self._turns, self._sending = Turns(), set[asyncio.Future[Any]]()
        self._engine = SubmissionEngine(
            send=self._send_together,
            hold=partial(hold_all, self._delayed, concurrency=self._concurrency),
            enter=self._register.enter,
            table=ports.table,
            concurrency=self._concurrency,
            sleep=ports.sleep,
            clock=ports.clock,
            events=self._events,
            paused=settings.paused,
            seals=self._seals,
        )
        self._engine.fallback = self._fallback = self._make_fallback(kept_in, fallback)

    async def __aenter__(self) -> Self:
        if self._own_backend is not None:
            await self._own_backend.start()
        if self._fallback is not None:
            try:
                await self._fallback.open()
            except BaseException:
                await self._close_backend()
                raise
        self._is_open = True
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Send the waiting jobs, then close everything that this client opened. Idempotent."""
        await self._preparing.all_over()
        await self._requests.drain()
        await self._turns.all_over()
        if self._sending:
            await asyncio.wait(self._sending)
        if self._fallback is not None:
            await self._fallback.close()
        await self._register.drain()
        if self.keyring is not None:
            await self.keyring.close()
        await self._close_backend()

    async def _close_backend(self) -> None:
        if self._own_backend is not None:
            await self._own_backend.close()

    @overload
    async def submit(self, job: NewJob[R]) -> AsyncJobHandle[R]: ...
    @overload
    async def submit(
        self, job: JobType[None, R], **overrides: Unpack[SubmitOptions]
    ) -> AsyncJobHandle[R]: ...
    @overload
    async def submit(
        self, job: JobType[P, R], payload: Given[P], **overrides: Unpack[SubmitOptions]
    ) -> AsyncJobHandle[R]: ...
    async def submit(
        self,
        job: JobType[Any, Any] | NewJob[Any],
        payload: Any = None,
        **overrides: Unpack[SubmitOptions],
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
        self, job: JobType[P, R], payloads: Iterable[Given[P]], **overrides: Unpack[SubmitOptions]
    ) -> list[AsyncJobHandle[R]]: ...
    async def submit_many(
        self, job: Any, payloads: Iterable[Any] | None = None, **overrides: Unpack[SubmitOptions]
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
        if mixed:
            check_sizes(each.message for each in submissions if each.due is None)
        sent = await self._deliver(submissions, self._turns, mixed=mixed)
        return [
            AsyncJobHandle(
                each.id, self._lookup, kind, is_duplicate=each.is_duplicate, keep=each.keep
            )
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
        return self._in_background(self._deliver_one(submission, turns))

    def _in_background(self, delivering: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Begin to send; `close` waits for the end."""
        sending = asyncio.ensure_future(delivering)
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
        """Send the jobs of one call; return what each of them has become."""
        delivering = self._deliver_in_turn(submissions, turns, mixed=mixed)
        if not any(each.unique for each in submissions):
            return await delivering
        # SQS may have been asked when the call is cancelled. The claims are settled all the same:
        # one that stayed unconfirmed would be taken over, and its job sent again.
        return await asyncio.shield(self._in_background(delivering))

    async def _deliver_in_turn(
        self, submissions: Sequence[Submission], turns: Turns, *, mixed: bool
    ) -> Sequence[Submission]:
        become = self._engine.deliver_mixed if mixed else self._engine.deliver
        lanes = {lane for each in submissions if (lane := lane_of(each.message)) is not None}
        if not lanes:
            return await become(submissions)
        # A job that runs in place would wait for the turn of the call that runs it.
        turns = Turns() if runs_jobs_in_place(self._app) else turns
        async with turns.of(lanes):
            return await become(submissions)

    async def _send_together(
        self, submissions: Sequence[Submission]
    ) -> Sequence[TransportError | None]:
        self._check_open()
        return await self._requests.send(submissions)

    def _make_fallback(self, spool: Spool | None, fallback: FallbackName | None) -> Fallback | None:
        if spool is not None:
            from headgate.jobs.client.spool.async_drainer import task_spooler  # imports SQLite

            return task_spooler(
                spool,
                send=self._send_now,
                sent=self._register.enter,
                clock=self._clock,
                events=self._events,
            )
        if fallback is not None:
            from headgate.jobs.client.child_handles import async_child_handles
            from headgate.jobs.client.inline.async_inline import AsyncInline

            return AsyncInline(
                self._app,
                sending=self._sends_within,
                handles=async_child_handles(self),
                clock=self._clock,
                events=self._events,
            )
        return None

    async def _send_now(
        self, queue: str, messages: Sequence[OutgoingMessage]
    ) -> list[EntryFailure]:
        self._check_open()
        return await self._storing.send(queue, messages)

    def _check_open(self) -> None:
        if not self._is_open:
            raise ConfigurationError("AsyncClient is not open: use it in `async with`")
