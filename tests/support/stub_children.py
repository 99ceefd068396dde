"""Fake child processes: tasks that speak their protocol, one step of the loop at a time.

What a process wrote before it was killed still arrives, frame by frame, followed by the end of the
stream. A killed process ends some steps later.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_core import from_json

from headgate.workers.isolation import child_handle
from headgate.workers.isolation import protocol as frames
from headgate.workers.isolation.protocol import Frame, Kind

DYING_STEPS = 3
"""Iterations of the loop from the signal to the end of a process."""


async def steps(count: int) -> None:
    """Let the loop run that many iterations; no time passes."""
    for _ in range(count):
        await asyncio.sleep(0)


class StubProcess:
    """Stands for an `asyncio.subprocess.Process`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.is_alive = True
        self.is_reaped = False
        self.over = asyncio.Event()
        self._code = 0

    async def wait(self) -> int:
        await self.over.wait()
        self.is_reaped = True
        return self._code

    def signal(self, number: int) -> None:
        """End it, a moment later."""
        if self.is_alive:
            self.end(-number)

    def end(self, code: int) -> None:
        """End the process with that exit code."""
        self.is_alive = False
        self._code = code
        self._dying = asyncio.ensure_future(self._die())

    async def _die(self) -> None:
        await steps(DYING_STEPS)
        self.over.set()

    @property
    def is_over(self) -> bool:
        return self.over.is_set()


class StubChild:
    """A child process: one job at a time, by the protocol of `workers.isolation.child_main`."""

    def __init__(self, pid: int, children: StubChildren) -> None:
        self.process = StubProcess(pid)
        self.reader = asyncio.StreamReader()
        self.writer: Any = SimpleNamespace(
            write=self._take, transport=SimpleNamespace(abort=self._abort), wait_closed=_closed
        )
        self._children = children
        self._inbox: asyncio.Queue[Frame] = asyncio.Queue()
        self._sent: asyncio.Queue[bytes] = asyncio.Queue()
        self._cancelled = False
        parts = (self._live(), self._pump(), self._end())
        self._tasks = [asyncio.ensure_future(part) for part in parts]

    def _take(self, data: bytes) -> None:
        frame = from_json(data[4:])
        if frame["kind"] == Kind.CANCEL:
            self._cancelled = True
        else:
            self._inbox.put_nowait(frame)

    def _abort(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _send(self, kind: Kind, **fields: Any) -> None:
        if self.process.is_alive:
            self._sent.put_nowait(frames.encode(kind, **fields))

    async def _pump(self) -> None:
        """Carry the frames sent, each two steps late, and finally the end of the stream."""
        while frame := await self._sent.get():
            await steps(2)
            self.reader.feed_data(frame)
        self.reader.feed_eof()

    async def _end(self) -> None:
        await self.process.over.wait()
        self._sent.put_nowait(b"")

    async def _live(self) -> None:
        await self._inbox.get()
        await steps(3)
        if self._children.ready_s:
            await asyncio.sleep(self._children.ready_s)
        self._send(Kind.READY)
        while (await self._inbox.get())["kind"] != Kind.STOP:
            await self._run()
        if self.process.is_alive:
            self.process.end(0)

    async def _run(self) -> None:
        self._cancelled = False
        if self._children.ending in ("dies before", "never begins"):
            if self._children.ending == "dies before":
                self._children.ending = "returns"  # as the processes after the first one do
            self.process.signal(signal.SIGKILL)
            return
        self._send(Kind.STARTED)
        for _ in range(self._children.handler_steps):
            await steps(1)
            if self._cancelled and self._children.heeds_cancel:
                error = {"error_type": "CancelledError", "message": "", "traceback": ""}
                self._send(Kind.FAILED, **error, retryable=True, retry_after_s=None)
                return
        if self._children.ending == "hangs":
            await asyncio.Event().wait()
        if self._children.ending == "dies":
            self.process.signal(signal.SIGSEGV)
        if not self.process.is_alive:
            return
        self._children.work()
        self._send(Kind.RETURNED)
        await steps(self._children.result_steps)
        if self._children.result_s:
            await asyncio.sleep(self._children.result_s)
        self._send(Kind.DONE, value="receipt")


class StubChildren:
    """Replaces real processes while a test runs.

    Args:
        work: the handler's work; called when it is about to end.
        ready_s: seconds of the loop's time that a process takes to import the app.
        handler_steps: iterations of the loop that the handler takes.
        result_steps: iterations from its end until its result is sent.
        result_s: seconds of the loop's time in addition.
        heeds_cancel: whether it ends when it is asked to.
        ending: ``hangs`` for a handler that never ends, ``dies`` for one that kills its process,
            ``dies before`` for a first process that ends when it is sent a job, ``never begins``
            for processes that all do.
    """

    def __init__(
        self,
        work: Callable[[], None],
        *,
        ready_s: float = 0,
        handler_steps: int = 6,
        result_steps: int = 0,
        result_s: float = 0,
        heeds_cancel: bool = True,
        ending: str = "returns",
    ) -> None:
        self.work = work
        self.ready_s = ready_s
        self.handler_steps = handler_steps
        self.result_steps = result_steps
        self.result_s = result_s
        self.heeds_cancel = heeds_cancel
        self.ending = ending
        self.processes: dict[int, StubProcess] = {}
        self._pids = itertools.count(10**7)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make `workers.isolation.child_pool.child_handle` start these."""
        monkeypatch.setattr(child_handle, "start_process", self._start)
        monkeypatch.setattr("os.killpg", self._kill)
        monkeypatch.setattr("headgate.workers.parts.app_path", lambda _app: "stub:app")

    @property
    def left(self) -> list[StubProcess]:
        """Return the processes that still run, or whose end has not been noticed."""
        return [each for each in self.processes.values() if each.is_alive or not each.is_reaped]

    async def _start(self) -> tuple[Any, asyncio.StreamReader, Any]:
        await steps(1)
        child = StubChild(next(self._pids), self)
        self.processes[child.process.pid] = child.process
        await steps(2)  # it runs, and its starter has not been told yet
        return child.process, child.reader, child.writer

    def _kill(self, pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        if self.processes[pid].is_over:
            raise ProcessLookupError(pid)
        self.processes[pid].signal(number)


async def _closed() -> None:
    """Return at once, as if the channel were closed."""
