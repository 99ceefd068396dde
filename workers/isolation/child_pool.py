"""The pool of child processes that run the handlers of ``isolation="process"``.

Children are started in advance and reused, so that the app is already imported when a job starts. A
child that dies, or has to be killed, affects only its own job; another is started in its place.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from headgate.jobs.core.clock import Clock
from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.execution.delivery import Job
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.retry.signals import RetryLater
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import text_of
from headgate.workers.background import seen_through
from headgate.workers.isolation.child_handle import Answer, Child, ChildUnfit, spawned
from headgate.workers.isolation.sent_job import NotStarted

_log = OwnLog("headgate.worker")

JOBS_PER_CHILD = 1000
"""Number of jobs after which a child is replaced, so that leaks of handlers don't add up."""

GRACE_S = 1.5
"""Time for a cancelled job to end by itself: less than a stopping worker waits."""

READY_S = 60.0
"""Longest time for a child to import the app and open its resources."""

_TRIES = 3
"""Number of children that may die before they have begun a job, until the job is given back."""

_BACKOFF = Backoff.exponential(base=1, cap=60, jitter="equal")
"""Pause after a child that ended without running a job."""


class ChildPool:
    """Runs jobs in child processes, as many at once as it has.

    Args:
        app_path: the app that they import; see `jobs.definitions.app_path.app_path`.
        size: the number of children.
        jobs_per_child: the number of jobs after which a child is replaced.
        max_rss_mb: the resident memory, in MiB, above which a child is replaced after a job; None
            sets no limit.
        clock: tells the time, for timeouts of jobs.
        rng: adds jitter to the pauses after children that didn't start.
        answers: answers the requests of handlers to the worker, by kind; see
            `workers.isolation.channel.Channel.call`.
        on_change: called when `capacity` has grown: a child has become ready.
        on_fault: called with a description of the fault whenever a child can't run jobs.
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
        self._ready: dict[int, Child] = {}
        """By place, the child that has become ready there."""
        self._idle: list[Child] = []
        self._changed = asyncio.Event()
        self._faults: dict[int, str] = {}
        self._pause_s = 1.0
        """The latest pause before another child was tried."""
        self._open = False

    @property
    def capacity(self) -> int:
        """The number of jobs that it can run at once, including those that run.

        A place is not counted while its child starts: a job that took the tokens of its rate limits
        and then waited for the import would start together with those that took later ones.
        """
        if not self._open:
            return 0
        return sum(not child.spent.is_set() for child in self._ready.values())

    async def start(self) -> None:
        """Start the children, without waiting until they are ready."""
        if self._open:
            return
        self._open = True
        for place in range(self._size):
            keeper = asyncio.create_task(self._keep(place), name=f"headgate-place-{place}")
            keeper.add_done_callback(partial(self._left, place))
            self._keepers.add(keeper)

    async def close(self) -> None:
        """End the children: idle ones close their resources, jobs that still run are killed.

        Takes a few seconds at most. Calls that still run or wait raise `RetryLater`.
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

        When cancelled, it asks the job to end, kills it after the grace period, and re-raises.

        Args:
            job: the job to run, with its bounds.
            body: its message's body, which the child parses itself.
            ctx: receives the job's progress.

        Returns:
            The handler's result, as JSON values.

        Raises:
            JobSignal, Stopped: the handler raised it.
            RetryLater: in addition, if there is no child and none can be started, or several die
                one after another before they have begun the job.
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
                fault = error  # it died before the job had begun, which is not the job's fault
            finally:
                self._put_back(child, job)
        raise self._deferral(f"{_TRIES} children died before they had begun it: {fault}")

    async def _take(self, job: Job) -> Child:
        while True:
            # The one used last, so that they don't all reach their number of jobs together.
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
        """Defer a job rather than let it wait for a child that may never come."""
        if not self._open:
            raise RetryLater(timedelta(seconds=1), "the worker is stopping")
        if len(self._faults) == self._size:
            why = f"no child process could be started: {next(iter(self._faults.values()))}"
            raise self._deferral(why)

    def _deferral(self, why: str) -> RetryLater:
        return RetryLater(timedelta(seconds=max(1.0, self._pause_s)), why)

    def _put_back(self, child: Child, job: Job) -> None:
        if child.spent.is_set():
            return
        grown = self._max_rss_mb is not None and child.rss_mb > self._max_rss_mb
        # Now, and not when the next such job has been let through and waits for another child.
        if child.jobs >= self._jobs_per_child or grown or not _has_room(child, job):
            child.retire()
        else:
            self._offer(child)

    def _offer(self, child: Child) -> None:
        self._idle.append(child)
        self._ring()

    def _ring(self) -> None:
        """Wake all waiting calls to look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _keep(self, place: int) -> None:
        """Fill one place of the pool with one child after another, until cancelled."""
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
        """Run one child until it is spent; return True if it has begun a job.

        Raises:
            ChildUnfit: it could never run one.
        """
        child_of = partial(spawned, answers=self._answers, clock=self._clock, grace_s=self._grace_s)
        async with child_of(self._app_path) as child:
            await child.ready(self._ready_s)
            self._faults.pop(place, None)
            self._ready[place] = child
            self._offer(child)
            self._on_change()
            try:
                await child.spent.wait()
            finally:
                del self._ready[place]
        return child.jobs > 0

    def _failed(self, place: int, fault: str, pause_s: float) -> None:
        self._faults[place] = fault
        self._on_fault(
            f"a child process for handlers with isolation='process' can't run jobs: {fault}. "
            f"Another is tried in {pause_s:.1f} s; jobs for it wait or are deferred"
        )
        self._ring()

    def _left(self, place: int, keeper: asyncio.Task[None]) -> None:
        """Log the end of a keeper that was not cancelled: it failed by a fault of our own."""
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            self._faults[place] = f"{type(error).__name__}: {text_of(error)}"
            _log.error("unexpected error; the pool runs one child fewer", exc_info=error)
            self._ring()


async def _all(keepers: Collection[asyncio.Task[None]]) -> None:
    await asyncio.wait(keepers)


def _has_room(child: Child, job: Job) -> bool:
    """Return True if earlier jobs left a child enough of the memory that a job's limit allows.

    They may have used up half: a job must not be killed for memory that others did not release.
    """
    limit_mb = job.type.memory_mib
    if limit_mb is None or child.jobs == 0:
        return True
    return child.rss_mb - child.fresh_mb <= (limit_mb - child.fresh_mb) / 2
