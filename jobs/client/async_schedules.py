"""``client.schedules`` of an event loop: `jobs.client.schedules`, awaited."""

from __future__ import annotations

import asyncio
import builtins
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar, Unpack

from headgate.jobs.client import schedule_requests as making
from headgate.jobs.client.handle import AsyncJobHandle
from headgate.jobs.core.batching import TRIES, pause_s
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports import Scheduler, ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.schedule import Schedule
from headgate.jobs.errors import MessageUnreadable, Throttled, TransportError
from headgate.jobs.schedules import registry as book
from headgate.jobs.schedules.reading import AT_ONCE, Answer, Reading
from headgate.jobs.schedules.registry import ScheduleInfo, UnreadableSchedule
from headgate.jobs.submission.prepare import Overrides, Submission

P = TypeVar("P")

_AT_ONCE = 10
"""Requests under way together, of one submission of many."""


class AsyncSchedules:
    """`jobs.client.schedules.Schedules`, awaited."""

    def __init__(
        self,
        app: App,
        scheduler: Callable[[], Scheduler],
        send: Callable[[Sequence[Submission]], Awaitable[None]],
        handle: Callable[[str, JobType[Any, Any]], AsyncJobHandle[Any]],
        clock: Clock,
        *,
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
    ) -> None:
        self._app = app
        self._scheduler = scheduler
        self._send = send
        self._handle = handle
        self._clock = clock
        self._sleep = sleep
        self._rng = rng

    async def create(
        self,
        name: str,
        job: JobType[P, Any],
        payload: P,
        *,
        when: Schedule,
        limit: int | None = None,
        **overrides: Unpack[Overrides],
    ) -> ScheduleInfo:
        """`Schedules.create`, awaited."""
        spec = making.new_schedule(
            self._app, self._clock.now(), name, job, payload, when, limit, overrides
        )
        if not await self._scheduler().create(spec, token=making.new_token()):
            raise book.taken(self._app, name)
        return book.read_schedule(self._app, spec)

    async def list(self) -> Sequence[ScheduleInfo | UnreadableSchedule]:
        """`Schedules.list`, awaited."""
        reading = Reading(self._app, await self._names(), self._rng)
        while reading.left:
            if wait_s := reading.note(await self._round(reading.left)):
                await self._sleep(wait_s)
        return reading.listed()

    async def get(self, name: str) -> ScheduleInfo:
        """`Schedules.get`, awaited."""
        return book.read_schedule(self._app, await self._found(name))

    async def next_times(self, name: str, count: int = 5) -> Sequence[datetime]:
        """`Schedules.next_times`, awaited."""
        return (await self.get(name)).next_times(count, self._clock.now())

    async def pause(self, name: str) -> None:
        """`Schedules.pause`, awaited."""
        await self._switch(name, enabled=False)

    async def resume(self, name: str) -> None:
        """`Schedules.resume`, awaited."""
        await self._switch(name, enabled=True)

    async def reschedule(self, name: str, *, when: Schedule, limit: int | None = None) -> None:
        """`Schedules.reschedule`, awaited."""
        book.refuse_declared(self._app, name)
        spec = making.rescheduled(await self._found(name), when, limit, self._clock.now())
        await self._update(name, spec)

    async def remove(self, name: str) -> bool:
        """`Schedules.remove`, awaited."""
        book.refuse_declared(self._app, name)
        return await self._scheduler().delete(*book.address(self._app, name))

    async def run_now(self, name: str) -> AsyncJobHandle[Any]:
        """`Schedules.run_now`, awaited."""
        submission = making.at_once(self._app, name, await self._found(name), self._clock.now())
        await self._send([submission])
        return self._handle(submission.id, self._app.find_type(submission.envelope.type))

    async def cancel_delayed(self, job_id: str) -> bool:
        """`Schedules.cancel_delayed`, awaited."""
        for name in making.names_of(job_id):
            if await self._withdraw(name):
                return True
        return False

    async def hold(self, submissions: Sequence[Submission]) -> Sequence[TransportError | None]:
        """`Schedules.hold`, awaited."""
        gate = asyncio.Semaphore(_AT_ONCE)
        return await asyncio.gather(*(self._hold(each, gate) for each in submissions))

    async def _hold(self, submission: Submission, gate: asyncio.Semaphore) -> TransportError | None:
        spec, its_token = making.held(self._app, submission, self._clock.now())
        async with gate:
            try:
                await self._scheduler().create(spec, token=its_token)  # False: it had been
            except TransportError as error:
                return error
        return None

    async def _names(self) -> builtins.list[str]:
        """The names on AWS of those made at run time."""
        group, _ = book.address(self._app, "")
        for tries in range(1, TRIES):
            try:
                return await self._scheduler().names(group, prefix=book.PREFIX)
            except Throttled:
                await self._sleep(pause_s(tries, self._rng))
        return await self._scheduler().names(group, prefix=book.PREFIX)

    async def _round(self, names: Sequence[str]) -> Sequence[Answer]:
        """One look at each; the first error that would meet all ends the others."""
        gate = asyncio.Semaphore(AT_ONCE)
        looks = [asyncio.create_task(self._look(name, gate)) for name in names]
        try:
            return await asyncio.gather(*looks)
        finally:
            for look in looks:
                look.cancel()
            await asyncio.gather(*looks, return_exceptions=True)

    async def _look(self, physical: str, gate: asyncio.Semaphore) -> Answer:
        async with gate:
            try:
                return await self._scheduler().get(self._app.topology.schedule_group, physical)
            except (MessageUnreadable, Throttled) as error:
                return error

    async def _withdraw(self, name: str) -> bool:
        group, scheduler = self._app.topology.schedule_group, self._scheduler()
        found = await scheduler.get(group, name)
        if found is None or not making.is_waiting(found, self._clock.now()):
            return False
        return await scheduler.delete(group, name)

    async def _switch(self, name: str, *, enabled: bool) -> None:
        spec = making.switched(await self._found(name), enabled=enabled, now=self._clock.now())
        await self._update(name, spec)

    async def _update(self, name: str, spec: ScheduleSpec) -> None:
        if not await self._scheduler().update(spec):
            raise book.missing(self._app, name)

    async def _found(self, name: str) -> ScheduleSpec:
        found = await self._scheduler().get(*book.address(self._app, name))
        return book.existing(self._app, name, found)
