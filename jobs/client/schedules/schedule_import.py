"""An import of schedules: each line of a file compared with what is stored, and made so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headgate.jobs.client.schedules.schedule_requests import new_token, switched
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports.scheduler import AsyncScheduler, ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.schedules.copies import SavedSchedule, SchedulesImported, copy_of
from headgate.jobs.schedules.registry import own_name, times_of, times_on_aws


class ScheduleImport:
    """One import.

    Args:
        app: the app whose schedules they are.
        scheduler: holds the schedules.
        clock: tells the time.
    """

    def __init__(self, app: App, scheduler: AsyncScheduler, clock: Clock) -> None:
        self._app = app
        self._group = app.topology.schedule_group
        self._scheduler = scheduler
        self._clock = clock
        self._done = SchedulesImported()
        self._named: set[str] = set()
        """Names on AWS of all that the file has."""

    async def take(self, saved: SavedSchedule) -> None:
        """Have one schedule be as the file says."""
        self._named.add(saved.name)
        found = await self._scheduler.get(self._group, saved.name)
        wanted, name = copy_of(self._app, saved, found), own_name(self._app, saved.name)
        if wanted is None:
            self._done = replace(self._done, missing=(*self._done.missing, name))
        elif wanted == found:
            self._done = replace(self._done, same=self._done.same + 1)
        elif (begun := self._begun(wanted)) is None:
            self._done = replace(self._done, over=(*self._done.over, name))
        elif found is None:
            await self._scheduler.create(begun, token=new_token())
            self._done = replace(self._done, created=(*self._done.created, name))
        else:
            await self._scheduler.update(begun)
            self._done = replace(self._done, changed=(*self._done.changed, name))

    async def finish(self, names: Iterable[str], *, prune: bool) -> SchedulesImported:
        """Return what was done, with those made at run time that the file doesn't have.

        Args:
            names: the names on AWS of all that were made at run time.
            prune: remove them.
        """
        others = [name for name in names if name not in self._named]
        for name in others if prune else ():
            await self._scheduler.delete(self._group, name)
        told = tuple(own_name(self._app, name) for name in others)
        return replace(self._done, others=told, removed=prune and bool(others))

    def _begun(self, wanted: ScheduleSpec) -> ScheduleSpec | None:
        """Return a schedule with a start that AWS accepts; None if it has no time left."""
        now = wanted.as_of or self._clock.now()
        try:
            if next(times_of(times_on_aws(wanted), now, wanted.created_at), None) is None:
                return None
            return switched(wanted, enabled=wanted.enabled, now=now)
        except SettingsInvalid:  # a rate without a time before its end
            return None
