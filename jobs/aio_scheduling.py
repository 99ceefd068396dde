"""``client.schedules`` of an event loop: `jobs.scheduling`, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar, Unpack

from jobs import schedule_book as book
from jobs import schedule_making as making
from jobs.app import App
from jobs.clock import Clock
from jobs.errors import TransportError
from jobs.handle import AsyncJobHandle
from jobs.job import JobType
from jobs.ports import Scheduler, ScheduleSpec
from jobs.schedule_book import ScheduleInfo
from jobs.schedules import Schedule
from jobs.submission import Overrides, Submission

P = TypeVar("P")

_AT_ONCE = 10
"""Requests under way together, of one submission of many."""


class AsyncSchedules:
    """`jobs.scheduling.Schedules`, awaited."""

    def __init__(
        self,
        app: App,
        scheduler: Callable[[], Scheduler],
        send: Callable[[Sequence[Submission]], Awaitable[None]],
        handle: Callable[[str, JobType[Any, Any]], AsyncJobHandle[Any]],
        clock: Clock,
    ) -> None:
        self._app = app
        self._scheduler = scheduler
        self._send = send
        self._handle = handle
        self._clock = clock

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

    async def list(self) -> Sequence[ScheduleInfo]:
        """`Schedules.list`, awaited."""
        group, _ = book.address(self._app, "")
        names = await self._scheduler().names(group, prefix=book.PREFIX)
        found = [
            await self._scheduler().get(group, physical)
            for physical in book.all_names(self._app, names)
        ]
        return [book.read_schedule(self._app, spec) for spec in found if spec is not None]

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
