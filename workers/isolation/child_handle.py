"""The worker's handle on one child process: to start it, send it jobs, watch it and kill it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psutil

from headgate.jobs.core.clock import Clock
from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.errors import ChildDied, JobTimeout
from headgate.jobs.execution.delivery import LARGE, Job
from headgate.jobs.retry.signals import RetryLater
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import text_of, type_of
from headgate.workers.background import seen_through
from headgate.workers.isolation import protocol
from headgate.workers.isolation.child_process import (
    ending_of,
    logging_here,
    memory_of,
    start_process,
)
from headgate.workers.isolation.protocol import Frame, Kind
from headgate.workers.isolation.sent_job import NotStarted, Returned, SentJob

_log = OwnLog("headgate.worker")

Answer = Callable[[Any], Awaitable[Any]]
"""Answers a request of a handler in a child: takes JSON values, and returns JSON values. An
exception is raised again in the child, from its message."""

_SAMPLE_S = 0.25
"""Seconds between samples of the memory of a job that has a limit."""

_EXIT_S = 2.0
"""Longest time for a child to end: to close its resources, or to be killed."""

_ARRIVAL_S = 2.0
"""Longest wait for the result of a handler that has returned, when the job has to end."""

_MIB = 2**20


class ChildUnfit(Exception):
    """A child ended, or had to be ended, before it could run a job."""


class Child:
    """A process that runs one job at a time. Made by `spawned`."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        answers: Mapping[str, Answer],
        clock: Clock,
        grace_s: float,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._answers = answers
        self._clock = clock
        self._grace_s = grace_s
        self._memory = memory_of(process.pid)
        self._ready: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._attempt: SentJob | None = None
        self._fault: str | None = None
        self._stopped = False
        """True once it is being ended because the worker stops, not because of a fault."""
        self._answering: set[asyncio.Task[None]] = set()
        self._life = asyncio.create_task(self._live(), name=f"headgate-child-{process.pid}")
        self.jobs = 0
        """Number of jobs that it has begun."""
        self.fresh_mb = 0.0
        """Its resident memory when it was ready, in MiB."""
        self.spent = asyncio.Event()
        """Set when it takes no more jobs: it is dead, killed or retired."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def rss_mb(self) -> float:
        """Its resident memory in MiB, without the processes that it started; 0 once it is gone."""
        try:
            return self._memory() / _MIB
        except psutil.NoSuchProcess:
            return 0.0

    async def ready(self, within_s: float) -> None:
        """Wait until it is ready to run a job.

        Raises:
            ChildUnfit: it can't run jobs, or took too long.
        """
        await asyncio.wait({self._ready}, timeout=within_s)
        if not self._ready.done():
            raise ChildUnfit(f"it did not import the app within {within_s:g} s")
        if (fault := self._ready.result()) is not None:
            raise ChildUnfit(fault)
        self.fresh_mb = self.rss_mb

    async def run(self, job: Job, body: str, ctx: JobContext) -> Any:
        """Run a job and return its handler's result; an interruption kills the child.

        The handler's own end counts even then: a result that has arrived, or is on its way, is
        returned although the job was cancelled or its time is up.

        Raises:
            JobSignal, Stopped, ChildFailed: the handler raised it.
            JobTimeout: the child was killed at the job's timeout.
            ChildDied: the child died, or was killed for its use of memory.
            NotStarted: the child was dead already, or died before it had begun the job.
        """
        frame = await self._frame_of(job, body, ctx)
        attempt = self._attempt = SentJob(ctx)
        try:
            self._writer.write(frame)
            await self._until_over(attempt, job)
        except (asyncio.CancelledError, JobTimeout, ChildDied) as cut:
            if isinstance(cut, asyncio.CancelledError):
                self._writer.write(protocol.encode(Kind.CANCEL))
                with contextlib.suppress(asyncio.CancelledError):  # asked again: no more grace
                    await asyncio.wait({attempt.over}, timeout=self._grace_s)
            with contextlib.suppress(asyncio.CancelledError):
                await seen_through(self._end(attempt))
            if attempt.was_cut:
                raise
        finally:
            self._attempt = None
        return attempt.result()

    async def _end(self, attempt: SentJob) -> None:
        """Kill the child during a job, unless the job has ended, and read its remaining frames."""
        try:
            if attempt.returned:
                await asyncio.wait({attempt.over}, timeout=_ARRIVAL_S)
        finally:
            if not attempt.over.done():
                self.kill()
        if not attempt.over.done():
            # Frames that it sent before are still in the channel, and are read to the end.
            await asyncio.wait({attempt.over}, timeout=2 * _EXIT_S)

    def kill(self) -> None:
        """Send SIGKILL to it and to all processes in its group."""
        self.spent.set()
        self._kill_group()

    def retire(self) -> None:
        """Give it no more jobs."""
        self.spent.set()

    async def close(self) -> None:
        """End it: gracefully if idle, immediately if it runs a job or is not ready; bounded."""
        self._stopped = not self.spent.is_set()
        self.spent.set()
        try:
            if self._attempt is not None:
                await self._end(self._attempt)
            elif self._ready.done():
                self._writer.write(protocol.encode(Kind.STOP))
                await asyncio.wait({self._life}, timeout=_EXIT_S)
        finally:
            if not self._life.done():
                self.kill()
        await asyncio.wait({self._life}, timeout=2 * _EXIT_S)
        if not self._life.done():
            _log.error("child process %d is still running after SIGKILL", self.pid)
        await _cancelled(self._life, *self._answering)
        self._writer.transport.abort()
        with contextlib.suppress(ConnectionError):  # it may be lost before it is closed
            await self._writer.wait_closed()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def _frame_of(self, job: Job, body: str, ctx: JobContext) -> bytes:
        """Return the frame that orders a job; a large one is encoded in a thread.

        Raises:
            NotStarted: the child died meanwhile.
        """
        if len(body) <= LARGE:
            return self._order(job, body, ctx)
        frame = await asyncio.to_thread(self._order, job, body, ctx)
        if self.spent.is_set():
            raise NotStarted("the child process ended before its job was sent")
        return frame

    def _order(self, job: Job, body: str, ctx: JobContext) -> bytes:
        # Counted from now, and not from when the job began to wait for a child.
        deadline = self._clock.now() + timedelta(seconds=job.timeout_s)
        return protocol.encode(
            Kind.RUN,
            body=body,
            queue=ctx.queue,
            attempt=ctx.attempt,
            max_attempts=ctx.max_attempts,
            deadline=deadline.isoformat(),
        )

    async def _until_over(self, attempt: SentJob, job: Job) -> None:
        limit_mb = job.type.memory_mib
        end = self._clock.monotonic() + job.timeout_s
        while not attempt.over.done():
            if (left_s := end - self._clock.monotonic()) <= 0:
                raise JobTimeout(job.type.name, job.timeout_s)
            if limit_mb is not None and self.rss_mb > limit_mb:
                alone = f"the app alone takes {self.fresh_mb:.0f} MB"
                raise ChildDied(f"memory limit of {limit_mb} MB exceeded; {alone}")
            step_s = left_s if limit_mb is None else min(left_s, _SAMPLE_S)
            await asyncio.wait({attempt.over}, timeout=step_s)

    async def _live(self) -> None:
        """Read its frames until it ends, then kill its group and reap it."""
        hearing = asyncio.create_task(self._hear(), name=f"headgate-hear-{self.pid}")
        exiting = asyncio.create_task(self._process.wait(), name=f"headgate-exit-{self.pid}")
        try:
            await asyncio.wait({hearing, exiting}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({exiting}, timeout=_EXIT_S)  # channel closed, it may end by itself
            self._kill_group()  # also processes it started, which may hold the channel open
            code = await exiting
            await asyncio.wait({hearing}, timeout=_EXIT_S)
        finally:
            await _cancelled(hearing, exiting)
        self._bury(self._fault or ending_of(code))

    def _bury(self, how: str) -> None:
        self.spent.set()
        if not self._ready.done():
            self._ready.set_result(how)
        if (attempt := self._attempt) is None:
            return
        if self._stopped:
            attempt.end(RetryLater(timedelta(seconds=1), "the worker is stopping"))
        else:
            fault = ChildDied if attempt.started else NotStarted
            attempt.end(fault(f"the child process {how}"))

    async def _hear(self) -> None:
        try:
            while (frame := await protocol.read(self._reader)) is not None:
                self._heed(frame)
        except Exception as error:  # noqa: BLE001 - a bad frame must end only its own child
            self._fault = f"was not understood: {type_of(error)}: {text_of(error)}"
            self._kill_group()

    def _heed(self, frame: Frame) -> None:
        match frame["kind"], self._attempt:
            case Kind.READY, _:
                self._ready.set_result(None)
            case Kind.UNFIT, _:
                self._ready.set_result(str(frame.get("error")))
            case Kind.STARTED, SentJob() as attempt:
                attempt.started = True
                self.jobs += 1
            case Kind.RETURNED, SentJob() as attempt:
                attempt.returned = True
            case Kind.PROGRESS, SentJob(ctx=ctx) if frame["job"] == ctx.id:
                # Not that of an earlier job, of which a thread has been left running.
                _ = ctx.progress(frame["percent"], frame["message"], **frame["data"])
            case Kind.CALL, _:
                task = asyncio.create_task(self._answer(frame), name="headgate-child-call")
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case Kind.DONE, SentJob() as attempt:
                attempt.end(Returned(frame["value"]))
            case Kind.FAILED, SentJob() as attempt:
                attempt.end(protocol.failure_of(frame))

    async def _answer(self, frame: Frame) -> None:
        number = frame["number"]
        try:
            value = await self._answers[frame["name"]](frame["data"])
            answer = protocol.encode(Kind.ANSWER, number=number, value=value)
        except Exception as error:  # noqa: BLE001 - it is sent to the handler that asked
            fields = {"error_type": type_of(error), "message": text_of(error)}
            answer = protocol.encode(Kind.ANSWER, number=number, **fields)
        self._writer.write(answer)


@asynccontextmanager
async def spawned(
    app_path: str, *, answers: Mapping[str, Answer], clock: Clock, grace_s: float
) -> AsyncIterator[Child]:
    """Start a child, which may not be ready yet, and close it when the context is left.

    A cancellation at any point leaves no process behind: one that is being started is awaited,
    killed and reaped, and its end is awaited.

    Args:
        app_path: the app that it imports, as ``module:attribute``.
        answers: answers the requests of its handlers, by kind.
        clock: tells the time, for timeouts of jobs.
        grace_s: how long a cancelled job may take to end by itself.

    Raises:
        ChildUnfit: the system can't start another process.
    """

    async def start() -> Child:
        process, reader, writer = await start_process()
        child = Child(process, reader, writer, answers=answers, clock=clock, grace_s=grace_s)
        writer.write(
            protocol.encode(Kind.SETUP, app=app_path, sys_path=sys.path, log=logging_here())
        )
        return child

    starting = asyncio.create_task(start(), name="headgate-start-child")
    try:
        await asyncio.wait({starting})
        yield _child_of(starting)
    finally:
        await seen_through(_ended(starting))


def _child_of(starting: asyncio.Task[Child]) -> Child:
    try:
        return starting.result()
    except OSError as error:
        raise ChildUnfit(f"no process could be started: {error}") from error


async def _ended(starting: asyncio.Task[Child]) -> None:
    await asyncio.wait({starting})
    if not starting.cancelled() and starting.exception() is None:
        await starting.result().close()


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
