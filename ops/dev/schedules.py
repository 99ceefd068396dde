"""EventBridge Scheduler's part on this machine: firing what it stores, through the bridge.

An emulator of AWS stores schedules, and fires them at odd times or not at all. So this process
decides when one is due, by `jobs.schedules.due`, and submits its job as the bridge's function would
(`jobs.schedules.bridging`). A firing that is repeated after a restart is recognised there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pydantic_core import from_json

from headgate.jobs.client.schedules.schedule_requests import new_token
from headgate.jobs.core.ports.scheduler import Scheduler, ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.schedules.occurrences import FIRST_MOMENT, is_one_time
from headgate.jobs.errors import HeadgateError, MessageUnreadable, TransportError
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.declared_schedules import declared_schedules
from headgate.jobs.schedules.declared_starts import times_as_text
from headgate.jobs.schedules.delayed_job import PREFIX as DELAYED
from headgate.jobs.schedules.due import invocation, next_due
from headgate.jobs.schedules.firing import moved_input, read_scheduled
from headgate.jobs.schedules.inputs import read_input
from headgate.jobs.schedules.registry import PREFIX as MADE_LATER
from headgate.jobs.schedules.registry import times_on_aws
from headgate.jobs.values.own_log import OwnLog

LOOK_BACK = timedelta(minutes=1)
"""Time before the start of this process in which a missed firing is made up for: it may have come
due while an edit was being loaded."""

_MOMENT = timedelta(microseconds=1)

_log = OwnLog("headgate.dev")


class LocalSchedules:
    """Keeps the stored schedules of an app's job types as they are declared."""

    def __init__(self, app: App, scheduler: Scheduler) -> None:
        self._app = app
        self._scheduler = scheduler

    def store(self) -> None:
        """Create, change and delete schedules, as a deployment does.

        Paused ones stay paused. Those that were given other times keep them until their
        declaration changes.

        Raises:
            ConfigurationError, PayloadInvalid: a declared schedule is wrong.
            TransportError: the scheduler could not be asked, or refused.
        """
        declared = declared_schedules(self._app)
        for spec in declared:
            self._store_one(spec)
        group = self._app.topology.schedule_group
        names = {spec.name for spec in declared}
        for name in self._scheduler.names(group, prefix=""):
            if not name.startswith((DELAYED, MADE_LATER)) and name not in names:
                self._scheduler.delete(group, name)

    def _store_one(self, spec: ScheduleSpec) -> None:
        stored = self._scheduler.get(spec.group, spec.name)
        if stored is None:
            self._scheduler.create(spec, token=new_token())
        elif (changed := _changed(stored, spec)) != stored:
            self._scheduler.update(changed)


def _changed(stored: ScheduleSpec, declared: ScheduleSpec) -> ScheduleSpec:
    """Return the declared schedule with what only the stored one knows."""
    again = replace(
        declared,
        enabled=stored.enabled,
        created_at=stored.created_at,
        modified_at=stored.modified_at,
        as_of=stored.as_of,
        beyond=stored.beyond,
    )
    moved_from = _moved_from(stored)
    if moved_from is None or moved_from != times_as_text(times_on_aws(declared)):
        return again
    return replace(
        again,
        expression=stored.expression,
        timezone=stored.timezone,
        start=stored.start,
        end=stored.end,
        flexible_minutes=stored.flexible_minutes,
        input=moved_input(declared.input, moved_from),
    )


def _moved_from(stored: ScheduleSpec) -> str | None:
    try:
        return read_scheduled(stored.input).moved_from
    except MessageUnreadable:
        return None  # changed by hand, in another emulator


@dataclass(slots=True)
class _Known:
    spec: ScheduleSpec
    since: datetime
    """The time from which its firings are still to come."""


class LocalScheduler:
    """Fires the schedules of one app's group as they come due.

    Args:
        group: the group's name.
        scheduler: stores them.
        bridge: submits their jobs.
        now: the wall clock.
    """

    def __init__(
        self, group: str, scheduler: Scheduler, bridge: Bridge, now: Callable[[], datetime]
    ) -> None:
        self._group = group
        self._scheduler = scheduler
        self._bridge = bridge
        self._now = now
        self._begun = now()
        self._known: dict[str, _Known] = {}
        self._unreadable: dict[str, str] = {}
        """The faults that were logged, by the names of their schedules."""

    def read(self) -> None:
        """Read the stored schedules anew.

        One that can't be read, since somebody made or changed it by hand, is logged and left out.

        One that was to end with its last firing, and is gone now that this is due, is still fired:
        an emulator may fire schedules too, to no effect, and delete those that it takes for done.

        Raises:
            TransportError: the scheduler could not be asked.
        """
        found: dict[str, _Known] = {}
        for name in self._scheduler.names(self._group, prefix=""):
            spec = self._readable(name)
            if spec is not None:  # else it has just been deleted, or is not one of ours
                found[name] = self._again(spec)
        now = self._now()
        for name, known in self._known.items():
            if name not in found and known.spec.delete_when_done and _last_due(known, now):
                found[name] = known
        self._known = found

    def fire_due(self) -> bool:
        """Fire each schedule that is due, once, however many of its times have passed.

        A firing that fails for want of AWS is repeated by the next call; any other is logged.

        Returns:
            True if any has been fired.
        """
        now, has_fired = self._now(), False
        for name, known in [*self._known.items()]:
            if (due := _last_due(known, now)) is None:
                continue
            try:
                self._fire(known.spec, due)
            except TransportError as error:
                _log.warning("the schedule %s could not fire yet: %s", name, error)
                continue
            known.since, has_fired = due + _MOMENT, True
            if known.spec.delete_when_done and next_due(known.spec, known.since) is None:
                self._scheduler.delete(self._group, name)
                del self._known[name]
        return has_fired

    def next_times(self) -> dict[str, datetime]:
        """Return the next time of any schedule, by the type of its job; delayed jobs are none."""
        found: dict[str, datetime] = {}
        for name, known in self._known.items():
            if name.startswith(DELAYED) or (due := next_due(known.spec, known.since)) is None:
                continue
            try:
                job_type = read_scheduled(known.spec.input).type
            except MessageUnreadable:
                continue  # changed by hand, in another emulator
            found[job_type] = min(due, found.get(job_type, due))
        return found

    def _readable(self, name: str) -> ScheduleSpec | None:
        """Return a stored schedule that can be fired; None if there is none of that name."""
        try:
            spec = self._scheduler.get(self._group, name)
            if spec is not None:
                next_due(spec, self._now())
        except (MessageUnreadable, ValueError, KeyError) as error:  # KeyError: of its time zone
            if self._unreadable.get(name) != str(error):
                self._unreadable[name] = str(error)
                _log.warning("the schedule %s can't be read, and does not fire: %s", name, error)
            return None
        self._unreadable.pop(name, None)
        return spec

    def _again(self, spec: ScheduleSpec) -> _Known:
        known = self._known.get(spec.name)
        if known is not None and known.spec.modified_at == spec.modified_at:
            return _Known(spec, known.since)
        if is_one_time(spec.expression):
            return _Known(spec, FIRST_MOMENT)
        changed = spec.modified_at or spec.created_at or self._begun
        if spec.start is not None and timedelta(0) < changed - spec.start < LOOK_BACK:
            changed = spec.start  # it was "now", which has passed by the time that it is stored
        return _Known(spec, max(changed, self._begun - LOOK_BACK))

    def _fire(self, spec: ScheduleSpec, due: datetime) -> None:
        name = spec.name.removeprefix(MADE_LATER)  # as its maker knows it
        try:
            sent = self._bridge.submit(read_input(from_json(invocation(spec, spec.arn, due))))
        except TransportError:
            raise
        except (HeadgateError, ValueError) as error:  # ValueError: it is not JSON
            _log.error("the schedule %s fired, and submitted no job: %s", name, error)
        else:
            if sent:
                _log.info("the schedule %s fired", name)


def _last_due(known: _Known, now: datetime) -> datetime | None:
    """Return the latest time at which a schedule has been due since it was fired."""
    found, since = None, known.since
    while (due := next_due(known.spec, since)) is not None and due <= now:
        found, since = due, due + _MOMENT
    return found
