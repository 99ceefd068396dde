"""The ``start=`` of a declared schedule, which the bridge keeps and no template holds.

    declared             deployed                                     the bridge lets pass
    cron(...), start=    the same expression                          what is due from then on
    rate(...), start=    a cron expression with all of its times      of these, its own
    without a start      as it is declared                            everything

EventBridge Scheduler refuses a start more than five minutes ago, even in an update. So a template
with a start can't be deployed again once that has passed, and a template that drops it then changes
by the mere passing of time: the update would enable a paused schedule, and a rate would count anew.
A template without starts depends on the declarations alone.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import gcd

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from headgate.jobs.definitions.schedules.occurrences import period_of
from headgate.jobs.definitions.schedules.schedule import Schedule

_MINUTE = timedelta(minutes=1)
_HOUR, _DAY = 60, 24  # in minutes, in hours
_LONGEST_RATE = timedelta.max // timedelta(days=1) * _DAY * _HOUR


class Start(BaseModel):
    """The start of a schedule: the time from which its firings count, and the step between them."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    at: AwareDatetime
    every_minutes: int | None = Field(default=None, ge=1, le=_LONGEST_RATE)
    """A rate's period: only firings due a multiple of it after the start count."""

    def counts(self, due: datetime) -> bool:
        """Return True if a firing due at that time submits a job."""
        if due < self.at:
            return False
        if self.every_minutes is None:
            return True
        return (due - self.at) // _MINUTE % self.every_minutes == 0


def deployed(schedule: Schedule) -> tuple[Schedule, Start | None]:
    """Split a declared schedule into EventBridge Scheduler's part and the bridge's part."""
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
    """Return the schedule that was declared, from the two parts that `deployed` made of it."""
    if start is None:
        return times
    if start.every_minutes is None:
        return replace(times, start=start.at)
    expression = Schedule.rate(timedelta(minutes=start.every_minutes)).expression
    return replace(times, expression=expression, start=start.at)


def times_as_text(schedule: Schedule) -> str:
    """Return a schedule's times as one text, the same for a declaration as for what AWS has of it.

    Example:
        >>> times_as_text(Schedule.cron("0 8 * * ? *", timezone="Europe/Berlin"))
        'cron(0 8 * * ? *) Europe/Berlin'
    """
    times = declared(*deployed(schedule))
    parts = [times.expression, times.timezone]
    for word, moment in (("from", times.start), ("until", times.end)):
        if moment is not None:
            parts += [word, moment.astimezone(UTC).isoformat(timespec="seconds")]
    if times.flexible_window is not None:
        parts += ["within", str(times.flexible_window)]
    return " ".join(parts)


def _holding(every: int, start: datetime) -> str:
    """Return the cron expression, in UTC, with the fewest times that include all of a rate's.

    Its times are spread evenly over an hour, or over a day at one minute of the hour.
    """
    minute, hour = start.minute, start.hour
    if every % _HOUR:
        return f"cron({_each(gcd(every, _HOUR), _HOUR, minute)} * * * ? *)"
    return f"cron({minute} {_each(gcd(every // _HOUR, _DAY), _DAY, hour)} * * ? *)"


def _each(step: int, of: int, at: int) -> str:
    """Return a cron field of every ``step`` out of ``of`` that includes ``at``."""
    if step == 1:
        return "*"
    return str(at) if step == of else f"{at % step}/{step}"


def _to_the_minute(moment: datetime) -> datetime:
    """Round up: a cron expression has whole minutes, and nothing may fire before its start."""
    whole = moment.replace(second=0, microsecond=0)
    return whole if whole == moment else whole + _MINUTE
