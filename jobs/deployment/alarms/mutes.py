"""Windows in which alarms notify nobody."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ConfigDict

from headgate.jobs.deployment.alarms.thresholds import Severity
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import frozen_dataclass

_CRON = re.compile(r"cron\(\S+ \S+ \S+ \S+ \S+\)")
_AT = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d)\)")
_SHORTEST, _LONGEST = timedelta(minutes=1), timedelta(days=15)


@frozen_dataclass(frozen=True, kw_only=True)
class MuteWindow:
    """A time in which alarms tell nobody, once or again and again.

    The alarms are evaluated and shown all the same; those that scale workers are never muted.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_Schedule.html

    Raises:
        ConfigurationError: the schedule, the duration or the time zone is not CloudWatch's.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    schedule: str
    """Its begin: ``cron(0 22 * * *)`` (minute, hour, day of the month, month, day of the week), or
    once, ``at(2026-12-24T18:00)``."""
    duration: DurationField = DurationField(timedelta(hours=1))
    """Its length in seconds or as a timedelta, a minute to 15 days, in whole minutes."""
    timezone: str = "UTC"
    """The time zone of the schedule, as in ``Europe/Berlin``."""
    severity: Severity | None = None
    """The severity that is muted; None: both."""

    def __post_init__(self) -> None:
        check_kinds("a mute window", self)
        if not _CRON.fullmatch(self.schedule) and not _is_once(self.schedule):
            raise ConfigurationError(
                "a mute window's schedule is cron(...) with five fields, as in cron(0 22 * * *), "
                f"or at(...), as in at(2026-12-24T18:00), got {self.schedule!r}"
            )
        if not _SHORTEST <= self.duration <= _LONGEST or self.duration % _SHORTEST:
            raise ConfigurationError(
                "a mute window's duration is a minute to 15 days, in whole minutes, got "
                f"{self.duration}"
            )
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError):
            raise ConfigurationError(
                f"a mute window's timezone is one of IANA's, as in Europe/Berlin, got "
                f"{self.timezone!r}"
            ) from None

    @property
    def iso_duration(self) -> str:
        """The duration in ISO 8601, in minutes."""
        return f"PT{self.duration // _SHORTEST}M"


def _is_once(schedule: str) -> bool:
    """Return whether a schedule is a minute that the calendar has."""
    if (found := _AT.fullmatch(schedule)) is None:
        return False
    try:
        datetime.fromisoformat(found[1])
    except ValueError:
        return False
    return True
