"""Policies by which the sweep sends dead letters back to their queues: `Replay`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal, get_args

from headgate.jobs.errors import ConfigurationError, SettingsInvalid, did_you_mean
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.kinds import check_kind
from headgate.jobs.values.light_dataclass import frozen_dataclass

ReplayReason = Literal[
    "attempts-exhausted",
    "permanent-error",
    "retry-budget",
    "wait-too-long",
    "deferred-too-often",
    "received-too-often",
    "redriven",
    "unknown-type",
    "newer-schema",
]
"""The reasons of dead letters that time may mend. What killed its process, what its handler would
not have retried, and what nobody can read or trust waits for a person."""

SHORTEST_AFTER = timedelta(minutes=5)
"""The shortest ``after``: a sweep comes every five minutes."""

LONGEST_AFTER = timedelta(days=12)
"""The longest ``after``: SQS deletes a letter two days later."""

MOST_REPLAYS = 20
"""The highest ``max_replays``."""

MOST_AT_ONCE = 500
"""The highest ``most``."""


@frozen_dataclass(frozen=True, slots=True, init=False)
class Replay:
    """Dead letters that the sweep sends back by itself: ``Replay(errors=["ConnectError"])``.

    Option of an app, for all of its types, or of a job type.

    Args:
        reasons: the reasons of the letters that are sent back; see `ReplayReason`.
        errors: only letters of these errors: the error's class, or a part of its message, in upper
            or lower case. Without any, all.
        max_replays: the number of replays after which a job that has died again waits for a
            person, 1 to 20. Those that somebody has made count as well.
        after: the time since a job's death, in seconds or as a timedelta, 5 minutes to 12 days.
        most: the most jobs of a type in one sweep, every five minutes, 1 to 500.

    Raises:
        SettingsInvalid: a value is out of range, or there is no sending back after a reason.
    """

    reasons: tuple[ReplayReason, ...]
    errors: tuple[str, ...]
    max_replays: int
    after: timedelta
    most: int

    def __init__(
        self,
        *,
        reasons: Iterable[ReplayReason] = ("attempts-exhausted",),
        errors: Iterable[str] = (),
        max_replays: int = 3,
        after: Duration = timedelta(hours=1),
        most: int = 100,
    ) -> None:
        values = {
            "reasons": _reasons(reasons),
            "errors": _texts("errors", errors),
            "max_replays": _whole("max_replays", max_replays, MOST_REPLAYS),
            "after": duration("Replay(after=...)", after, positive=True),
            "most": _whole("most", most, MOST_AT_ONCE),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if not SHORTEST_AFTER <= self.after <= LONGEST_AFTER:
            raise SettingsInvalid(
                f"Replay(after=...) must lie between {SHORTEST_AFTER}, as often as the sweep "
                f"comes, and {LONGEST_AFTER}, since SQS deletes letters; got {self.after}"
            )


def check_replay(where: str, given: object) -> Replay | None:
    """Return the ``replay=`` option of an app or a type.

    Raises:
        ConfigurationError: it is something else than a policy.
    """
    if isinstance(given, Replay | None):
        return given
    raise ConfigurationError(
        f"{where}: replay must be a Replay, got {given!r}: write Replay(max_replays=3)"
    )


def _reasons(given: Iterable[str]) -> tuple[str, ...]:
    known = get_args(ReplayReason)
    reasons = _texts("reasons", given)
    if not reasons:
        raise SettingsInvalid(
            "Replay(reasons=...) must name at least one reason; left out, it is attempts-exhausted"
        )
    for reason in reasons:
        if reason not in known:
            raise SettingsInvalid(
                f"Replay(reasons=...): letters of the reason {reason!r} are sent back by nobody "
                f"but a person: {did_you_mean(reason, known)}"
            )
    return reasons


def _texts(name: str, given: Any) -> tuple[str, ...]:
    texts: tuple[Any, ...] = () if isinstance(given, str) else tuple(given)
    if isinstance(given, str) or not all(isinstance(each, str) and each for each in texts):
        raise SettingsInvalid(
            f'Replay({name}=...) takes a list of texts, got {given!r}: write {name}=["..."]'
        )
    return texts


def _whole(name: str, value: int, most: int) -> int:
    check_kind(f"Replay({name}=...)", value, int, SettingsInvalid)
    if not 1 <= value <= most:
        raise SettingsInvalid(f"Replay({name}=...) must lie between 1 and {most}, got {value}")
    return value
