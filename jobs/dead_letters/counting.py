"""Counts of dead letters, by what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.errors import ConfigurationError, did_you_mean
from headgate.jobs.values.light_dataclass import frozen_dataclass

CountBy = Literal["type", "reason", "error", "queue", "tenant", "hour"]
"""A property by which letters are counted."""

Group = tuple[str | None, ...]


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LetterCount:
    """The letters that have something in common."""

    group: Mapping[str, str | None]
    """The values that they share: by ``type``, ``reason``, ``error`` (its class), ``queue`` (where
    they lie), ``tenant`` and ``hour`` (in which they died, as ISO 8601 in UTC)."""
    count: int
    first: datetime
    """The time at which the first of them died."""
    last: datetime


@dataclass(slots=True)
class _Tally:
    count: int
    first: datetime
    last: datetime


class LetterCounter:
    """Counts letters in groups.

    Args:
        by: what each group has in common; of nothing there is one group.

    Raises:
        ConfigurationError: letters can't be counted so.
    """

    def __init__(self, by: Sequence[str]) -> None:
        self._by = read_by(by)
        self._tallies: dict[Group, _Tally] = {}

    def add(self, letter: DeadLetter) -> None:
        """Count a letter."""
        group = tuple(_KEYS[each](letter) for each in self._by)
        died_at = letter.died_at
        if (tally := self._tallies.get(group)) is None:
            self._tallies[group] = _Tally(1, died_at, died_at)
            return
        tally.count += 1
        tally.first = min(tally.first, died_at)
        tally.last = max(tally.last, died_at)

    @property
    def total(self) -> int:
        """The number of letters."""
        return sum(tally.count for tally in self._tallies.values())

    def counts(self) -> list[LetterCount]:
        """Return the counts, the largest first."""
        ordered = sorted(
            self._tallies.items(),
            key=lambda pair: (-pair[1].count, [each or "" for each in pair[0]]),
        )
        return [
            LetterCount(
                group=dict(zip(self._by, group, strict=True)),
                count=tally.count,
                first=tally.first,
                last=tally.last,
            )
            for group, tally in ordered
        ]


def read_by(by: Sequence[str]) -> tuple[CountBy, ...]:
    """Return what to count by; one name may stand alone.

    Raises:
        ConfigurationError: letters are not counted by that.
    """
    known: Mapping[str, CountBy] = {name: name for name in _KEYS}
    names = (by,) if isinstance(by, str) else by
    for name in names:
        if name not in known:
            raise ConfigurationError(
                f"dead letters are not counted by {name!r}: {did_you_mean(str(name), known)}"
            )
    return tuple(dict.fromkeys(known[name] for name in names))


def _hour(letter: DeadLetter) -> str:
    hour = letter.died_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return hour.isoformat(timespec="hours").removesuffix("+00:00") + "Z"


_KEYS: Mapping[CountBy, Callable[[DeadLetter], str | None]] = {
    "type": lambda letter: letter.job_type,
    "reason": lambda letter: letter.reason,
    "error": lambda letter: letter.error_type or None,
    "queue": lambda letter: letter.queue,
    "tenant": lambda letter: letter.tenant,
    "hour": _hour,
}
