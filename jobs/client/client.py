"""The client that submits jobs from synchronous code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from headgate.jobs.client.auditing.auditor import auditor_of
from headgate.jobs.client.desks import Desks
from headgate.jobs.client.fallback import (
    Fallback,
    FallbackName,
    check_choice,
    events_of,
)
from headgate.jobs.client.lookup import Lookup
from headgate.jobs.client.services import ClientServices
from headgate.jobs.client.spool.policy import Spool, StrPath
from headgate.jobs.client.submitting.engine import SubmissionEngine
from headgate.jobs.client.submitting.large_payloads import Storing, check_sizes
from headgate.jobs.client.submitting.sending import Sending, send_one
from headgate.jobs.client.submitting.submission_records import Register
from headgate.jobs.core.backend import Backend, check_alone
from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.events import Events
from headgate.jobs.core.immediate import (
    ImmediateObjectStore,
    ImmediateSecretStore,
    ImmediateSender,
    ImmediateTable,
    drive,
    immediate,
)
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.core.settings import Settings
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import Given, JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.definitions.policies import app_itself, keyring_of
from headgate.jobs.definitions.sealing import seals_of
from headgate.jobs.errors import TransportError
from headgate.jobs.handles.handle import JobHandle
from headgate.jobs.submission.mixed import listed
from headgate.jobs.submission.prepare import Submission, prepare_each, prepare_many

if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.config import Config

    from headgate.jobs.aws.backend import AwsBackend

P = TypeVar("P")
R = TypeVar("R")


class Client(Desks):
    """Submits jobs of one app through SQS. Thread-safe; close it, or use it with ``with``.

    Args:
        app: the app whose jobs are submitted.
        session: the `boto3.Session` to connect with; None makes one with the standard AWS settings.
        config: a `botocore.config.Config`, such as timeouts or proxies; what it sets wins over
            Headgate's own settings.
        spool: a file that keeps jobs while SQS can't be reached, by its path or as a `Spool`.
        fallback: ``"inline"`` runs jobs in the calling thread while SQS can't be reached; not
            together with ``spool``.
        events: receives an event for each submitted job; None logs what a fallback has to do.
        actor: who acts through it, for the audit: up to 100 characters. None takes
            ``HEADGATE_ACTOR``, or else the process's user and host; `headgate.acting_as` names one
            for a block.
        backend: stands for AWS and the time in tests, and is left open: a
            `headgate.testing.MemoryBackend`. Not together with ``session`` or ``config``.

    Raises:
        ConfigurationError: an argument is of the wrong type, or contradicts another.

    Example:
        >>> with Client(app) as client:  # doctest: +SKIP
        ...     job = client.submit(send_email, Email(to="a@b.example"))
    """

    def __init__(
        self,
        app: App,
        *,
        session: Session | None = None,
        config: Config | None = None,
        spool: StrPath | Spool | None = None,
        fallback: FallbackName | None = None,
        events: Events | None = None,
        actor: str | None = None,
        backend: Backend | None = None,
    ) -> None:
        self._app = app_itself(app)
        kept_in = check_choice(spool, fallback)
        settings = Settings.from_env()
        self._events = events_of(events, falls_back=bool(kept_in or fallback))
        self._concurrency = Threads()
        check_alone(backend, session, config)
        self._own_backend: AwsBackend | None = None
        if backend is None:
            from headgate.jobs.aws.backend import AwsBackend

            self._own_backend = AwsBackend(app.topology, session=session, config=config)
            backend = self._own_backend
        self._ports = ports = backend.ports
        self._clock = ports.clock
        store, table = ImmediateObjectStore(ports.store), ImmediateTable(ports.table)
        sleep = immediate(ports.sleep)
        self._seals = seals_of(app, ports.keys, self._concurrency)
        secrets = ImmediateSecretStore(ports.secrets)
        self._keyring = keyring_of(app, secrets, self._concurrency, ports.clock, self._events)
        self._storing = Storing(
            ImmediateSender(ports.transport),
            store,
            concurrency=self._concurrency,
            limit=app.max_message_bytes,
            paused=settings.paused,
            keyring=self._keyring,
        )
        self._register = Register(
            app, table, clock=ports.clock, events=self._events, rng=ports.rng, sleep=sleep
        )
        self._services = ClientServices(
            app=app,
            table=table,
            clock=ports.clock,
            rng=ports.rng,
            concurrency=self._concurrency,
            sleep=sleep,
            store=store,
            seals=self._seals,
            unworked_wait_s=ports.unworked_wait_s,
            auditor=auditor_of(app, table, ports.clock, actor or settings.actor),
        )
        self._lookup = Lookup(self._services, lambda: self._delayed if app.long_delays else None)
        self._engine = SubmissionEngine(
            send=immediate(self._send_in_order),
            hold=self._hold,
            enter=self._register.enter,
            table=table,
            concurrency=self._concurrency,
            sleep=sleep,
            clock=ports.clock,
            events=self._events,
            paused=settings.paused,
            seals=self._seals,
        )
        self._engine.fallback = self._fallback = self._make_fallback(kept_in, fallback)

    def __enter__(self) -> Self:
        if self._fallback is not None:
            drive(self._fallback.open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that this client opened, and its spool. Idempotent."""
        if self._fallback is not None:
            drive(self._fallback.close())
        if self._own_backend is not None:
            self._own_backend.close()

    @overload
    def submit(self, job: NewJob[R]) -> JobHandle[R]: ...
    @overload
    def submit(self, job: JobType[None, R], **overrides: Unpack[SubmitOptions]) -> JobHandle[R]: ...
    @overload
    def submit(
        self, job: JobType[P, R], payload: Given[P], **overrides: Unpack[SubmitOptions]
    ) -> JobHandle[R]: ...
    def submit(
        self,
        job: JobType[Any, Any] | NewJob[Any],
        payload: Any = None,
        **overrides: Unpack[SubmitOptions],
    ) -> JobHandle[Any]:
        """Submit one job, and return once SQS, or the fallback, has taken it.

        A job of a paused queue, type or tenant is taken as any other, and waits in its queue.

        Args:
            job: the type, as declared on the app; or a job as a value, which includes the payload
                and overrides.
            payload: the handler's payload; omitted for a job that has none.
            overrides: see `SubmitOptions`.

        Raises:
            SubmissionError: the payload or an option is not valid; nothing was sent.
            TransportError: SQS could not be reached, or refused; or the object store, for a payload
                that goes there.
            InlineFailed: with ``fallback="inline"``, it ran in place and failed.
        """
        [handle] = self._submit(job, [payload], overrides)
        return handle

    @overload
    def submit_many(self, jobs: Iterable[NewJob[R]], /) -> list[JobHandle[R]]: ...
    @overload
    def submit_many(
        self, job: JobType[P, R], payloads: Iterable[Given[P]], **overrides: Unpack[SubmitOptions]
    ) -> list[JobHandle[R]]: ...
    def submit_many(
        self, job: Any, payloads: Iterable[Any] | None = None, **overrides: Unpack[SubmitOptions]
    ) -> list[JobHandle[Any]]:
        """Submit many jobs, ten to a request. All are checked before any is sent.

        Jobs of one type: ``submit_many(greet, [first, second])``. Jobs of several types, each with
        its own options: ``submit_many([greet.new(first, tenant="x"), capture.new(payment)])``;
        these are sent queue by queue.

        A request carries at most one job of a FIFO group, and after a job that SQS did not take no
        later one of its group is sent. If a request keeps failing, the others are still sent, until
        three in a row have failed.

        Raises:
            SubmissionError: a payload or an option is not valid; nothing was sent.
            PartlySubmitted: SQS took some, and not the others; it lists both.
            TransportError: SQS could not be reached, or refused; it took none.
        """
        if payloads is not None:
            return self._submit(job, payloads, overrides)
        jobs = listed(job, overrides)
        sent = self._deliver_mixed(self._prepared(jobs))
        return [self._handle(each, new.type) for new, each in zip(jobs, sent, strict=True)]

    def _prepared(self, jobs: Sequence[NewJob[Any]]) -> list[Submission]:
        """Check jobs; return them as they would be sent now. Raises as `submit_many`."""
        submissions = prepare_each(self._app, self._app.topology, jobs, self._clock.now())
        check_sizes(each.message for each in submissions if each.due is None)
        return submissions

    def _submit(
        self,
        job: JobType[Any, Any] | NewJob[Any],
        payloads: Iterable[Any],
        overrides: SubmitOptions,
    ) -> list[JobHandle[Any]]:
        submissions = self._deliver(
            prepare_many(self._app, self._app.topology, job, payloads, overrides, self._clock.now())
        )
        kind = job.type if isinstance(job, NewJob) else job
        return [self._handle(each, kind) for each in submissions]

    def _handle(self, sent: Submission, job: JobType[Any, R]) -> JobHandle[R]:
        return JobHandle(sent.id, self._lookup, job, is_duplicate=sent.is_duplicate, keep=sent.keep)

    @overload
    def handle(self, job_id: str) -> JobHandle[Any]: ...
    @overload
    def handle(self, job_id: str, job: JobType[P, R]) -> JobHandle[R]: ...
    def handle(self, job_id: str, job: JobType[Any, Any] | None = None) -> JobHandle[Any]:
        """Return a handle of a job that was submitted elsewhere, without sending a request.

        Args:
            job_id: the id of a job of this app.
            job: its type, which determines its result's type; None takes the type from the job's
                records, which a type checker can't see.

        Raises:
            ValueError: ``job_id`` is not a job id.
        """
        return JobHandle(job_id, self._lookup, job)

    def _deliver(self, submissions: Sequence[Submission]) -> Sequence[Submission]:
        """Send the jobs of one call; return what each of them has become."""
        return drive(self._engine.deliver(submissions))

    def _deliver_mixed(self, submissions: Sequence[Submission]) -> Sequence[Submission]:
        """Send the jobs of a call of several types; return what each of them has become."""
        return drive(self._engine.deliver_mixed(submissions))

    async def _hold(self, submissions: Sequence[Submission]) -> Sequence[TransportError | None]:
        from headgate.jobs.client.submitting.delaying import hold_in_turn

        return await hold_in_turn(self._delayed, submissions)

    def _send_in_order(self, submissions: Sequence[Submission]) -> Sequence[TransportError | None]:
        """Send all, request after request; return each one's error, or None."""
        queue, messages = submissions[0].queue.name, [each.message for each in submissions]
        if not any(each.bundle_bytes for each in submissions):
            return self._sent(queue, messages)
        from headgate.jobs.messages.bundles import by_job, packed  # few types have bundles

        parcels = packed(messages, [each.bundle_bytes for each in submissions])
        return by_job(parcels, self._sent(queue, [each.message for each in parcels]))

    def _sent(
        self, queue: str, messages: Sequence[OutgoingMessage]
    ) -> Sequence[TransportError | None]:
        send, sleep, rng = partial(self._send, queue), self._ports.sleep, self._ports.rng
        if len(messages) == 1:
            return [send_one(messages[0], send, sleep=sleep, rng=rng)]
        goes_on = self._fallback is None
        return Sending(messages, send, sleep=sleep, rng=rng, goes_on=goes_on).run()

    def _send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        if self._storing.passes(messages):  # small messages need no coroutine
            return self._ports.transport.send(queue, messages)
        return drive(self._storing.send(queue, messages))

    def _make_fallback(self, spool: Spool | None, fallback: FallbackName | None) -> Fallback | None:
        if spool is not None:
            from headgate.jobs.client.spool.drainer import thread_spooler  # imports SQLite

            return thread_spooler(
                spool,
                send=immediate(self._send),
                sent=self._register.enter,
                clock=self._clock,
                events=self._events,
            )
        if fallback is not None:
            from headgate.jobs.client.child_handles import child_handles
            from headgate.jobs.client.inline.inline import Inline  # imports asyncio

            return Inline(
                self._app,
                send=self._deliver,
                handles=child_handles(self),
                clock=self._clock,
                events=self._events,
            )
        return None
