"""The main program of a child process: runs handlers of ``isolation="process"``, one at a time.

The worker starts it, tells it which app to import, and sends it jobs over a separate channel;
standard output and error belong to the handlers. Synchronous handlers run in the main thread, async
ones in an event loop there. Ctrl-C and SIGTERM are left to the worker, which outlives its children.
"""

from __future__ import annotations

import asyncio
import contextvars
import faulthandler
import io
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import to_json

from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.concurrency import Shielded, running_loop
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.app_path import load_app
from headgate.jobs.definitions.current_folder import check_folder
from headgate.jobs.definitions.handlers.context import JobContext, request_stop
from headgate.jobs.definitions.handlers.injection import Shared
from headgate.jobs.definitions.handlers.resources import OpenResources
from headgate.jobs.definitions.job_type import JobType, NewJob
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.definitions.policies import load_handlers
from headgate.jobs.errors import ResultNotSerializable
from headgate.jobs.execution.calling.surroundings import Bounds, surrounded, surrounded_in_thread
from headgate.jobs.messages.envelope import Envelope, parse
from headgate.jobs.retry.policy import DEFAULT_RETRY
from headgate.jobs.retry.signals import Discard
from headgate.jobs.submission.prepare import Submission, prepare_child
from headgate.jobs.values.redaction import secrets_of
from headgate.jobs.values.texts import kind_of, legible, text_of, type_of
from headgate.workers import logs
from headgate.workers.isolation import protocol
from headgate.workers.isolation.channel import Channel, nothing
from headgate.workers.isolation.protocol import Frame, FrameError, Kind

if TYPE_CHECKING:
    from headgate.jobs.client.child_handles import ChildHandles
    from headgate.jobs.handles.submitted_job import SubmittedJob

R = TypeVar("R")
T = TypeVar("T")
U = TypeVar("U")

_clock = SystemClock()


def main(descriptor: int) -> None:
    """Run jobs for the worker at the other end of a socket until it sends STOP."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # A function that does nothing, since processes that handlers start would inherit SIG_IGN.
        signal.signal(number, _leave_it_to_the_worker)
    faulthandler.enable(2)  # a crash in C writes the line that led to it to standard error
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a killed process flushes nothing
    channel = Channel(descriptor)
    channel.listen()
    with asyncio.Runner() as runner:
        try:
            app = _set_up(channel.next_order())
            holder = _Resources(app)
            resources = runner.run(holder.open())
        except BaseException as error:
            channel.send(protocol.encode(Kind.UNFIT, error=f"{type_of(error)}: {text_of(error)}"))
            raise  # its traceback goes to standard error
        channel.send(protocol.encode(Kind.READY))
        while (order := channel.next_order())["kind"] != Kind.STOP:
            channel.send(_Attempt(app, order, channel, runner, resources).frame())
        runner.run(holder.close())


def _leave_it_to_the_worker(_number: int, _frame: object) -> None:
    """Ignore the signal: Ctrl-C reaches every process of the terminal, and the worker decides."""


def _set_up(setup: Frame) -> App:
    sys.path[:] = setup["sys_path"]
    if (here := str(Path.cwd())) in sys.path:
        check_folder(here)
    if (log := setup["log"]) is not None:
        logs.configure(level=log["level"], json=log["json"])
    app = load_app(setup["app"])
    load_handlers(app)
    return app


class _Resources:
    """An app's resources, entered and left in one task, since some can't be left in another."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._leave = asyncio.Event()

    async def open(self) -> OpenResources:
        opened: asyncio.Future[OpenResources] = asyncio.get_running_loop().create_future()
        self._holding = asyncio.create_task(self._hold(opened), name="headgate-resources")
        waited: set[asyncio.Future[Any]] = {opened, self._holding}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if self._holding.done():
            await self._holding
        return opened.result()

    async def close(self) -> None:
        self._leave.set()
        await self._holding

    async def _hold(self, opened: asyncio.Future[OpenResources]) -> None:
        async with self._app.resources.opened() as resources:
            opened.set_result(resources)
            await self._leave.wait()


class _Host:
    """A job's `jobs.definitions.handlers.context.Host` in a child process. Thread-safe."""

    def __init__(
        self, app: App, envelope: Envelope, channel: Channel, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._app = app
        self._envelope = envelope
        self._channel = channel
        self._loop = loop
        self._pending: list[Future[Submission]] = []

    def progress(self, percent: float, message: str, data: Mapping[str, Any]) -> None:
        """Report the job's progress; the data are JSON values."""
        job, said = str(self._envelope.id), legible(message)
        fields = {"job": job, "percent": percent, "message": said, "data": data}
        self._channel.send(protocol.encode(Kind.PROGRESS, **fields))

    def submit(
        self, job: JobType[Any, R] | NewJob[R], payload: Any, overrides: SubmitOptions
    ) -> SubmittedJob[R]:
        """Submit another job through the worker; outside an event loop, wait until SQS has it."""
        submission = prepare_child(self._app, self._envelope, job, payload, overrides, _clock.now())
        asked = self._channel.request("submit", protocol.message_fields(submission.message))
        taken = _then(asked, lambda kept: replace(submission, duplicate_of=kept))
        self._pending.append(taken)
        became = taken.result() if running_loop() is None else submission
        declared = job.type if isinstance(job, NewJob) else job
        return _handles(self._app)(became, declared, self._awaitable(taken))

    def all_taken(self) -> None:
        """Wait until SQS has all submitted jobs.

        Raises:
            HeadgateError: the error of the first submission that failed.
        """
        for taken in self._pending:
            taken.result()

    def _awaitable(self, taken: Future[Submission]) -> Awaitable[Submission]:
        if running_loop() is not None:
            waiting = asyncio.wrap_future(taken)
            waiting.add_done_callback(_look_at)
            return Shielded(waiting)
        done = self._loop.create_future()
        done.set_result(taken.result())
        return done


@cache
def _handles(app: App) -> ChildHandles:
    """Return what makes handles, over connections of this process, opened on first use."""
    from headgate.jobs.client.child_handles import child_handles
    from headgate.jobs.client.client import Client  # most children submit nothing

    return child_handles(Client(app))


def _then(first: Future[T], make: Callable[[T], U]) -> Future[U]:
    """Return a future of what is made of another's result."""
    second: Future[U] = Future()

    def hand_on(done: Future[T]) -> None:
        try:
            second.set_result(make(done.result()))
        except Exception as error:  # noqa: BLE001 - handed on
            second.set_exception(error)

    first.add_done_callback(hand_on)
    return second


def _look_at(taken: asyncio.Future[Any]) -> None:
    # `all_taken` raises its error; without this asyncio would report it again if never awaited.
    if not taken.cancelled():
        taken.exception()


class _Call:
    """One call of a handler, within what the app opens around it."""

    def __init__(
        self,
        job: JobType[Any, Any],
        payload: Any,
        ctx: JobContext,
        host: _Host,
        resources: OpenResources,
    ) -> None:
        self.ctx = ctx
        self.resources = resources
        self._job = job
        self._payload = payload
        self._host = host
        self._handler = job.require_handler()
        self.is_async = self._handler.is_async
        self.layers = resources.layers(self._handler)

    async def surrounded(self, run: Callable[[Shared], Awaitable[Any]]) -> Any:
        """Enter the layers in the event loop, and run the handler within them by ``run``."""
        unbounded = Bounds(self._job.name, 0.0, None)  # the worker ends this process in time
        return await surrounded(run, self.layers, self.resources.shared, self.ctx, unbounded)

    async def handled(self, opened: Shared) -> Any:
        """Call an async handler; return once SQS has what it has submitted."""
        result = await self._handler.call(self._payload, self.ctx, opened)
        self._host.all_taken()
        return result

    def plain(self, opened: Shared) -> Any:
        """Call a synchronous handler; return once SQS has what it has submitted."""
        result = surrounded_in_thread(self._handler, self._payload, self.ctx, opened, self.layers)
        self._host.all_taken()
        return result


def _within(runner: asyncio.Runner, call: _Call, context: contextvars.Context) -> Any:
    """Call a synchronous handler in this thread, between the two halves of a task of the loop.

    The loop rests while the handler runs. The layers are entered and left in one task, since some
    can't be left in another.
    """
    loop = runner.get_loop()
    ready: asyncio.Future[Shared] = loop.create_future()
    ended: asyncio.Future[Any] = loop.create_future()

    async def wait(opened: Shared) -> Any:
        ready.set_result(opened)
        return await ended

    async def until_one_of(*those: asyncio.Future[Any]) -> None:
        await asyncio.wait(those, return_when=asyncio.FIRST_COMPLETED)

    task = loop.create_task(call.surrounded(wait), name="headgate-job", context=context)
    runner.run(until_one_of(task, ready))
    if ready.done():
        _settle(ended, lambda: context.run(call.plain, ready.result()))
    runner.run(until_one_of(task))
    return task.result()


def _settle(ended: asyncio.Future[Any], function: Callable[[], Any]) -> None:
    """Set a future to the result or exception of a function."""
    try:
        ended.set_result(function())
    except BaseException as error:  # noqa: BLE001 - raised again within the layers
        ended.set_exception(error)


class _Attempt:
    """One call of a handler, and the frame that reports its outcome."""

    def __init__(
        self,
        app: App,
        order: Frame,
        channel: Channel,
        runner: asyncio.Runner,
        resources: OpenResources,
    ) -> None:
        self._app = app
        self._order = order
        self._channel = channel
        self._runner = runner
        self._resources = resources
        self._policy = DEFAULT_RETRY
        self._write: Callable[[Any], bytes] = to_json
        self._payload: Any = None
        self._task: asyncio.Task[Any] | None = None

    def frame(self) -> bytes:
        """Run the job and return its outcome as a frame; its failure is never raised."""
        self._channel.send(protocol.encode(Kind.STARTED))
        try:
            result = self._run()
        except BaseException as error:  # noqa: BLE001 - the job's boundary; SystemExit included
            return self._failure(error)
        finally:
            self._leave_nothing_behind()
        try:
            return protocol.encode_result(result, self._write)
        except FrameError as error:
            returned = f"the handler returned {kind_of(result)}"
            refused = ResultNotSerializable(f"{returned} that can't leave its process: {error}")
            return self._failure(refused, retryable=False)  # it would return the same again

    def _run(self) -> Any:
        envelope = parse(self._order["body"])
        job = self._app.find_type(envelope.type)
        self._policy, self._write = job.retry, job.write_result
        self._payload = payload = job.load(envelope.payload, envelope.schema_)
        host = _Host(self._app, envelope, self._channel, self._runner.get_loop())
        ctx = self._context(job, envelope, host)
        self._channel.on_cancel = lambda: self._cancel(ctx)
        try:
            result = self._call(_Call(job, payload, ctx, host, self._resources))
        except Discard:
            self._finish(host)  # or what it has submitted could be lost with it
            raise
        self._finish(host)
        return result

    def _finish(self, host: _Host) -> None:
        """Tell that the handler has ended the job, once SQS has what it has submitted."""
        self._channel.send(protocol.encode(Kind.RETURNED))
        host.all_taken()

    def _call(self, call: _Call) -> Any:
        context = contextvars.copy_context()  # values set by a handler must not reach the next job
        if call.is_async:
            return self._runner.run(self._await(call), context=context)
        if not call.layers.outer:
            return context.run(call.plain, call.resources.shared)
        return _within(self._runner, call, context)

    async def _await(self, call: _Call) -> Any:
        self._task = asyncio.current_task()
        if call.ctx.cancelled:  # before there was a task to cancel
            raise asyncio.CancelledError
        return await call.surrounded(call.handled)

    def _leave_nothing_behind(self) -> None:
        self._channel.on_cancel = nothing
        if self._task is not None and not self._task.done():
            self._task.cancel()  # another task raised SystemExit, which stops the loop immediately

    def _cancel(self, ctx: JobContext) -> None:
        request_stop(ctx)
        if self._task is not None:
            self._runner.get_loop().call_soon_threadsafe(self._task.cancel)

    def _context(self, job: JobType[Any, Any], envelope: Envelope, host: _Host) -> JobContext:
        order = self._order
        return JobContext(
            id=str(envelope.id),
            type=job.name,
            queue=order["queue"],
            attempt=order["attempt"],
            max_attempts=order["max_attempts"],
            tenant=envelope.tenant,
            deadline=datetime.fromisoformat(order["deadline"]),
            _host=host,
        )

    def _failure(self, error: BaseException, **judgement: bool) -> bytes:
        fields = protocol.failure_fields(
            error,
            self._policy,
            _clock.now(),
            redaction=self._app.redaction,
            secrets=secrets_of(self._payload),
        )
        return protocol.encode(Kind.FAILED, **fields | judgement)
