"""The pool of child processes that run the handlers of ``isolation="process"``.

Children are started ahead and used again: a job finds the app imported. One that dies, or has to be
killed, takes its own job with it and no other; another is started in its place.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.context import JobContext
from headgate.jobs.errors import RetryLater
from headgate.jobs.execution.delivery import Job
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.values.texts import text_of
from headgate.workers.background import seen_through
from headgate.workers.isolation.child_handle import Answer, Child, ChildUnfit, NotStarted, spawned

_log = logging.getLogger("headgate.worker")

JOBS_PER_CHILD = 1000
"""After so many jobs a child is replaced, so that what handlers leak does not add up."""

GRACE_S = 1.5
"""How long a cancelled job may take to end by itself: less than what a stopping worker waits."""

READY_S = 60.0
"""How long a child may take to import the app and open its resources."""

_TRIES = 3
"""So many children may die before they have begun a job until it is given back."""

_BACKOFF = Backoff.exponential(base=1, cap=60, jitter="equal")
"""Between children that don't get as far as running a job."""


class ChildPool:
    """Runs jobs in child processes, as many at once as it has.

    Args:
        app_path: what they import; see `jobs.definitions.app_path.app_path`.
        size: how many there are.
        jobs_per_child: after so many jobs a child is replaced.
        max_rss_mb: one that has more resident memory than this after a job, in MiB, is replaced;
            None sets no limit.
        clock: bounds the jobs.
        rng: spreads the pauses after children that didn't start.
        answers: what handlers may ask the worker for; see `workers.isolation.channel.Channel.call`.
        on_change: called when `capacity` has grown.
        on_fault: called with what is wrong whenever a child can't run jobs.
        grace_s: how long a cancelled job may take to end by itself before it is killed.
        ready_s: how long a child may take to import the app.
    """

    def __init__(
        self,
        app_path: str,
        *,
        size: int,
        jobs_per_child: int = JOBS_PER_CHILD,
        max_rss_mb: int | None = None,
        clock: Clock,
        rng: random.Random,
        answers: Mapping[str, Answer] | None = None,
        on_change: Callable[[], None] = lambda: None,
        on_fault: Callable[[str], None],
        grace_s: float = GRACE_S,
        ready_s: float = READY_S,
    ) -> None:
        self._app_path = app_path
        self._size = size
        self._jobs_per_child = jobs_per_child
        self._max_rss_mb = max_rss_mb
        self._clock = clock
        self._rng = rng
        self._answers = answers or {}
        self._on_change = on_change
        self._on_fault = on_fault
        self._grace_s = grace_s
        self._ready_s = ready_s
        self._keepers: set[asyncio.Task[None]] = set()
        self._idle: list[Child] = []
        self._changed = asyncio.Event()
        self._faults: dict[int, str] = {}
        self._pause_s = 1.0
        """The last pause before another child was tried."""
        self._open = False

    @property
    def capacity(self) -> int:
        """How many jobs it can run at once, those that run counted.

        A place whose child failed to start is not counted until one does.
        """
        return self._size - len(self._faults) if self._open else 0

    async def start(self) -> None:
        """Begin to start the children, without waiting for them."""
        if self._open:
            return
        self._open = True
        for place in range(self._size):
            keeper = asyncio.create_task(self._keep(place), name=f"headgate-place-{place}")
            keeper.add_done_callback(partial(self._left, place))
            self._keepers.add(keeper)

    async def close(self) -> None:
        """End the children: idle ones close their resources, a job that still runs is killed.

        Takes a few seconds at most. What still runs or waits raises `RetryLater`.
        """
        self._open = False
        for keeper in self._keepers:
            keeper.cancel()
        self._ring()
        if self._keepers:
            await seen_through(_all(self._keepers))
        self._keepers.clear()

    async def call(self, job: Job, body: str, ctx: JobContext) -> Any:
        """Run a job's handler in a child; its timeout counts from when a child is free for it.

        Cancelled, it asks the job to end, kills it when it hasn't within the grace, and re-raises.

        Args:
            job: what to run, and within which bounds.
            body: its message's body, which the child reads for itself.
            ctx: hears of the job's progress.

        Returns:
            What the handler returned, as JSON values.

        Raises:
            JobSignal, Stopped: the handler raised it.
            RetryLater: besides, if there is no child and none can be started, or one after the
                other dies before it has begun the job.
            ChildFailed: the handler raised something else.
            JobTimeout: it ran past its timeout, and was killed.
            ChildDied: its process died, or was killed for its use of memory.
        """
        fault = NotStarted()
        for _ in range(_TRIES):
            child = await self._take(job)
            try:
                return await child.run(job, body, ctx)
            except NotStarted as error:
                fault = error  # it was dead before: that is nothing to blame the job for
            finally:
                self._put_back(child)
        raise self._deferral(f"{_TRIES} children died before they had begun it: {fault}")

    async def _take(self, job: Job) -> Child:
        while True:
            # The one used last, so that they don't all come to the end of their jobs together.
            while self._idle:
                child = self._idle.pop()
                if child.spent.is_set():
                    continue
                if _has_room(child, job):
                    return child
                child.retire()
            self._require_hope()
            await self._changed.wait()

    def _require_hope(self) -> None:
        """Hand a job back rather than let it wait for what may never come."""
        if not self._open:
            raise RetryLater(timedelta(seconds=1), "the worker is stopping")
        if len(self._faults) == self._size:
            why = f"no child process could be started: {next(iter(self._faults.values()))}"
            raise self._deferral(why)

    def _deferral(self, why: str) -> RetryLater:
        return RetryLater(timedelta(seconds=max(1.0, self._pause_s)), why)

    def _put_back(self, child: Child) -> None:
        if child.spent.is_set():
            return
        grown = self._max_rss_mb is not None and child.rss_mb > self._max_rss_mb
        if child.jobs >= self._jobs_per_child or grown:
            child.retire()
        else:
            self._offer(child)

    def _offer(self, child: Child) -> None:
        self._idle.append(child)
        self._ring()

    def _ring(self) -> None:
        """Have whoever waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _keep(self, place: int) -> None:
        """Fill one place of the pool with one child after the other, until cancelled."""
        in_vain = 0
        while True:
            pause_s = _BACKOFF.delay_s(in_vain + 1, self._rng)
            try:
                used = await self._fill(place)
            except ChildUnfit as error:
                used = False
                self._failed(place, str(error), pause_s)
            in_vain = 0 if used else in_vain + 1
            if in_vain:
                self._pause_s = pause_s
                await asyncio.sleep(pause_s)

    async def _fill(self, place: int) -> bool:
        """See one child through its life; returns whether it has begun a job.

        Raises:
            ChildUnfit: it never could run one.
        """
        child_of = partial(spawned, answers=self._answers, clock=self._clock, grace_s=self._grace_s)
        async with child_of(self._app_path) as child:
            await child.ready(self._ready_s)
            self._recovered(place)
            self._offer(child)
            await child.spent.wait()
        return child.jobs > 0

    def _failed(self, place: int, fault: str, pause_s: float) -> None:
        self._faults[place] = fault
        self._on_fault(
            f"a child process for handlers with isolation='process' can't run jobs: {fault}. "
            f"Another is tried in {pause_s:.1f} s; jobs for it wait or are deferred"
        )
        self._ring()

    def _recovered(self, place: int) -> None:
        if self._faults.pop(place, None) is not None:
            self._on_change()

    def _left(self, place: int, keeper: asyncio.Task[None]) -> None:
        """A keeper ends when it is cancelled; else by a fault of ours, which has to be told."""
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            self._faults[place] = f"{type(error).__name__}: {text_of(error)}"
            _log.error("a place in the pool of child processes is lost", exc_info=error)
            self._ring()


async def _all(keepers: Collection[asyncio.Task[None]]) -> None:
    await asyncio.wait(keepers)


def _has_room(child: Child, job: Job) -> bool:
    """Whether earlier jobs left a child enough of what a job's memory limit allows.

    It may have taken half of it: a job must not be killed for what others did not give back.
    """
    limit_mb = job.type.memory_mib
    if limit_mb is None or child.jobs == 0:
        return True
    return child.rss_mb - child.fresh_mb <= (limit_mb - child.fresh_mb) / 2
