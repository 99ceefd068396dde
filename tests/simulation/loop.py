"""An event loop on virtual time, which jumps to the next timer whenever nothing else is ready."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable
from contextvars import Context
from functools import partial
from heapq import heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")

_RESOLUTION_S = 1e-6
"""Timers closer together than this are due together."""


MOST_TURNS = 500_000
"""Number of iterations after which a life counts as endless: one with several jobs that kill their
worker, in a queue that hides them for long, takes half of that."""


class Stuck(Exception):
    """Nothing is left that could ever happen, but the simulation has not ended."""


class Endless(Exception):
    """The simulation took more iterations than any life needs."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without files, sockets or a clock of its own.

    Functions passed to an executor run in threads, in lockstep with the loop; each takes the
    virtual time that it asks for by `busy`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = itertools.count()
        self._threads: list[_Thread] = []
        self.turns = 0
        """Number of iterations."""

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    # typeshed's version is variadic in the callback's arguments.
    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at a time; of timers of the same time, the older one is first."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def _run_once(self) -> None:
        """Run one iteration: what is ready runs; if nothing is, time jumps to the next timer."""
        # asyncio's own queue of ready callbacks, which its stubs leave out.
        timers, ready = self._timers, self._ready  # type: ignore[attr-defined]
        while timers and timers[0][2].cancelled():
            heappop(timers)
        self._count_turn(ready)
        if not ready:
            if not timers:
                raise Stuck
            self._now = max(self._now, timers[0][0])
        due = self._now + _RESOLUTION_S
        while timers and timers[0][0] < due:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _count_turn(self, ready: Iterable[Any]) -> None:
        self.turns += 1
        if self.turns > MOST_TURNS:
            self.turns = 0  # leave room to clean up
            places = [_place_of(getattr(each._callback, "__self__", each)) for each in ready]
            raise Endless(f"after {MOST_TURNS:,} turns, at {self._now:.1f} s: {places[:5]}")

    def busy(self, seconds: float) -> None:
        """Let the calling function take that much virtual time."""
        current: _Thread | None = getattr(_here, "thread", None)
        assert current is not None, "only a plain function is busy"
        current.wait(seconds)

    # Returns a future of this loop, not a coroutine: typeshed's signature is variadic.
    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, function: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run a function in a thread, in lockstep with the loop; its future belongs to the loop."""
        future: asyncio.Future[T] = self.create_future()
        thread = _Thread(self, partial(function, *args), future)
        self._threads = [each for each in self._threads if not each.over] + [thread]
        self.call_soon(thread.go_on)
        return future

    def close(self) -> None:
        """Close the loop, and end its threads' work."""
        for thread in self._threads:
            thread.abandon()
        super().close()

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps, so it need not be woken."""


_here = threading.local()
"""Its ``thread`` is the one running here; not a context variable, since contexts are the job's."""


class _Abandoned(BaseException):
    """Ends a thread's work once the life is over."""


class _Thread:
    """A function in a thread of its own, which runs only while the loop waits.

    So it may take virtual time, and everything that may overtake a real thread may overtake it, in
    the same order in each run of a life.
    """

    def __init__(
        self, loop: VirtualLoop, function: Callable[[], Any], future: asyncio.Future[Any]
    ) -> None:
        self.over = False
        self._loop = loop
        self._function = function
        self._future = future
        self._error: BaseException | None = None
        self._value: Any = None
        self._its_turn, self._loops_turn = threading.Semaphore(0), threading.Semaphore(0)
        self._wakes_in: float | None = None
        self._thread: threading.Thread | None = None
        self._abandoned = False

    def go_on(self) -> None:
        """Let it run until it waits or ends; called in the loop."""
        if self._thread is None:
            if self._future.cancelled():
                self.over = True
                return  # it has never begun
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._its_turn.release()
        self._loops_turn.acquire()
        if not self.over:
            self._loop.call_later(self._wakes_in or 0.0, self.go_on)
        elif not self._future.done():
            if self._error is not None:
                self._future.set_exception(self._error)
            else:
                self._future.set_result(self._value)

    def wait(self, seconds: float) -> None:
        """Give control to the loop for that many virtual seconds; called in the thread."""
        self._wakes_in = seconds
        self._loops_turn.release()
        self._its_turn.acquire()
        if self._abandoned:
            raise _Abandoned

    def abandon(self) -> None:
        """End it where it waits."""
        if self._thread is not None and not self.over:
            self._abandoned = True
            self._its_turn.release()
            self._thread.join()

    def _run(self) -> None:
        _here.thread = self
        try:
            self._value = self._function()
        except BaseException as error:  # noqa: BLE001 - whoever awaits it hears of it
            self._error = error
        self.over = True
        self._loops_turn.release()


def _place_of(owner: object) -> str:
    """Return a task's position, from its coroutine down to what it waits for."""
    if not isinstance(owner, asyncio.Task):
        return repr(owner)
    places: list[str] = [owner.get_name()]
    awaited: Any = owner.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        places.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
        awaited = getattr(awaited, "cr_await", None)
    return " > ".join(places)
