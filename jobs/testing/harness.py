"""Testing an app's jobs without AWS: inspecting submissions, and running jobs in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypeVar, Unpack, overload

from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.client.child_handles import async_child_handles
from headgate.jobs.client.client import Client
from headgate.jobs.client.submitting.submission_records import recorded
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Tasks, Threads, running_loop
from headgate.jobs.core.events import Event, Events
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.handlers.injection import NOTHING, Shared
from headgate.jobs.definitions.handlers.resources import OpenResources
from headgate.jobs.definitions.job_type import Given, JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.definitions.policies import hooks_of, keeps_records, load_handlers, uses_claims
from headgate.jobs.definitions.sealing import seals_of
from headgate.jobs.errors import HeadgateError
from headgate.jobs.execution.calling.claims import Claims
from headgate.jobs.execution.calling.means import Means, cancelled_with_this_task
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Outcome
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.delayed_retry import HandOver
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.messages.sealing import Seals
from headgate.jobs.records.cancellation import is_asked
from headgate.jobs.submission.prepare import prepare
from headgate.jobs.testing.attempts import attempted, call_hook
from headgate.jobs.testing.backend import MemoryBackend
from headgate.jobs.testing.clock import START, VirtualClock
from headgate.jobs.testing.company import all_of, together
from headgate.jobs.testing.deployed import allows_isolation, check_isolation, deploy_schedules
from headgate.jobs.testing.inspection import (
    StoredMessage,
    Submitted,
    completed,
    dead_lettered,
    order_of_submission,
    submitted,
    the_one,
)
from headgate.jobs.testing.memory.sqs import MemorySqs
from headgate.jobs.testing.memory.table import MemoryTable
from headgate.jobs.testing.message_reader import MessageReader
from headgate.jobs.testing.next_message import NextMessage, unfinished
from headgate.jobs.testing.remembering import Remembering
from headgate.jobs.testing.settling import settled

P = TypeVar("P")


class Harness:
    """An app on in-memory SQS, with a clock that only moves on request.

    Pass `client` or `async_client` to the code under test; then look at `submitted`, or run
    everything with `drain`. Retries don't wait: the clock jumps to the time of the next message.
    The app's records of jobs are kept in memory, so that handles return their states.

    Args:
        app: the app; its handlers are loaded by `drain`.
        resources: values by type that take the place of the app's resources, such as
            ``{Pool: FakePool()}``. What they replace is not opened, nor is what that alone wants; a
            type of which the app has no resource is refused by `drain` and `run`.
        isolation: ``worker`` runs handlers with ``isolation="process"`` in the test's process; None
            refuses them, since one that ends its process would end the test.
        start: the time at which its clock begins, for code that reads ``datetime.now()``; without
            it midnight of 1 January 2026, in UTC.

    Example:
        >>> jobs = Harness(app)  # doctest: +SKIP
        >>> sign_up("ada@example.com", client=jobs.client)
        >>> [welcome] = jobs.submitted(send_email)
        >>> assert welcome.payload.to == "ada@example.com"
        >>> jobs.drain()
        >>> assert [each.payload.to for each in jobs.completed(send_email)] == ["ada@example.com"]
        >>> assert jobs.run(send_email, Email(to="Ada"), attempt=3) == Done(result=None)
    """

    def __init__(
        self,
        app: App,
        *,
        resources: Shared = NOTHING,
        isolation: Literal["worker"] | None = None,
        start: datetime = START,
    ) -> None:
        self.app = app
        self._resources = resources
        allowed = allows_isolation(isolation)
        self._check: Callable[[str], None] = partial(check_isolation, app, allowed=allowed)
        self.clock = VirtualClock(start)
        backend = MemoryBackend(app, clock=self.clock, has_worker=False)
        self.keys = backend.keys
        """The key service, if the app has ``encryption=``."""
        self._seals = seals_of(app, backend.async_ports.keys, Tasks())
        seals = seals_of(app, backend.ports.keys, Threads())
        self._reader = MessageReader(app, backend, seals)
        self.sqs = backend.sqs
        self.scheduler = backend.scheduler
        """Holds long delays and schedules, declared ones too; fires as the clock moves."""
        self.table = backend.table
        """The table that the clients' handles read."""
        self.store = backend.store
        """Holds payloads that are too large for messages."""
        self.metrics = backend.metrics
        """CloudWatch's metrics of the queues: none, unless a test puts some."""
        self.secrets = backend.secrets
        """Holds the key, if the app's messages are signed."""
        self.events: list[Event] = []
        """All events, in order."""
        self._hub = Events(self.events.append)
        self._next = NextMessage(app, self.sqs, self.scheduler, self.clock)
        self._received: dict[str, tuple[Envelope, int]] = {}
        """Each job as it was last received, with its receive count, by the job's id."""
        self._hooked = 0
        """Number of events whose hooks have been called."""
        self.client = Client(app, events=self._hub, backend=backend)
        self.async_client = AsyncClient(app, events=self._hub, backend=backend)
        self._keyring = self.async_client.keyring
        self._hand_over = _hand_over(app, backend, self.clock, self._hub, self._keyring)
        deploy_schedules(app, self.scheduler)

    def submitted(self, job: JobType[P, Any]) -> list[Submitted[P]]:
        """Return the jobs of this type that wait, delayed ones too, in order of submission."""
        found = [
            submitted(job, envelope, receives)
            for envelope, receives in self._reader.waiting()
            if envelope.type == job.name
        ]
        order = order_of_submission(self.events)
        return sorted(found, key=lambda each: order.get(each.id, len(order)))

    def assert_submitted(self, job: JobType[P, Any], payload: Given[P]) -> Submitted[P]:
        """Return the one waiting job of this type with that payload.

        Raises:
            AssertionError: there is none, or more than one; the message lists those that wait.
            PayloadInvalid: the payload doesn't fit the type's model.
        """
        return the_one(self.submitted(job), job, payload)

    def dead_letters(self, job: JobType[Any, Any] | None = None) -> list[StoredMessage]:
        """Return the dead letters of a type, or all; their attributes have the reason."""
        return [
            message
            for spec in self.app.topology.queues
            for message in self.sqs.messages(spec.dlq_name)
            if job is None or message.attributes.get("JobType") == job.name
        ]

    def completed(self, job: JobType[P, Any]) -> list[Submitted[P]]:
        """Return the completed jobs of this type, in that order; what `run` ran is none of them."""
        return completed(self.events, job, self._received)

    def dead_lettered(self, job: JobType[P, Any]) -> list[Submitted[P]]:
        """Return the jobs of this type that have been dead-lettered, in that order.

        Raises:
            PayloadInvalid: one has a payload that its type can't read; see `dead_letters`.
            PayloadLost: the payload of one is gone, or can't be opened; likewise.
        """
        return dead_lettered(self.events, job, self._received)

    def drain(self, *, max_runs: int = 10_000) -> None:
        """Run jobs, one after the other, until every queue is empty; retries and delays included.

        Jobs of a batch handler that wait in one queue run together, up to the batch's size.

        Args:
            max_runs: the number of runs after which jobs that never end are given up.

        Raises:
            ConfigurationError: a job type has no handler, or a job is of a type with
                ``isolation="process"``.
            DrainUnfinished: more than ``max_runs`` runs were made, or the next job is due so late
                that schedules would submit more before it.
        """
        _check_no_loop(instead="adrain()")
        asyncio.run(self.adrain(max_runs=max_runs))

    async def adrain(self, *, max_runs: int = 10_000) -> None:
        """Like `drain`, for a test that runs in an event loop."""
        load_handlers(self.app)
        deploy_schedules(self.app, self.scheduler)
        async with self._opened() as resources:
            await self._drain(resources, max_runs)

    @overload
    def run(self, job: NewJob[Any], *, attempt: int = 1) -> Outcome: ...
    @overload
    def run(
        self, job: JobType[None, Any], *, attempt: int = 1, **overrides: Unpack[SubmitOptions]
    ) -> Outcome: ...
    @overload
    def run(
        self,
        job: JobType[P, Any],
        payload: Given[P],
        *,
        attempt: int = 1,
        **overrides: Unpack[SubmitOptions],
    ) -> Outcome: ...
    def run(
        self,
        job: JobType[Any, Any] | NewJob[Any],
        payload: Any = None,
        *,
        attempt: int = 1,
        **overrides: Unpack[SubmitOptions],
    ) -> Outcome:
        """Run one attempt of a job that is in no queue, and return its outcome.

        The outcome has no effect: the job is neither tried again nor dead-lettered. Jobs that its
        handler submits wait in the queues.

        Args:
            job: the type, or a job as a value; its handler gets context and resources as usual.
            payload: the job's payload; left out for a job that has none.
            attempt: the number of the attempt, from 1 to the job's maximum.
            overrides: as for a submission; ``delay`` and ``at`` have no effect.

        Raises:
            ConfigurationError: a job type has no handler, or the job's has ``isolation="process"``.
            SubmissionError: the payload or an option is not valid.
            ValueError: the job has no such attempt.
        """
        _check_no_loop(instead="arun(...)")
        return asyncio.run(self._attempt(job, payload, attempt, overrides))

    @overload
    async def arun(self, job: NewJob[Any], *, attempt: int = 1) -> Outcome: ...
    @overload
    async def arun(
        self, job: JobType[None, Any], *, attempt: int = 1, **overrides: Unpack[SubmitOptions]
    ) -> Outcome: ...
    @overload
    async def arun(
        self,
        job: JobType[P, Any],
        payload: Given[P],
        *,
        attempt: int = 1,
        **overrides: Unpack[SubmitOptions],
    ) -> Outcome: ...
    async def arun(
        self,
        job: JobType[Any, Any] | NewJob[Any],
        payload: Any = None,
        *,
        attempt: int = 1,
        **overrides: Unpack[SubmitOptions],
    ) -> Outcome:
        """Like `run`, for a test that runs in an event loop."""
        return await self._attempt(job, payload, attempt, overrides)

    async def _attempt(
        self,
        job: JobType[Any, Any] | NewJob[Any],
        payload: Any,
        number: int,
        overrides: SubmitOptions,
    ) -> Outcome:
        now = self.clock.now()
        topology, job_id = self.app.topology, new_job_id(now)
        submission = prepare(self.app, topology, job, payload, overrides, now=now, job_id=job_id)
        load_handlers(self.app)
        self._check(submission.envelope.type)
        async with self._opened() as resources:
            executor = self._executor(resources)
            executor.received = False
            outcome = await attempted(executor, submission, number)
            await self._call_hooks()
        return outcome

    def _opened(self) -> AbstractAsyncContextManager[OpenResources]:
        handlers = [declared.require_handler() for declared in self.app.types.values()]
        opened = self.app.resources.opened(self._resources, handlers=handlers)
        return recorded(self.async_client, opened)

    def _executor(self, resources: OpenResources) -> Executor:
        means = Means(
            app=self.app,
            clock=self.clock,
            events=self._hub,
            send=self.async_client.send,
            handles=async_child_handles(self.async_client),
            store=self.store,
            seals=self._seals,
            resources=resources,
            claims=_claims(self.app, self.table, self.clock, self._seals),
            keyring=self._keyring,
            is_cancelled=cancelled_with_this_task(),
        )
        return Executor(
            means,
            backlog=partial(_backlog, self.sqs),
            records=keeps_records(self.app),
            scheduled=self.app.long_delays,
        )

    async def _drain(self, resources: OpenResources, max_runs: int) -> None:
        executor = self._executor(resources)
        remembering = Remembering(
            self.app,
            self.table,
            self.store,
            clock=self.clock,
            events=self._hub,
            seals=self._seals,
        )
        for _ in range(max_runs):
            if (delivery := await self._next.take(max_runs)) is None:
                return
            if self._keyring is not None:
                await self._keyring.refresh()
            begin = partial(self._begun, executor)
            runs = await together(executor, begin, self._next, begin(delivery))
            verdicts = await all_of(runs, remembering.verdict)
            for run, verdict in zip(runs, verdicts, strict=True):
                await self._settle(run, verdict, remembering)
        if not self._next.is_done:
            raise unfinished(max_runs, self._reader.waiting())

    def _begun(self, executor: Executor, delivery: Delivery) -> Run:
        if (envelope := self._reader.envelope_of(delivery)) is not None:
            self._received[str(envelope.id)] = (envelope, delivery.message.receive_count)
            self._check(envelope.type)
        return Run(executor, delivery)

    async def _settle(self, run: Run, verdict: Verdict, remembering: Remembering) -> None:
        verdict = await settled(
            verdict, run.delivery, self.sqs, self.app, self._hand_over, self.clock.now()
        )
        await remembering.settled(run, verdict, self.events[self._hooked :])
        for event in verdict.aftermath(self.clock.now()):
            self._hub.emit(event)
        await self._call_hooks()

    async def _call_hooks(self) -> None:
        """Call the hooks of new events; an exception from one propagates to the test."""
        happened, self._hooked = self.events[self._hooked :], len(self.events)
        for event in happened:
            for hook in hooks_of(self.app, event):
                await call_hook(hook, event)


def _hand_over(
    app: App, backend: MemoryBackend, clock: Clock, events: Events, keyring: Keyring | None
) -> HandOver:
    return HandOver(
        backend.scheduler if app.long_delays else None,
        app.topology,
        clock=clock,
        events=events,
        asked=partial(is_asked, backend.table) if keeps_records(app) else None,
        store=backend.store,
        keyring=keyring,
    )


def _claims(app: App, table: MemoryTable, clock: Clock, seals: Seals | None) -> Claims | None:
    """Return the claims, if a worker of the app has them."""
    return Claims(table, owner="harness", clock=clock, seals=seals) if uses_claims(app) else None


def _check_no_loop(*, instead: str) -> None:
    if running_loop() is not None:
        raise HeadgateError(f"an event loop runs here: write `await jobs.{instead}`")


async def _backlog(sqs: MemorySqs, queue: str) -> int:
    return (await sqs.depth(queue)).visible
