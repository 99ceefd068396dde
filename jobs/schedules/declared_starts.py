"""The ``start=`` of a declared schedule, which the bridge keeps and no template holds.

    declared             deployed                                     the bridge lets pass
    cron(...), start=    the same expression                          what is due from then on
    rate(...), start=    a cron expression with all of its times      of these, its own
    without a start      as it is declared                            everything

EventBridge Scheduler takes no start more than five minutes ago, in an update neither. So a template
with one can't be deployed again once it is over, and a template that drops it then changes by the
mere passing of time: the update would enable a schedule that was paused, and a rate would count
anew. A template without it depends on what is declared alone.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import gcd

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from headgate.jobs.definitions.occurrences import period_of
from headgate.jobs.definitions.schedule import Schedule

_MINUTE = timedelta(minutes=1)
_HOUR, _DAY = 60, 24  # in minutes, in hours
_LONGEST_RATE = timedelta.max // timedelta(days=1) * _DAY * _HOUR


class Start(BaseModel):
    """From when on a schedule's firings count, and which of them."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    at: AwareDatetime
    every_minutes: int | None = Field(default=None, ge=1, le=_LONGEST_RATE)
    """Of a rate: only what is due a multiple of these after the start counts."""

    def counts(self, due: datetime) -> bool:
        """True if a firing for that time submits a job."""
        if due < self.at:
            return False
        if self.every_minutes is None:
            return True
        return (due - self.at) // _MINUTE % self.every_minutes == 0


def deployed(schedule: Schedule) -> tuple[Schedule, Start | None]:
    """A declared schedule's part for EventBridge Scheduler, and the bridge's part."""
    if schedule.start is None:
        return schedule, None
    start = schedule.start.astimezone(UTC)
    if not schedule.expression.startswith("rate("):
        return replace(schedule, start=None), Start(at=start)
    start = _to_the_minute(start)
    every = period_of(schedule.expression) // _MINUTE
    times = replace(schedule, expression=_holding(every, start), timezone="UTC", start=None)
    return times, Start(at=start, every_minutes=every)


def declared(times: Schedule, start: Start | None) -> Schedule:
    """The schedule that was declared, from what was made of it by `deployed`."""
    if start is None:
        return times
    if start.every_minutes is None:
        return replace(times, start=start.at)
    expression = Schedule.rate(timedelta(minutes=start.every_minutes)).expression
    return replace(times, expression=expression, start=start.at)


def _holding(every: int, start: datetime) -> str:
    """The cron expression, in UTC, with the fewest times among which are all of a rate's.

    Its times lie evenly within an hour, or within a day at one minute of the hour.
    """
    minute, hour = start.minute, start.hour
    if every % _HOUR:
        return f"cron({_each(gcd(every, _HOUR), _HOUR, minute)} * * * ? *)"
    return f"cron({minute} {_each(gcd(every // _HOUR, _DAY), _DAY, hour)} * * ? *)"


def _each(step: int, of: int, at: int) -> str:
    """A cron field: each ``step`` out of ``of``, so that ``at`` is among them."""
    if step == 1:
        return "*"
    return str(at) if step == of else f"{at % step}/{step}"


def _to_the_minute(moment: datetime) -> datetime:
    """Rounded up: a cron expression has whole minutes, and nothing may come before its start."""
    whole = moment.replace(second=0, microsecond=0)
    return whole if whole == moment else whole + _MINUTE
