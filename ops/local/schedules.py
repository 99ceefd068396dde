"""EventBridge Scheduler of the local AWS, corrected where MiniStack departs from AWS's docs.

MiniStack fires schedules, but passes context attributes on as they are written, reads ``cron`` and
``at`` in UTC whatever the time zone, counts a rate from when it looked last, and looks every ten
seconds. `LocalAws` runs this file in MiniStack's process, before MiniStack: storage and invocation
of targets stay MiniStack's, and due times are decided here.

What it replaces and calls is private to MiniStack, so `install` compares it with what it expects
and refuses to start a MiniStack that has changed. Only MiniStack is sure to be installed: nothing
else is imported.

https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LOOK_EVERY_S = 1
"""Seconds between two looks at the schedules; AWS invokes within the minute that is due."""

_SWITCH = "HEADGATE_FIRES_SCHEDULES"
_INSTANT = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)

_EXPECTED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("services.scheduler", "_tick_schedules"): (),
    ("services.scheduler", "_to_epoch"): ("value",),
    ("services.eventbridge", "_parse_rate_seconds"): ("expr",),
    ("services.eventbridge", "_parse_cron_fields"): ("expr",),
    ("services.eventbridge", "_cron_next_fire"): ("fields", "after_dt"),
    ("services.eventbridge", "_invoke_target"): ("target", "event", "rule", "view"),
    ("core.responses", "set_request_account_id"): ("access_key_id",),
    ("core.responses", "set_request_region"): ("region",),
}
"""The functions of MiniStack that are replaced or called, with their parameters."""

_logger = logging.getLogger("scheduler")


class MiniStackChanged(Exception):
    """This version of MiniStack is not the one that the corrections are made for."""


def install() -> None:
    """Take over the decision when MiniStack's schedules are due, in this process.

    With ``HEADGATE_FIRES_SCHEDULES=0`` none is ever due: it stores schedules, and another process
    fires them.

    Raises:
        MiniStackChanged: its internals differ from those known here.
    """
    _check()
    store: Any = _module("services.scheduler")
    if os.environ.get(_SWITCH) == "0":
        store._tick_schedules = lambda: None  # noqa: SLF001 - checked just now
        return
    sweep = _Sweep(store)
    store._tick_schedules = lambda: sweep(datetime.now(UTC))  # noqa: SLF001 - checked just now
    store._SCHEDULE_TICK_INTERVAL = LOOK_EVERY_S  # noqa: SLF001 - likewise


def next_time(schedule: Mapping[str, Any], since: datetime) -> datetime | None:
    """Return the first time from ``since`` on at which a schedule, as MiniStack stores it, is due.

    Returns:
        An aware time, in UTC; None when it is never due, or can't be read: MiniStack stores what
        AWS would refuse.
    """
    try:
        if _is_one_time(schedule):  # for which AWS ignores start and end
            return _of_at(schedule["ScheduleExpression"], _zone(schedule), since)
        if (start := _time(schedule["StartDate"])) is not None:
            since = max(since, start)
        due = _due(schedule, since)
    except (ValueError, ZoneInfoNotFoundError):
        return None
    end = _time(schedule["EndDate"])
    return None if due is None or (end is not None and due > end) else due


def with_context(text: str, schedule_arn: str, due: datetime) -> str:
    """Return a target's input with an invocation's context attributes, always the first attempt's.

    https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-schedule-context-attributes.html
    """
    values = {
        "schedule-arn": schedule_arn,
        "scheduled-time": f"{due.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "execution-id": secrets.token_hex(8),
        "attempt-number": "1",
    }
    for name, value in values.items():
        text = text.replace(f"<aws.scheduler.{name}>", value)
    return text


class _Sweep:
    """Fires due schedules; called repeatedly by MiniStack's own thread."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._fired: dict[tuple[str, str, str], tuple[float, datetime]] = {}
        """The version of each schedule, and the due time for which it was fired last."""

    def __call__(self, now: datetime) -> None:
        schedules = self._store._schedules._data  # noqa: SLF001 - of all accounts and regions
        for key, schedule in list(schedules.items()):
            if schedule["State"] == "ENABLED" and (due := self._last_due(key, schedule, now)):
                self._fired[key] = (schedule["LastModificationDate"], due)
                _fire(key, schedule, due)
            if schedule["ActionAfterCompletion"] == "DELETE" and self._is_over(key, schedule, now):
                schedules.pop(key, None)
        self._fired = {key: fired for key, fired in self._fired.items() if key in schedules}

    def _last_due(
        self, key: tuple[str, str, str], schedule: Mapping[str, Any], now: datetime
    ) -> datetime | None:
        """Return the latest due time not yet fired for.

        After a machine's sleep one firing makes up for all that were missed.
        """
        since = self._since(key, schedule)
        found = None
        while (due := next_time(schedule, since)) is not None and due <= now:
            found, since = due, due + _INSTANT
        return found

    def _since(self, key: tuple[str, str, str], schedule: Mapping[str, Any]) -> datetime:
        if (fired := self._fired_for(key, schedule)) is not None:
            return fired + _INSTANT
        if _is_one_time(schedule):
            return datetime.min.replace(tzinfo=UTC)  # one that was due at its creation still fires
        changed = datetime.fromtimestamp(schedule["LastModificationDate"], UTC)
        start = _time(schedule["StartDate"])
        # A start of "now" has passed by the time that it is stored.
        return start if start and timedelta(0) < changed - start < _MINUTE else changed

    def _is_over(
        self, key: tuple[str, str, str], schedule: Mapping[str, Any], now: datetime
    ) -> bool:
        if _is_one_time(schedule):
            return self._fired_for(key, schedule) is not None
        end = _time(schedule["EndDate"])
        return end is not None and now > end

    def _fired_for(self, key: tuple[str, str, str], schedule: Mapping[str, Any]) -> datetime | None:
        """Return the due time for which this version of the schedule was fired last.

        A schedule that was changed, or created again under the same name, is another version.
        """
        version, due = self._fired.get(key, (None, None))
        return due if version == schedule["LastModificationDate"] else None


def _fire(key: tuple[str, str, str], schedule: Mapping[str, Any], due: datetime) -> None:
    """Invoke the target, within the schedule's own account and region."""
    account, region, name = key
    requests = _module("core.responses")
    requests.set_request_account_id(account)
    requests.set_request_region(region)
    target = dict(schedule["Target"])
    if "Input" in target:
        target["Input"] = with_context(target["Input"], schedule["Arn"], due)
    event = {
        "EventId": secrets.token_hex(16),
        "Source": "aws.scheduler",
        "DetailType": "Scheduled Event",
        "Detail": "{}",
        "Time": due.timestamp(),
        "Resources": [schedule["Arn"]],
        "Account": account,
        "Region": region,
    }
    try:
        _module("services.eventbridge")._invoke_target(target, event, schedule)  # noqa: SLF001 - checked
    except Exception:
        # A failing target must not keep the other schedules from firing.
        _logger.exception("the target of the schedule %s could not be invoked", name)


def _due(schedule: Mapping[str, Any], since: datetime) -> datetime | None:
    """Return `next_time` of a recurring schedule, ignoring start and end."""
    rules = _module("services.eventbridge")
    expression = schedule["ScheduleExpression"]
    if seconds := rules._parse_rate_seconds(expression):  # noqa: SLF001 - checked
        return _of_rate(timedelta(seconds=seconds), _begin(schedule), since)
    fields = rules._parse_cron_fields(expression)  # noqa: SLF001 - checked
    return _of_cron(fields, _zone(schedule), since) if fields is not None else None


def _zone(schedule: Mapping[str, Any]) -> ZoneInfo:
    return ZoneInfo(schedule["ScheduleExpressionTimezone"])


def _is_one_time(schedule: Mapping[str, Any]) -> bool:
    return bool(schedule["ScheduleExpression"].strip().startswith("at("))


def _begin(schedule: Mapping[str, Any]) -> datetime:
    """Return a rate's first occurrence: its start, or else its creation."""
    found = _time(schedule["StartDate"]) or _time(schedule["CreationDate"])
    assert found is not None  # noqa: S101 - every schedule was created; narrows the type
    return found


def _of_at(expression: str, zone: ZoneInfo, since: datetime) -> datetime | None:
    text = expression.strip().removeprefix("at(").removesuffix(")")
    at = datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)
    return at if at >= since else None


def _of_rate(every: timedelta, begin: datetime, since: datetime) -> datetime:
    passed = max(0, -((begin - since) // every))  # rounded up
    return begin + passed * every


def _of_cron(fields: Any, zone: ZoneInfo, since: datetime) -> datetime | None:
    """Return the next time of a cron expression, in the schedule's time zone.

    MiniStack computes with wall-clock times as if they were UTC; here they are read in the zone. A
    time that is skipped in spring is left out, and one that is repeated counts once.
    """
    rules = _module("services.eventbridge")
    wall = (since - _INSTANT).astimezone(zone).replace(tzinfo=UTC, fold=0)
    while (wall := rules._cron_next_fire(fields, wall)) is not None:  # noqa: SLF001 - checked
        due: datetime = wall.replace(tzinfo=zone).astimezone(UTC)
        if due >= since and due.astimezone(zone).replace(tzinfo=UTC) == wall:
            return due
    return None


def _time(value: Any) -> datetime | None:
    seconds = _module("services.scheduler")._to_epoch(value)  # noqa: SLF001 - checked
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _check() -> None:
    for (module, name), parameters in _EXPECTED.items():
        found = getattr(_module(module), name, None)
        if found is None or tuple(inspect.signature(found).parameters) != parameters:
            raise MiniStackChanged(
                f"MiniStack's {module}.{name} is not the function ({', '.join(parameters)}) that "
                f"{__file__} knows: install the version of MiniStack that Headgate pins"
            )
    store = _module("services.scheduler")
    if "_tick_schedules" not in store._ticker_loop.__code__.co_names:  # noqa: SLF001 - asked here
        raise MiniStackChanged(f"MiniStack's ticker no longer calls what {__file__} replaces")
    if not isinstance(getattr(store._schedules, "_data", None), dict):  # noqa: SLF001 - asked here
        raise MiniStackChanged(f"MiniStack no longer stores schedules as {__file__} reads them")


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"ministack.{name}")
