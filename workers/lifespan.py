"""A worker's life within its app's resources: they open before it works, and close after.

Both are code of the user's, which may hang. Nothing is held while they open, so a stop cancels
that. They may close within what is left of the drain, and for a few seconds at least; then, or once
there is a hurry, what still closes is cancelled, and what ignores that is left behind. Opening and
closing run in one task, as some resources need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from headgate.jobs.core.clock import Clock
from headgate.jobs.definitions.handlers.resources import OpenResources, Resources
from headgate.jobs.values.own_log import OwnLog
from headgate.workers.shutdown import Report

_log = OwnLog("headgate.worker")

CLOSE_S = 5.0
"""Least time for all resources to close, in seconds."""

_HURRIED_S = 0.1
"""The same in a hurry."""

_CUT_S = 1.0
"""Time for one resource to end after it has been cancelled."""


class Lifespan:
    """Opens the resources of an app, has the worker work, and closes them.

    Args:
        resources: the app's resources.
        drain_s: the time after a stop within which they may close, unless `CLOSE_S` is longer.
        clock: tells the time.
        stop: set when the worker begins to stop.
        hurry: set when it has to end at once.
    """

    def __init__(
        self,
        resources: Resources,
        *,
        drain_s: float,
        clock: Clock,
        stop: asyncio.Event,
        hurry: asyncio.Event,
    ) -> None:
        self._resources = resources
        self._drain_s = drain_s
        self._clock = clock
        self._stop = stop
        self._hurry = hurry
        self._open = asyncio.Event()
        self._closing = asyncio.Event()
        self._step = ""
        """The latest thing that it began to do with a resource."""
        self._is_cut = False
        self._report = Report()
        self._failure: Exception | None = None
        """The error of the work itself."""
        self.is_stuck = False
        """True once a resource has been left behind, so that the process would not end by
        itself."""

    async def run(self, work: Callable[[OpenResources], Awaitable[Report]]) -> Report:
        """Return the report of the work; an empty one if it was stopped before it could begin.

        Raises:
            Exception: a resource or the work failed.
        """
        life = asyncio.create_task(self._live(work), name="headgate-life")
        await _until(life, self._stop, self._closing)  # a part of the worker may also have failed
        ends_at = self._clock.monotonic() + self._drain_s
        if not self._open.is_set() and not life.done():
            _log.info("%s is cancelled, since the worker is stopping", self._step)
            self._cut(life)
        await _until(life, self._closing)
        await self._end(life, max(CLOSE_S, ends_at - self._clock.monotonic()))
        return self._outcome(life)

    def opens(self, owner: str) -> None:
        """Note that a resource is about to open."""
        self._step = f"opening {owner}"

    def closes(self, owner: str) -> None:
        """Note that a resource is about to close."""
        self._step = f"closing {owner}"
        self._closing.set()

    async def _live(self, work: Callable[[OpenResources], Awaitable[Report]]) -> None:
        async with self._resources.opened(watch=self) as resources:
            self._open.set()
            if self._stop.is_set():
                return
            try:
                self._report = await work(resources)
            except Exception as error:
                self._failure = error
                raise

    async def _end(self, life: asyncio.Task[None], within_s: float) -> None:
        """Wait until everything is closed, and cancel what does not come to an end."""
        await _until(life, self._hurry, timeout_s=within_s)
        if self._hurry.is_set():
            await asyncio.wait({life}, timeout=_HURRIED_S)
        while not life.done() and not self.is_stuck:
            step = self._step
            why = "in a hurry" if self._hurry.is_set() else f"not done within {within_s:.0f} s"
            _log.warning("%s is cut short: %s", step, why)
            self._cut(life)
            await asyncio.wait({life}, timeout=_CUT_S)
            self.is_stuck = not life.done() and self._step == step

    def _cut(self, life: asyncio.Task[None]) -> None:
        self._is_cut = True
        life.cancel()

    def _outcome(self, life: asyncio.Task[None]) -> Report:
        if self.is_stuck:
            _log.error("%s ignores its cancellation, and is left behind", self._step)
        elif not self._is_cut:
            life.result()
        elif not life.cancelled() and (error := life.exception()) not in (None, self._failure):
            _log.error("%s failed when it was cancelled", self._step, exc_info=error)
        if self._failure is not None:
            raise self._failure
        return replace(self._report, left_open=(self._step,)) if self.is_stuck else self._report


async def _until(
    life: asyncio.Task[None], *events: asyncio.Event, timeout_s: float | None = None
) -> None:
    """Wait until the task has ended, or one of the events is set."""
    waits = {asyncio.create_task(event.wait(), name="headgate-life-event") for event in events}
    try:
        await asyncio.wait({life, *waits}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)
