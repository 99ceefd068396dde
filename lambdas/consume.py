"""Lambda as a worker: runs the jobs of an SQS event source, with the verdicts of the ECS worker.

    from lambdas.consume import consumer
    from shop.app import app

    handler = consumer(app)

The mapping must have ``ReportBatchItemFailures``: a message is deleted by Lambda when its outcome
is final, and stays where it is otherwise, its visibility changed here by its backoff. A dead letter
is sent before its message is reported as done. The function's timeout must not exceed the queue's
visibility timeout, since nothing extends it.

https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Protocol, assert_never

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from jobs.aio import AsyncClient
from jobs.app import App
from jobs.batcher import Batcher, Pacing
from jobs.calling import Means
from jobs.clock import Clock, SystemClock
from jobs.delivery import Delivery
from jobs.errors import MessageUnreadable, TransportError
from jobs.event_log import log_event, name_job
from jobs.events import Events, SettlementFailed
from jobs.execution import Executor, Run, Verdict, parked
from jobs.ports import OutgoingMessage, Transport, VisibilityChange
from jobs.settlement import Ack, DeadLetter, Quarantine, Release, RetryAfter
from lambdas.source import delivery_of, records_of

_log = logging.getLogger("headgate.consume")

CONCURRENCY = 10
"""Jobs of one invocation at once; a batch is of ten by default."""

MARGIN_S = 3.0
"""How long before the function's timeout jobs are interrupted, so that the answer is in time."""

_CLEAN_UP_S = 1.0
"""Of it, how long an interrupted handler may take."""

_PACING = Pacing(linger_s=0.01, tries=2)

_WHY = "the function's time is nearly up"


class Context(Protocol):
    """What is needed of Lambda's context object."""

    def get_remaining_time_in_millis(self) -> int:
        """How long the function may still run."""
        ...


Response = dict[str, list[dict[str, str]]]
"""``batchItemFailures``: the messages that Lambda must not delete."""


def consumer(
    app: App,
    *,
    transport: Transport | None = None,
    events: Events | None = None,
    concurrency: int = CONCURRENCY,
    clock: Clock | None = None,
) -> Consumer:
    """The function's handler; make it once, when the module is imported.

    Args:
        app: its handlers are loaded here.
        transport: open, and left open; None connects to SQS at the first invocation.
        events: hears of everything; None logs it, as JSON.
        concurrency: jobs of one invocation at once.
        clock: tells the time.

    Raises:
        ConfigurationError: a handler module doesn't import, or a type has no handler.
    """
    if events is None:
        _log_as_json()
    return Consumer(
        app,
        transport=transport,
        events=events or Events(log_event),
        concurrency=concurrency,
        clock=clock or SystemClock(),
    )


class Consumer:
    """A Lambda handler; made by `consumer`.

    Its event loop, its connections and the app's resources are made at the first invocation and
    kept for as long as Lambda keeps the execution environment. Handlers with
    ``isolation="process"`` run in the function's own process, which Lambda isolates already.
    """

    def __init__(
        self,
        app: App,
        *,
        transport: Transport | None,
        events: Events,
        concurrency: int,
        clock: Clock,
    ) -> None:
        app.load_handlers()
        self._app = app
        self._transport = transport
        self._events = events
        self._concurrency = concurrency
        self._clock = clock
        self._runner = asyncio.Runner()
        self._kept = AsyncExitStack()
        self._means: _Means | None = None

    def __call__(self, event: Mapping[str, Any], context: Context) -> Response:
        """Run the jobs of one batch.

        Raises:
            ConfigurationError: the event is not of a queue of this app; all of it comes again.
        """
        return self._runner.run(self._handle(event, context))

    def close(self) -> None:
        """Close what is open. Lambda itself never asks for it."""
        self._runner.run(self._kept.aclose())
        self._runner.close()

    async def _handle(self, event: Mapping[str, Any], context: Context) -> Response:
        time_s = max(0.0, context.get_remaining_time_in_millis() / 1000 - MARGIN_S)
        means = self._means = self._means or await self._open()
        batch = _Batch(means, self._concurrency)
        failed = await batch.run(records_of(event), time_s)
        return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}

    async def _open(self) -> _Means:
        transport = self._transport
        if transport is None:
            from jobs.aws.sqs import SqsTransport

            transport = await self._kept.enter_async_context(SqsTransport())
        client = AsyncClient(self._app, transport=transport, clock=self._clock, events=self._events)
        threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="headgate-job")
        loop = asyncio.get_running_loop()
        shared = await self._kept.enter_async_context(self._app.resources.opened())
        means = Means(
            app=self._app,
            clock=self._clock,
            events=self._events,
            send=client.send,
            call_blocking=lambda function: loop.run_in_executor(threads, function),
            shared=shared,
        )
        return _Means(self._app, transport, Executor(means, backlog=partial(_depth, transport)))


class _Means:
    """What all invocations of an environment share."""

    def __init__(self, app: App, transport: Transport, executor: Executor) -> None:
        self.topology = app.topology
        self.transport = transport
        self.executor = executor
        self.clock = executor.means.clock
        self.events = executor.means.events


class _Batch:
    """One invocation's messages on their way to their verdicts."""

    def __init__(self, means: _Means, concurrency: int) -> None:
        self._means = means
        self._slots = asyncio.Semaphore(concurrency)
        self._is_late = False
        self._running: set[Run] = set()
        self._failed: dict[str, None] = {}
        """Ids of the messages that stay, in order."""
        self._sends: dict[str, Batcher[OutgoingMessage]] = {}
        self._changes: dict[str, Batcher[VisibilityChange]] = {}

    async def run(self, records: Sequence[Mapping[str, Any]], time_s: float) -> list[str]:
        """Run them all; returns the ids of those that stay in their queues."""
        lines = self._lines(records)
        work = asyncio.gather(*(self._follow(line) for line in lines))
        loop = asyncio.get_running_loop()
        alarms = [
            loop.call_later(time_s, self._interrupt),
            loop.call_later(time_s + _CLEAN_UP_S, partial(self._interrupt, abandon=True)),
        ]
        try:
            await work
        finally:
            for alarm in alarms:
                alarm.cancel()
        return [*self._failed]

    def _lines(self, records: Sequence[Mapping[str, Any]]) -> Iterable[list[Delivery]]:
        """What has to run one after the other: the messages of one FIFO group; else one each."""
        lines: defaultdict[tuple[str, str], list[Delivery]] = defaultdict(list)
        for record in records:
            now = self._means.clock.monotonic()
            try:
                delivery = delivery_of(record, self._means.topology, now)
            except MessageUnreadable as error:
                _log.error("%s; it stays in its queue", error)
                self._failed[str(record["messageId"])] = None
                continue
            own = delivery.message.message_id
            line = (delivery.message.group or own) if delivery.queue.fifo else own
            lines[delivery.queue.name, line].append(delivery)
        return lines.values()

    async def _follow(self, line: Sequence[Delivery]) -> None:
        """Run a line in order, up to the first that stays: those behind it must not come before."""
        for at, delivery in enumerate(line):
            async with self._slots:
                is_gone = await self._settle_one(delivery)
            if not is_gone:
                self._keep(delivery)
                await asyncio.gather(*(self._give_back(each) for each in line[at + 1 :]))
                return

    async def _settle_one(self, delivery: Delivery) -> bool:
        """See one through; returns whether Lambda may delete it."""
        if self._is_late:
            await self._show_in(delivery, 0, job_id="")
            return False
        run = self._means.executor.begin(delivery)
        self._running.add(run)
        try:
            verdict = await run.verdict()
        finally:
            self._running.discard(run)
        return await self._carry_out(delivery, verdict)

    async def _carry_out(self, delivery: Delivery, verdict: Verdict) -> bool:
        """Do what the verdict says; returns whether the message may be deleted."""
        match verdict.action:
            case Ack():
                is_done = True
            case RetryAfter(delay_s=delay_s) | Release(delay_s=delay_s):
                job_id = verdict.attempt.job_id
                is_done = await self._show_in(delivery, delay_s, job_id=job_id)
            case DeadLetter() | Quarantine() as action:
                is_done = await self._park(delivery, verdict, action)
            case _:
                assert_never(verdict.action)
        if is_done and (event := verdict.aftermath(self._means.clock.now())) is not None:
            self._means.events.emit(event)
        return is_done and not isinstance(verdict.action, RetryAfter | Release)

    async def _park(
        self, delivery: Delivery, verdict: Verdict, action: DeadLetter | Quarantine
    ) -> bool:
        means = self._means
        quarantine, now = means.topology.quarantine_name, means.clock.now()
        target, letter = parked(delivery, verdict, action, quarantine=quarantine, at=now)
        if target not in self._sends:
            self._sends[target] = self._batcher(partial(means.transport.send, target))
        sent = self._sends[target].put(letter)
        return await self._confirmed(sent, "send", delivery, verdict.attempt.job_id)

    async def _show_in(self, delivery: Delivery, delay_s: int, *, job_id: str) -> bool:
        queue = delivery.queue.name
        if queue not in self._changes:
            change = partial(self._means.transport.change_visibility, queue)
            self._changes[queue] = self._batcher(change)
        wanted = VisibilityChange(receipt=delivery.message.receipt, timeout_s=delay_s)
        changed = self._changes[queue].put(wanted)
        return await self._confirmed(changed, "change_visibility", delivery, job_id)

    async def _give_back(self, delivery: Delivery) -> None:
        self._keep(delivery)
        await self._show_in(delivery, 0, job_id="")

    def _keep(self, delivery: Delivery) -> None:
        self._failed[delivery.message.message_id] = None

    async def _confirmed(
        self, done: asyncio.Future[None], action: str, delivery: Delivery, job_id: str
    ) -> bool:
        """Whether SQS has carried it out. If not, the message comes again by itself."""
        try:
            await done
        except TransportError as error:
            self._means.events.emit(
                SettlementFailed(
                    at=self._means.clock.now(),
                    queue=delivery.queue.name,
                    message_id=delivery.message.message_id,
                    job_id=job_id,
                    action=action,
                    error=str(error),
                )
            )
            return False
        return True

    def _batcher(self, call: Callable[..., Any]) -> Batcher[Any]:
        return Batcher(
            call,
            pacing=_PACING,
            eager=lambda: not self._running,
            name="headgate-consume-settle",
            rng=random.Random(),  # noqa: S311 - spreads pauses, guards no secret
        )

    def _interrupt(self, *, abandon: bool = False) -> None:
        self._is_late = True
        for run in self._running:
            if abandon and run.running and not run.cancellable:
                _log.warning(
                    "a plain function can't be stopped: it goes on while this environment does, "
                    "and its message is delivered again: %s",
                    run.job.attempt.job_id if run.job is not None else "",
                )
            run.interrupt(_WHY, abandon=abandon)


def _log_as_json() -> None:
    """Let Headgate's loggers, and those of handlers' contexts, write what Powertools does."""
    logger = logging.getLogger("headgate")
    if logger.handlers:
        return  # the user's own
    handler = logging.StreamHandler()
    handler.setFormatter(LambdaPowertoolsFormatter())
    handler.addFilter(name_job)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # Lambda's own handler would write each line again


async def _depth(transport: Transport, queue: str) -> int:
    try:
        return (await transport.depth(queue)).visible
    except TransportError:
        return 0  # a retry must not depend on this call
