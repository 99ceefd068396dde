"""EventBridge Scheduler in memory, which fires by a clock under the test's control."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, islice, takewhile

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.naming import MAX_SCHEDULER_NAME
from headgate.jobs.core.ports.scheduler import Scheduler, ScheduleSpec
from headgate.jobs.definitions.schedules.occurrences import is_one_time
from headgate.jobs.errors import ScheduleGroupMissing, TransportError
from headgate.jobs.schedules.delayed_job import MAX_INPUT_BYTES
from headgate.jobs.schedules.due import invocation, next_due, times_due
from headgate.jobs.testing.clock import VirtualClock

START_TOLERANCE = timedelta(minutes=5)
"""Maximum age of a recurring schedule's start for EventBridge Scheduler, even in an update."""

_MOMENT = timedelta(microseconds=1)


@dataclass(slots=True)
class _Stored:
    spec: ScheduleSpec
    token: str
    fired_until: datetime
    """Time up to which due firings have happened, or were missed while it was paused."""
    known: tuple[ScheduleSpec, datetime, datetime | None] | None = None
    """Its next firing, with the two above from which it was calculated."""


class MemoryScheduler:
    """A scheduler in memory: an `AsyncScheduler`, and by ``sync`` a synchronous one.

    On a `VirtualClock`, due schedules are fired by each `advance`; on another clock, while `run`
    runs. A firing passes its input to ``fire``, with the context attributes filled in; a paused
    schedule doesn't catch up on missed firings.

    Args:
        clock: determines the schedules that are due.
        fire: the action of a firing, such as calling the bridge; given the schedule's input, as
            JSON.
        groups: the groups that exist; None takes any.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        fire: Callable[[str], None] = lambda _input: None,
        groups: set[str] | None = None,
    ) -> None:
        self.error: TransportError | None = None
        """Error that every call raises while it is set."""
        self.lingers = timedelta(0)
        """Time for which a schedule that is deleted when done outlives its last firing."""
        self.fired: list[tuple[str, datetime]] = []
        """The name of each schedule that has fired, with the time at which it was due."""
        self._clock = clock
        self._fire = fire
        self._groups = groups
        self._stored: dict[tuple[str, str], _Stored] = {}
        self._done: dict[tuple[str, str], datetime] = {}
        """Time of deletion of each schedule that has fired for the last time."""
        self._deployed: set[tuple[str, str]] = set()
        self._handed_over: list[str] = []
        self._changed = asyncio.Event()
        if isinstance(clock, VirtualClock):
            clock.subscribe(self.fire_due)

    @property
    def sync(self) -> Scheduler:
        """The same schedules, for synchronous code."""
        return _Scheduler(self)

    @property
    def schedules(self) -> list[ScheduleSpec]:
        """All schedules, sorted by group and name."""
        self._delete_done()
        return [self._stored[key].spec for key in sorted(self._stored)]

    async def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
        """Create a schedule; return False if its name is taken."""
        await asyncio.sleep(0)  # as a call over a network
        return self.put(schedule, token)

    async def get(self, group: str, name: str) -> ScheduleSpec | None:
        """Return a schedule, or None if there is none with that name."""
        await asyncio.sleep(0)
        return self.find(group, name)

    async def names(self, group: str, *, prefix: str) -> list[str]:
        """Return the names in a group that start with the prefix."""
        await asyncio.sleep(0)
        return self.names_in(group, prefix)

    async def update(self, schedule: ScheduleSpec) -> bool:
        """Replace a schedule; return False if there is none with that name."""
        await asyncio.sleep(0)
        return self.replace(schedule)

    async def delete(self, group: str, name: str) -> bool:
        """Delete a schedule; return False if there is none with that name."""
        await asyncio.sleep(0)
        return self.drop(group, name)

    def deploy(self, schedule: ScheduleSpec) -> None:
        """Store a declared schedule as one that a deployment has made just before now.

        One that was deployed already stays as it is, or deleted.
        """
        if (key := (schedule.group, schedule.name)) not in self._deployed:
            self._deployed.add(key)
            self.put(schedule, token=schedule.name)
            self._stored[key].fired_until = self._clock.now() + _MOMENT

    # --- firing ---------------------------------------------------------------------------------

    def next_due(self, prefix: str = "") -> datetime | None:
        """Return the time of the next firing among names with a prefix; None if there is none."""
        stored = (each for each in self._stored.values() if each.spec.name.startswith(prefix))
        return min((due for each in stored if (due := _next(each))), default=None)

    def fires_often(self, until: datetime, most: int) -> bool:
        """Return True if schedules fire more than ``most`` times up to a time."""
        times = (times_due(each.spec, each.fired_until) for each in self._stored.values())
        due = chain.from_iterable(takewhile(lambda at: at <= until, each) for each in times)
        return next(islice(due, most, None), None) is not None

    def fire_due(self) -> None:
        """Fire all schedules that are due, in the order of their times."""
        while (due := self.next_due()) is not None and due <= self._clock.now():
            for key, stored in list(self._stored.items()):
                if _next(stored) == due:
                    self._fire_one(key, stored, due)

    async def run(self) -> None:
        """Fire schedules as they come due, until cancelled."""
        while True:
            self._changed.clear()
            self.fire_due()
            due = self.next_due()
            wait_s = None if due is None else (due - self._clock.now()).total_seconds()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def repeat(self) -> None:
        """Repeat the latest firing: the service invokes at least once, and so may do it twice.

        Raises:
            IndexError: nothing has fired.
        """
        self._fire(self._handed_over[-1])

    def _fire_one(self, key: tuple[str, str], stored: _Stored, due: datetime) -> None:
        stored.fired_until = due + _MOMENT
        self.fired.append((stored.spec.name, due))
        if stored.spec.delete_when_done and _next(stored) is None:
            self._done[key] = due + self.lingers
            self._delete_done()
        self._handed_over.append(_filled_in(stored.spec, due))
        self._fire(self._handed_over[-1])

    # --- the calls, synchronous -----------------------------------------------------------------

    def put(self, schedule: ScheduleSpec, token: str) -> bool:
        """Do `create` synchronously."""
        self._check(schedule.group)
        now = self._clock.now()
        _validate(schedule, now)
        key = schedule.group, schedule.name
        if key in self._stored:
            return self._stored[key].token == token
        made = replace(schedule, arn=_arn(schedule), created_at=now, modified_at=now)
        self._stored[key] = _Stored(made, token, now)
        self._changed.set()
        return True

    def find(self, group: str, name: str) -> ScheduleSpec | None:
        """Do `get` synchronously."""
        self._check()
        stored = self._stored.get((group, name))
        return replace(stored.spec, as_of=self._clock.now()) if stored else None

    def names_in(self, group: str, prefix: str) -> list[str]:
        """Do `names` synchronously."""
        self._check(group)
        return sorted(name for of, name in self._stored if of == group and name.startswith(prefix))

    def replace(self, schedule: ScheduleSpec) -> bool:
        """Do `update` synchronously."""
        self._check()
        now = self._clock.now()
        _validate(schedule, now)
        if (stored := self._stored.get((schedule.group, schedule.name))) is None:
            return False
        was = stored.spec
        stored.spec = replace(schedule, arn=was.arn, created_at=was.created_at, modified_at=now)
        stored.fired_until = max(stored.fired_until, now)
        self._done.pop((schedule.group, schedule.name), None)
        self._changed.set()
        return True

    def drop(self, group: str, name: str) -> bool:
        """Do `delete` synchronously."""
        self._check()
        self._done.pop((group, name), None)
        return self._stored.pop((group, name), None) is not None

    def _delete_done(self) -> None:
        if not self._done:
            return
        now = self._clock.now()
        for key in [key for key, at in self._done.items() if at <= now]:
            self._done.pop(key, None)  # unless another thread has just done it
            self._stored.pop(key, None)

    def _check(self, group: str | None = None) -> None:
        self._delete_done()
        if self.error is not None:
            raise self.error
        if group is not None and self._groups is not None and group not in self._groups:
            raise ScheduleGroupMissing(group)


class _Scheduler:
    """`MemoryScheduler` as a `jobs.core.ports.scheduler.Scheduler`."""

    def __init__(self, scheduler: MemoryScheduler) -> None:
        self._scheduler = scheduler

    def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
        return self._scheduler.put(schedule, token)

    def get(self, group: str, name: str) -> ScheduleSpec | None:
        return self._scheduler.find(group, name)

    def names(self, group: str, *, prefix: str) -> list[str]:
        return self._scheduler.names_in(group, prefix)

    def update(self, schedule: ScheduleSpec) -> bool:
        return self._scheduler.replace(schedule)

    def delete(self, group: str, name: str) -> bool:
        return self._scheduler.drop(group, name)


def _validate(schedule: ScheduleSpec, now: datetime) -> None:
    if len(schedule.name) > MAX_SCHEDULER_NAME or len(schedule.input.encode()) > MAX_INPUT_BYTES:
        raise TransportError(f"the schedule {schedule.name!r} is too long, or what it holds is")
    if is_one_time(schedule.expression) or schedule.start is None:
        return
    if schedule.start < now - START_TOLERANCE:
        raise TransportError(
            f"the schedule {schedule.name!r} was refused: ValidationException: The StartDate you "
            "specify cannot be earlier than 5 minutes ago."
        )


def _next(stored: _Stored) -> datetime | None:
    """Return the next firing of a schedule, which is asked for at each firing of any."""
    spec, since = stored.spec, stored.fired_until
    if (known := stored.known) is None or known[0] is not spec or known[1] != since:
        known = stored.known = (spec, since, next_due(spec, since))
    return known[2]


def _filled_in(spec: ScheduleSpec, due: datetime) -> str:
    """Return the input with the context attributes of one firing filled in."""
    return invocation(spec, spec.arn, due)


def _arn(spec: ScheduleSpec) -> str:
    return f"arn:aws:scheduler:::schedule/{spec.group}/{spec.name}"
