"""The actors of a life: workers, functions' environments and clients; each can be killed.

Every task belongs to the actor in whose context it was made. A killed actor's calls have no effect
any more, its events are dropped, and its tasks are cancelled until none is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from tests.simulation.plan import Jump

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)

_ROUNDS = 200
"""Cancellations of a killed actor's tasks; one left after that swallows cancellations."""

_current: ContextVar[Actor | None] = ContextVar("actor", default=None)


class Actor:
    """One process, as seen by the others."""

    def __init__(self, name: str, *, skew_s: float = 0.0, jump: Jump | None = None) -> None:
        self.name = name
        self.clock = ActorClock(skew_s, jump)
        self.alive = True
        self.born_at = self.clock.monotonic()
        self.killed_at: float | None = None
        self.stopped_at: float | None = None
        """The time at which it was told to stop, as by SIGTERM."""
        self.gives_s: float | None = None
        """The time that an invocation of a function gives to a job; None: no function."""
        self.tasks: list[asyncio.Task[Any]] = []
        self.trouble_until = -1.0
        """The time until which one of its own calls may still suffer from a fault."""
        self.troubles: list[tuple[float, str]] = []
        """The times at which one of its own calls met a fault, each with the service."""

    def __repr__(self) -> str:
        return f"<Actor {self.name}>"

    def check(self) -> None:
        """Stop a caller that goes on although the actor is dead."""
        if not self.alive:
            raise asyncio.CancelledError(f"{self.name} was killed")

    async def lives(self) -> None:
        """Return at once, or never if the actor is dead."""
        if not self.alive:
            await asyncio.get_running_loop().create_future()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Attribute everything done and started within the block to this actor."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def begin(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a task of this actor."""
        with self.acting():
            return asyncio.create_task(work, name=name)

    def own(self, task: asyncio.Task[Any]) -> None:
        """Register a task created in the actor's context."""
        if len(self.tasks) >= 64:
            self.tasks = [each for each in self.tasks if not each.done()]
        self.tasks.append(task)

    def met_fault_of(self, service: str, since: float) -> bool:
        """True if one of its own calls to a service has met a fault since then."""
        return any(of == service and at >= since for at, of in self.troubles)

    @property
    def left(self) -> list[asyncio.Task[Any]]:
        """Return the actor's unfinished tasks."""
        return [task for task in self.tasks if not task.done()]

    def kill(self) -> None:
        """End the actor at once, whatever it is about to do."""
        if self.alive:
            self.alive = False
            self.killed_at = self.clock.monotonic()

    async def bury(self) -> None:
        """Return once none of its tasks is left."""
        for _ in range(_ROUNDS):
            if not (left := self.left):
                return
            for task in left:
                task.cancel()
            await asyncio.sleep(0.01)
        raise AssertionError(f"{self.name} was killed, and these tasks go on: {self.left}")


def current_actor() -> Actor | None:
    """Return the actor whose task is running, or None."""
    return _current.get()


class ActorClock:
    """A clock that is off by a constant, as each process's machine may be, until it is set anew."""

    def __init__(self, skew_s: float, jump: Jump | None = None) -> None:
        self._skew_s = skew_s
        self._jump = jump
        self._loop = asyncio.get_running_loop()

    def skew_s(self, at_s: float) -> float:
        """Return the seconds by which it is ahead at a time."""
        if self._jump is None or at_s < self._jump.at_s:
            return self._skew_s
        return self._skew_s + self._jump.by_s

    def now(self) -> datetime:
        at_s = self.monotonic()
        return START + timedelta(seconds=at_s + self.skew_s(at_s))

    def monotonic(self) -> float:
        return self._loop.time()


class OwnedTask(asyncio.Task[Any]):
    """A task that hashes by its number: a set of tasks has the same order in each run of a life."""

    _made = 0
    number = 0

    def __hash__(self) -> int:
        return self.number or id(self)

    @classmethod
    def restart(cls) -> None:
        """Restart the numbers, in a new life."""
        cls._made = 0

    @classmethod
    def make(cls, *args: Any, **options: Any) -> OwnedTask:
        """Make the next task."""
        cls._made += 1
        cls.number = cls._made  # read while the task registers itself
        task = cls(*args, **options)
        task.number = cls._made
        return task


def owned_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    """Make a task that belongs to the actor that starts it; a task factory."""
    task = OwnedTask.make(work, loop=loop, **options)
    if (actor := _current.get()) is not None:
        actor.own(task)
    return task
