"""Lambda as a worker: runs the jobs of an SQS event source, with the verdicts of the ECS worker.

    from headgate.lambdas.consume import consumer
    from shop.app import app

    handler = consumer(app)

The event source mapping must have ``ReportBatchItemFailures``: Lambda deletes a message whose
outcome is final; any other stays in its queue, with its visibility timeout set here to its backoff.
A dead letter is sent before its message is reported as done. The function's timeout must not exceed
the queue's visibility timeout, since nothing extends it.

https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from headgate.jobs.aws.backend import AsyncAwsBackend
from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.client.child_handles import async_child_handles
from headgate.jobs.client.submitting.submission_records import drain_records
from headgate.jobs.core.backend import AsyncBackend, check_alone
from headgate.jobs.core.concurrency import Tasks
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.transport import AsyncTransport
from headgate.jobs.core.settings import Settings
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import keeps_records, load_handlers, uses_claims
from headgate.jobs.definitions.sealing import seals_of
from headgate.jobs.deployment.groups.consumer_group import FUNCTION_CONCURRENCY
from headgate.jobs.deployment.metric_lines import MetricLines
from headgate.jobs.deployment.metric_names import service_name
from headgate.jobs.errors import ConfigurationError, TransportError
from headgate.jobs.execution.calling.claims import Claims
from headgate.jobs.execution.calling.handler_threads import HandlerThreads
from headgate.jobs.execution.calling.means import Means, span_opener
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.exits import run_through
from headgate.jobs.execution.hook_runner import HookRunner
from headgate.jobs.execution.recording.recorder import Recorder
from headgate.jobs.messages.sealing import Seals
from headgate.jobs.records.cancellations import Cancelling
from headgate.jobs.records.pausing.paused import Paused
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog
from headgate.lambdas.batches import InvocationBatch
from headgate.lambdas.hooks import LONGEST_S, InvocationHooks
from headgate.lambdas.logs import log_as_json
from headgate.lambdas.source import records_of
from headgate.lambdas.timetable import Timetable

if TYPE_CHECKING:
    from aiobotocore.session import AioSession
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
    from botocore.config import Config

_DEPTH_S = 1.0
"""Seconds that an adaptive backoff waits for the depth of its queue."""

_log = OwnLog("headgate.consumer")


class Context(Protocol):
    """The part of Lambda's context object that is needed."""

    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds for which the function may still run."""
        ...


Response = dict[str, list[dict[str, str]]]
"""``batchItemFailures``: the messages that Lambda must not delete."""


def consumer(
    app: App,
    *,
    session: AioSession | None = None,
    config: Config | None = None,
    concurrency: int | None = None,
    events: Events | None = None,
    metrics: bool | None = None,
    backend: AsyncBackend | None = None,
) -> Consumer:
    """Make the function's handler; call this once, when the module is imported.

    Args:
        app: the app, whose handlers are loaded here.
        session: the aiobotocore session to connect with, at the first invocation; None makes one
            with the standard AWS settings.
        config: a `botocore.config.Config`; what it sets wins over Headgate's own settings.
        concurrency: jobs of one invocation at once, at least 1. None takes
            ``HEADGATE_CONCURRENCY``, which CDK sets from the deployment, or else 10.
        events: receives all events; None logs them, as JSON, with the invocation's id.
        metrics: whether to count the jobs' outcomes in CloudWatch; see
            `jobs.deployment.metric_lines`. None takes ``HEADGATE_EMF``, which is 1 if CDK has made
            the function.
        backend: stands for AWS and the time in tests, and is left open: a
            `headgate.testing.MemoryBackend`. Not together with ``session`` or ``config``.

    Raises:
        ConfigurationError: a handler module doesn't import, a type has no handler,
            ``concurrency`` is under 1, or an argument is of the wrong type.
    """
    settings = Settings.from_env()
    if concurrency is None:
        concurrency = settings.concurrency or FUNCTION_CONCURRENCY
    if concurrency < 1:
        raise ConfigurationError(f"concurrency is at least 1, got {concurrency}")
    if metrics is None:
        metrics = settings.emf
    load_handlers(app)
    check_alone(backend, session, config)
    own = None
    if backend is None:
        backend = own = AsyncAwsBackend(app.topology, session=session, config=config)
    return Consumer(
        app,
        backend=backend,
        own=own,
        events=events or Events(log_event),
        concurrency=concurrency,
        metrics=_metrics(app) if metrics else None,
        lines=log_as_json() if events is None else None,
    )


class Consumer:
    """A Lambda handler; made by `consumer`.

    Its event loop, its connections and the app's resources are opened at the first invocation and
    kept for as long as Lambda keeps the execution environment. Handlers with
    ``isolation="process"`` run in the function's own process, which Lambda already isolates.
    """

    def __init__(
        self,
        app: App,
        *,
        backend: AsyncBackend,
        own: AsyncAwsBackend | None,
        events: Events,
        concurrency: int,
        metrics: MetricLines | None,
        lines: LambdaPowertoolsFormatter | None,
    ) -> None:
        self._app = app
        self._backend = backend
        self._own = own
        self._ports = backend.async_ports
        self._clock = self._ports.clock
        self._events = events
        self._concurrency = concurrency
        self._lines = lines
        self._threads = HandlerThreads(concurrency)
        self._runner = asyncio.Runner()  # its loop is created on first use
        self._kept = AsyncExitStack()
        self._opened: _Open | None = None
        self._strays: set[asyncio.Task[None]] = set()
        """Tasks of handlers that went on after their cancellation."""
        self._ends_at: datetime | None = None
        """Time at which Lambda would end the current invocation."""
        self._metrics = metrics
        if metrics is not None:
            events.subscribe(metrics)

    def __call__(self, event: Mapping[str, Any], context: Context) -> Response:
        """Run the jobs of one batch.

        The answer lists the messages that stay. The function raises only if it can't work at all,
        before it has begun anything; the batch then comes again when its visibility timeout ends.

        Raises:
            ConfigurationError: the event is not from a queue of this app, or the function's timeout
                leaves no time for jobs.
            Exception: the error that a resource of the app raised when it was opened.
            TransportError: there are no credentials or no region.
        """
        return run_through(self._runner, self._handle(event, context))

    def close(self) -> None:
        """Close everything that is open. Lambda never calls this. Idempotent."""
        if self._opened is not None:
            self._opened = None
            self._runner.run(self._kept.aclose())
        self._threads.close()
        self._runner.close()

    async def _handle(self, event: Mapping[str, Any], context: Context) -> Response:
        # Read first, since the time for opening counts, too.
        left = timedelta(milliseconds=context.get_remaining_time_in_millis())
        times = Timetable.within(left.total_seconds())
        self._ends_at = self._clock.now() + left
        if self._lines is not None:
            self._lines.append_keys(function_request_id=context.aws_request_id)
        records = records_of(event)
        opened = self._opened = self._opened or await self._open()
        if (keyring := opened.executor.means.keyring) is not None:
            # Without a key the messages go back to their queue, for which there has to be time.
            await keyring.refresh(at_most_s=times.left_s())
        batch = InvocationBatch(
            opened.executor,
            self._ports.transport,
            times,
            concurrency=self._concurrency,
            scheduler=self._ports.scheduler if self._app.long_delays else None,
            recorder=opened.recorder,
            cancelling=opened.cancelling,
            paused=opened.paused,
            secure=self._flush_metrics,
        )
        opened.hooks.begin()
        try:
            failed = await batch.run(records)
            await opened.hooks.end(times.answer_at)
            await _recorded(opened.client, times.answer_at)
        finally:
            self._flush_metrics()
        self._leave(batch)
        return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}

    def _flush_metrics(self) -> None:
        if self._metrics is not None:
            self._metrics.flush()

    def _leave(self, batch: InvocationBatch) -> None:
        """Keep tasks and threads that have not ended from affecting the next invocation."""
        for task in batch.strays:
            self._strays.add(task)
            task.add_done_callback(self._strays.discard)
        if batch.stuck:
            self._threads.renew()

    async def _open(self) -> _Open:
        async with AsyncExitStack() as stack:  # if anything fails, the rest is closed again
            if self._own is not None:
                await stack.enter_async_context(self._own)
            resources = await stack.enter_async_context(self._app.resources.opened())
            hooks = self._hooks()
            stack.push_async_callback(hooks.close)
            self._kept = stack.pop_all()
        ports, keeps = self._ports, keeps_records(self._app)
        seals = seals_of(self._app, ports.keys, Tasks())
        client = AsyncClient(self._app, events=self._events, backend=self._backend)
        means = Means(
            app=self._app,
            clock=ports.clock,
            events=self._events,
            send=client.send,
            handles=async_child_handles(client),
            store=ports.store,
            seals=seals,
            call_blocking=self._threads,
            resources=resources,
            open_span=span_opener(self._app),
            heeds_ctrl_c=False,  # there is no keyboard
            is_cancelled=lambda: False,  # a batch interrupts its runs before it cancels their tasks
            claims=self._claims(seals),
            keyring=client.keyring,
        )
        executor = Executor(
            means,
            backlog=partial(_depth, ports.transport),
            records=keeps,
            backstop=False,  # messages that a batch has no time for are received, but not started
            scheduled=self._app.long_delays,
        )
        paused = Paused(clock=ports.clock, events=self._events)
        if not keeps:
            return _Open(executor, client, paused, hooks, None, None)
        cancelling = Cancelling(
            ports.table, paused, clock=ports.clock, events=self._events, rng=ports.rng
        )
        return _Open(executor, client, paused, hooks, self._recorder(seals), cancelling)

    def _hooks(self) -> InvocationHooks:
        runner = HookRunner(self._app, clock=self._clock, events=self._events)
        self._events.subscribe(runner)
        return InvocationHooks(runner)

    def _claims(self, seals: Seals | None) -> Claims | None:
        """Return the claims, if the app has a table."""
        if not uses_claims(self._app):
            return None
        return Claims(self._ports.table, owner=_owner(), clock=self._clock, seals=seals)

    def _recorder(self, seals: Seals | None) -> Recorder:
        recorder = Recorder(
            self._app,
            self._ports.table,
            worker=_owner(),
            clock=self._clock,
            events=self._events,
            rng=self._ports.rng,
            store=self._ports.store,
            silence_counts=False,  # not every message that Lambda receives reaches the function
            until=lambda: self._ends_at,
            seals=seals,
        )
        self._events.subscribe(recorder)
        return recorder


@light_dataclass(frozen=True, slots=True)
class _Open:
    """The objects that are kept between invocations."""

    executor: Executor
    client: AsyncClient
    paused: Paused
    hooks: InvocationHooks
    recorder: Recorder | None
    cancelling: Cancelling | None


async def _recorded(client: AsyncClient, answer_at: float) -> None:
    """Wait for the records of what handlers have submitted: Lambda freezes what goes on."""
    until = min(answer_at, asyncio.get_running_loop().time() + LONGEST_S)
    try:
        async with asyncio.timeout_at(until):
            await drain_records(client)
    except TimeoutError:
        _log.warning(
            "jobs that handlers submitted are still being recorded when the function answers; the "
            "next invocation goes on"
        )


def _metrics(app: App) -> MetricLines:
    rng = random.Random()  # noqa: S311 - spreads samples, guards no secret
    return MetricLines(service_name(app.name, app.stage), rng=rng)


def _owner() -> str:
    """Return the name of this execution environment, as shown in claims and records."""
    return os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", "lambda")


async def _depth(transport: AsyncTransport, queue: str) -> int:
    try:
        async with asyncio.timeout(_DEPTH_S):
            return (await transport.depth(queue)).visible
    except (TransportError, TimeoutError):
        return 0  # a retry must not depend on this call
