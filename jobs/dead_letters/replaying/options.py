"""Options of a replay, and how the table keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from pydantic_core import from_json, to_json

from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.topology import Priority, PriorityName
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.errors import ConfigurationError, HeadgateError, SettingsInvalid, did_you_mean
from headgate.jobs.messages.envelope import Sealed
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.listing.time_bounds import moment_of
from headgate.jobs.values.stored import mapping, moment, number, text, whole
from headgate.jobs.values.texts import LONGEST_NAME

MAX_STORED = 200_000
"""Maximum characters of a replay's filter and options as JSON: an item of the table has 400 KB."""

MAX_CANARY = 1_000
"""The highest ``canary``: each of these jobs is looked up until it has ended."""

_MAX_RATE = 10_000.0
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
"""Before any letter, and the first time that is read from the table."""

_LONGEST_SPREAD = timedelta(days=14)
_LONGEST_WAIT = timedelta(hours=12)
_CANARY_TIMEOUT = timedelta(minutes=10)


class ReplaySettings(TypedDict, total=False):
    """The settings of a replay, as they are given."""

    limit: int | None
    """Maximum number of jobs; None for no limit."""
    rate: float | None
    """Jobs a second; None for as fast as SQS takes them. Not together with ``spread``."""
    spread: Duration | None
    """A timedelta or seconds over which to spread the jobs, at random, at most 14 days."""
    canary: int | None
    """Number of jobs to send first, at most 1,000. The others follow once these have ended, and not
    too many of them died again."""
    canary_timeout: Duration
    """A timedelta or seconds to wait for that; 10 minutes by default, at most 12 hours. The replay
    stops if some have not ended by then. Jobs of which no records are kept count as well by then,
    unless they are found among the dead letters."""
    stop_above: float | None
    """Share of the jobs, 0 to 1, above which those that died again stop the replay; 0.5 by default.
    It counts from ten jobs on. None: never."""
    priority: Priority | PriorityName | None
    """The priority to run them with; None: the one they had."""
    as_type: str | None
    """The name of another job type to run them as; None: the one they had. Their payloads are
    upgraded by that type's ``upgrade_from``, and have to fit its model."""
    set: Mapping[str, Any] | None
    """Fields of the payload to replace, with JSON values: ``{"region": "eu"}``."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The settings of a replay, checked; see `ReplaySettings`."""

    limit: int | None = None
    rate: float | None = None
    spread: timedelta | None = None
    canary: int | None = None
    canary_timeout: timedelta = _CANARY_TIMEOUT
    stop_above: float | None = 0.5
    priority: Priority | None = None
    as_type: str | None = None
    set: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sealed_set: Sealed | None = field(default=None, repr=False, compare=False)
    """The text that stands in place of ``set`` in the table."""


def check_options(settings: ReplaySettings) -> ReplayOptions:
    """Check what was said about a replay.

    Raises:
        SettingsInvalid: a setting is unknown or out of range, or contradicts another.
    """
    for name in settings.keys() - ReplaySettings.__annotations__.keys():
        known = ReplaySettings.__annotations__
        raise SettingsInvalid(f"a replay has no setting {name!r}: {did_you_mean(name, known)}")
    rate, spread = settings.get("rate"), settings.get("spread")
    canary, stop_above = settings.get("canary"), settings.get("stop_above", 0.5)
    if rate is not None and spread is not None:
        raise SettingsInvalid("a replay: give rate or spread, not both: each sets the pace")
    if canary is not None and stop_above is None:
        raise SettingsInvalid("a replay: a canary needs stop_above, which says when it has failed")
    return ReplayOptions(
        limit=_whole("limit", settings.get("limit"), 1, 10**9),
        rate=_rate(rate),
        spread=None if spread is None else _length("spread", spread, _LONGEST_SPREAD),
        canary=_whole("canary", canary, 1, MAX_CANARY),
        canary_timeout=_length(
            "canary_timeout", settings.get("canary_timeout", _CANARY_TIMEOUT), _LONGEST_WAIT
        ),
        stop_above=_share(stop_above),
        priority=_priority(settings.get("priority")),
        as_type=_type_name(settings.get("as_type")),
        set=_json_values(settings.get("set") or {}),
    )


def stored_options(options: ReplayOptions) -> dict[str, Any]:
    """Return the options as the table keeps them."""
    sealed = options.sealed_set
    told: dict[str, Any] = {
        "limit": options.limit,
        "rate": options.rate,
        "spread_s": options.spread.total_seconds() if options.spread else None,
        "canary": options.canary,
        "canary_timeout_s": options.canary_timeout.total_seconds(),
        "stop_above": options.stop_above,
        "priority": str(options.priority) if options.priority else None,
        "as_type": options.as_type,
        # As a text, since the table has no room for every number that JSON has.
        "set": to_json(options.set).decode() if options.set and not sealed else None,
        "set_sealed": sealed.model_dump(exclude_none=True) if sealed else None,
    }
    return {name: value for name, value in told.items() if value is not None}


def read_options(value: object) -> ReplayOptions | None:
    """Return the options that an item holds; None if no replay can have written them."""
    told = mapping(value)
    if told is None:
        return None
    known: ReplaySettings = {
        "limit": told.get("limit"),
        "rate": told.get("rate"),
        "spread": told.get("spread_s"),
        "canary": told.get("canary"),
        "canary_timeout": told.get("canary_timeout_s", _CANARY_TIMEOUT),
        "stop_above": told.get("stop_above"),
        "priority": told.get("priority"),
        "as_type": told.get("as_type"),
    }
    try:
        if "set" in told:
            known["set"] = from_json(text(told["set"], MAX_STORED) or "")
        sealed = Sealed.model_validate(found) if (found := told.get("set_sealed")) else None
        return replace(check_options(known), sealed_set=sealed)
    except (HeadgateError, ValueError, TypeError):
        return None


def fixed_filter(chosen: DeadLetterFilter, started_at: datetime) -> DeadLetterFilter:
    """Return a filter that means the same whenever the replay goes on: ages are times in it.

    It leaves out letters of jobs that die after the start, which nobody has looked at.
    """
    since, until = (moment_of(each, started_at) for each in (chosen.since, chosen.until))
    ends_at = started_at + timedelta(seconds=SKEW_S)
    return replace(
        chosen,
        since=since if since is not None and since > _FIRST else None,
        until=max(_FIRST, min(ends_at, until or ends_at)),
    )


def stored_filter(chosen: DeadLetterFilter) -> dict[str, Any]:
    """Return a filter without ages as the table keeps it.

    Raises:
        SettingsInvalid: it is too large for an item of the table.
    """
    told: dict[str, Any] = {}
    for each in fields(chosen):
        match getattr(chosen, each.name):
            case None | ():
                continue
            case datetime() as at:
                told[each.name] = at.isoformat()
            case texts:
                told[each.name] = [*texts]
    if (size := len(json.dumps(told))) > MAX_STORED:
        raise SettingsInvalid(
            f"a replay: its filter has {size:,} characters, and at most {MAX_STORED:,} are kept: "
            "name at most 5,000 ids, or replay by type, reason or time"
        )
    return told


def read_filter(value: object) -> DeadLetterFilter | None:
    """Return the filter that an item holds; None if no replay can have written it."""
    told = mapping(value)
    if told is None:
        return None
    known = {each.name for each in fields(DeadLetterFilter)}
    try:
        given: dict[str, Any] = {name: _field(told[name]) for name in known & told.keys()}
        return DeadLetterFilter(**given)
    except (ConfigurationError, ValueError, TypeError):
        return None


def _field(value: object) -> tuple[str, ...] | datetime:
    if isinstance(value, list):
        return tuple(value)
    if (at := moment(value)) is None:
        raise ValueError
    return at


def _whole(name: str, value: int | None, least: int, most: int) -> int | None:
    if value is not None and whole(value, least, most) is None:
        raise SettingsInvalid(
            f"a replay: {name} must be a whole number between {least} and {most:,}, got {value!r}"
        )
    return value


def _rate(rate: float | None) -> float | None:
    if rate is not None and (number(rate, most=_MAX_RATE) is None or not rate):
        raise SettingsInvalid(
            f"a replay: rate is a number of jobs a second above 0, at most {_MAX_RATE:,.0f}, got "
            f"{rate!r}"
        )
    return rate


def _share(share: float | None) -> float | None:
    if share is not None and number(share, most=1.0) is None:
        raise SettingsInvalid(
            f"a replay: stop_above is a share between 0 and 1, got {share!r}: 0.5 stops when more "
            "than half die again"
        )
    return share


def _length(name: str, value: Duration, most: timedelta) -> timedelta:
    length = duration(f"a replay: {name}", value, positive=True)
    if length > most:
        raise SettingsInvalid(f"a replay: {name} must be at most {most}, got {length}")
    return length


def _priority(priority: Priority | PriorityName | None) -> Priority | None:
    try:
        return None if priority is None else Priority(priority)
    except ValueError:
        raise SettingsInvalid(
            f"a replay: {priority!r} is no priority; there are {', '.join(Priority)}"
        ) from None


def _type_name(name: str | None) -> str | None:
    if name is not None and not text(name, LONGEST_NAME):
        raise SettingsInvalid(
            f'a replay: as_type is the name of a job type, got {name!r}: write as_type="send-email"'
        )
    return name


def _json_values(given: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        text_ = to_json(dict(given), inf_nan_mode="constants")
        found = from_json(text_, allow_inf_nan=False)
    except (ValueError, TypeError) as error:
        raise SettingsInvalid(
            "a replay: set maps names of payload fields to JSON values, as in "
            'set={"region": "eu"}; what was given is something else'
        ) from error
    if len(text_) > MAX_STORED or not all(isinstance(name, str) and name for name in found):
        raise SettingsInvalid(
            f"a replay: set takes names of fields and up to {MAX_STORED:,} characters of JSON"
        )
    values: Mapping[str, Any] = found
    return values
