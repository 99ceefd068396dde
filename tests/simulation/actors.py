"""Whoever acts in a life: a worker, a function's environment, a client; each can be killed.

Every task belongs to the actor in whose context it was made. A killed actor's calls have no effect
any more, nothing that it says is heard, and its tasks are cancelled until none is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)

_ROUNDS = 200
"""So often a killed actor's tasks are cancelled; one that survives that swallows cancellations."""

_current: ContextVar[Actor | None] = ContextVar("actor", default=None)


class Actor:
    """One process, as far as others can tell."""

    def __init__(self, name: str, *, skew_s: float = 0.0) -> None:
        self.name = name
        self.clock = ActorClock(skew_s)
        self.alive = True
        self.born_at = self.clock.monotonic()
        self.killed_at: float | None = None
        self.tasks: list[asyncio.Task[Any]] = []
        self.trouble_until = -1.0
        """Until when a call of its own may still suffer from a fault."""
        self.troubles: list[tuple[float, str]] = []
        """The times at which a call of its own met a fault, and the service of each."""

    def __repr__(self) -> str:
        return f"<Actor {self.name}>"

    def check(self) -> None:
        """End whoever goes on here though the actor is dead."""
        if not self.alive:
            raise asyncio.CancelledError(f"{self.name} was killed")

    async def lives(self) -> None:
        """Return at once, or never if the actor is dead: nobody is there to go on."""
        if not self.alive:
            await asyncio.get_running_loop().create_future()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Let what is done and begun within the block be done by this actor."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def begin(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a task of this actor's."""
        with self.acting():
            return asyncio.create_task(work, name=name)

    def own(self, task: asyncio.Task[Any]) -> None:
        """A task has been made in its context."""
        if len(self.tasks) >= 64:
            self.tasks = [each for each in self.tasks if not each.done()]
        self.tasks.append(task)

    def met_fault_of(self, service: str, since: float) -> bool:
        """True if a call of its own to a service has met a fault since then."""
        return any(of == service and at >= since for at, of in self.troubles)

    @property
    def left(self) -> list[asyncio.Task[Any]]:
        """Its tasks that have not ended."""
        return [task for task in self.tasks if not task.done()]

    def kill(self) -> None:
        """End it at once, whatever it is about to do."""
        if self.alive:
            self.alive = False
            self.killed_at = self.clock.monotonic()

    async def bury(self) -> None:
        """Return when none of its tasks is left."""
        for _ in range(_ROUNDS):
            if not (left := self.left):
                return
            for task in left:
                task.cancel()
            await asyncio.sleep(0.01)
        raise AssertionError(f"{self.name} was killed, and these tasks go on: {self.left}")


def current_actor() -> Actor | None:
    """Whose task runs."""
    return _current.get()


class ActorClock:
    """A clock that is wrong by a constant, as the machine's of each process may be."""

    def __init__(self, skew_s: float) -> None:
        self.skew_s = skew_s
        self._loop = asyncio.get_running_loop()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic() + self.skew_s)

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
        """Count from the start, in a new life."""
        cls._made = 0

    @classmethod
    def make(cls, *args: Any, **options: Any) -> OwnedTask:
        """The next one."""
        cls._made += 1
        cls.number = cls._made  # read while the task registers itself
        task = cls(*args, **options)
        task.number = cls._made
        return task


def owned_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    """Task factory: every task belongs to whoever made it."""
    task = OwnedTask.make(work, loop=loop, **options)
    if (actor := _current.get()) is not None:
        actor.own(task)
    return task
