"""What a message's earlier deliveries came to, told from the marks that workers left of them.

    marks of a delivery              what it was
    failed                           an attempt
    crashed                          an attempt, and a crash; unless there is an end besides that
                                     only a worker that lives can have written
    deferred, released, unrunnable   neither
    started, and no end              judged by the life of the worker that began it
    (`jobs.records.lives`):
      it died                        an attempt, and a crash
      it lived                       an attempt: the record of its end was lost, or is to come, or
                                     it is not over, and SQS has delivered the message twice
      not known yet                  an attempt, and a suspicion
    none, the first                  it may have begun: short jobs write no start. A crash if a
                                     worker died at the time, else nothing
    none, a later one                nothing: a start is written before

What nothing explains is counted, since SQS will not deliver a message for ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headgate.jobs.core.ports import Item
from headgate.jobs.execution.outcome import LastFailure, Reason
from headgate.jobs.records.items import Mark, deliveries_of
from headgate.jobs.records.lives import Fate

_KINDS = frozenset(Mark)

_LIVED = frozenset(
    {
        Mark.FAILED,
        Mark.DEFERRED,
        Mark.RELEASED,
        Mark.UNRUNNABLE,
        Mark.COMPLETED,
        Mark.DISCARDED,
        Mark.CANCELLED,
    }
)
"""Ends that the worker which had the delivery wrote itself: it was slow, and not dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A delivery that was begun, and of whose end nothing is known."""

    receive: int
    worker: str
    """Who began it."""
    until: datetime | None = None
    """When that worker's time ends in any case, as a Lambda function's does; aware."""
    seen: int | None = None
    """The worker's beat, as the first later delivery saw it that looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What records tell of a message's earlier deliveries."""

    failures: int = 0
    crashes: int = 0
    """Of all time; both are attempts."""
    recent_crashes: int = 0
    """Within the time that counts."""
    doubts: int = 0
    """Attempts of whose end nothing is known, and that were no crashes for all that is known."""
    suspicions: int = 0
    """Of deliveries of which it is not known yet whether their worker died."""
    found: tuple[int, ...] = ()
    """Deliveries that turn out to have been crashes only now; counted among the crashes."""
    unexplained: int = 0
    """Deliveries that nothing explains."""
    last_failure: LastFailure | None = None
    """The latest attempt that failed, or that crashed and was to be dead-lettered for it."""
    fatal_crash: str | None = None
    """Of a crash for which the job was to be quarantined, how it came about."""

    def number(self, used: int) -> int:
        """The attempt that comes next, when ``used`` were made under earlier messages."""
        return used + self.failures + self.crashes + self.doubts + 1


@dataclass(frozen=True, slots=True)
class _Fact:
    """One mark of one delivery."""

    at: datetime
    data: Mapping[str, Any]


class Past:
    """The deliveries of a message before the one at hand.

    Args:
        items: of the job; those of other messages are left out, as is what can't be read.
        message_id: SQS's own id.
        receive: the delivery at hand, from 1.
    """

    def __init__(self, items: Iterable[Item], message_id: str, receive: int) -> None:
        self._earlier = range(1, receive)
        self._marks = _by_receive(items, message_id)
        self.starts = tuple(self._starts())
        """Those that were begun and have not ended, for all that is known."""

    @property
    def is_silent(self) -> bool:
        """Whether nothing is known of the first delivery."""
        return bool(self._earlier) and not self._marks[1]

    @property
    def is_clear(self) -> bool:
        """Whether no worker's life has to be known to judge it."""
        return not self.starts and not self.is_silent

    @property
    def unrunnable(self) -> int:
        """How many could not become a job where they were received."""
        return self._count(Mark.UNRUNNABLE)

    @property
    def resumed_at(self) -> datetime | None:
        """When something was first known of a delivery after the first."""
        later = (self._marks[number].values() for number in self._earlier if number > 1)
        return min((fact.at for facts in later for fact in facts), default=None)

    def history(
        self,
        fate_of: Callable[[Start], Fate],
        silence: Fate | None,
        *,
        now: datetime,
        window: timedelta,
    ) -> History:
        """What it comes to.

        Args:
            fate_of: what became of the worker that began a delivery.
            silence: what became of the worker that had the first one, if nothing is known of it.
                None: deliveries of which nothing is known are nothing, and not counted. Lambda's
                may never have come to anybody, as when it is throttled.
            now: when a crash that is found only now counts as having happened; aware.
            window: how old a crash may be to count as recent.
        """
        fates = {start.receive: fate_of(start) for start in self.starts}
        doubts = sum(fate is not Fate.DIED for fate in fates.values())
        if self.is_silent and silence is not None:
            fates[1] = silence
        found = tuple(sorted(number for number, fate in fates.items() if fate is Fate.DIED))
        crashed = [self._marks[number][Mark.CRASHED].at for number in self._crashed()]
        recent = sum(now - at <= window for at in crashed)
        return History(
            failures=self._count(Mark.FAILED),
            crashes=len(crashed) + len(found),
            recent_crashes=recent + len(found),
            doubts=doubts,
            suspicions=sum(fate is Fate.OPEN for fate in fates.values()),
            found=found,
            unexplained=self._unexplained(fates, silence),
            last_failure=self._last_failure(),
            fatal_crash=self._fatal_crash(),
        )

    def _starts(self) -> Iterable[Start]:
        for number in self._earlier:
            if self._marks[number].keys() == {Mark.STARTED}:
                data = self._marks[number][Mark.STARTED].data
                worker = str(data.get("worker") or "")
                yield Start(
                    receive=number,
                    worker=worker,
                    until=_time(data.get("until")),
                    seen=self._seen_after(number, worker),
                )

    def _seen_after(self, start: int, worker: str) -> int | None:
        for number in self._earlier[start:]:
            for fact in self._marks[number].values():
                beats = fact.data.get("beats")
                if isinstance(beats, dict) and isinstance(beat := beats.get(worker), int):
                    return beat
        return None

    def _unexplained(self, fates: Mapping[int, Fate], silence: Fate | None) -> int:
        unmarked = 0 if silence is None else sum(not self._marks[n] for n in self._earlier)
        lost = sum(fates[start.receive] is Fate.LIVED for start in self.starts)
        judged = self.is_silent and fates.get(1) in (Fate.DIED, Fate.OPEN)
        return unmarked + lost - judged

    def _crashed(self) -> list[int]:
        return [
            number
            for number in self._earlier
            if Mark.CRASHED in self._marks[number] and not self._marks[number].keys() & _LIVED
        ]

    def _count(self, kind: Mark) -> int:
        return sum(kind in self._marks[number] for number in self._earlier)

    def _last_failure(self) -> LastFailure | None:
        for number in reversed(self._earlier):
            if (fact := self._marks[number].get(Mark.FAILED)) is not None:
                return LastFailure(
                    error_type=str(fact.data.get("error_type") or ""),
                    error_message=str(fact.data.get("error_message") or ""),
                    final=_reason(fact.data.get("final")),
                )
            if (crash := self._marks[number].get(Mark.CRASHED)) is not None and (
                final := _reason(crash.data.get("final"))
            ):
                return LastFailure(error_type="", error_message=_detail(crash), final=final)
        return None

    def _fatal_crash(self) -> str | None:
        crashes = (self._marks[number][Mark.CRASHED] for number in self._crashed())
        fatal = (crash for crash in crashes if crash.data.get("final") == Mark.QUARANTINED)
        return next(map(_detail, fatal), None)


def _by_receive(items: Iterable[Item], message_id: str) -> dict[int, dict[Mark, _Fact]]:
    prefix = deliveries_of(message_id)
    found: dict[int, dict[Mark, _Fact]] = defaultdict(dict)
    for item in items:
        if not item.sk.startswith(prefix):
            continue
        receive, _, kind = item.sk.removeprefix(prefix).partition("#")
        at = _time(item.data.get("at"))
        if kind in _KINDS and receive.isdecimal() and at is not None:
            found[int(receive)][Mark(kind)] = _Fact(at, item.data)
    return found


def _detail(crash: _Fact) -> str:
    return str(crash.data.get("detail") or "")


def _time(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _reason(value: object) -> Reason | None:
    try:
        return Reason(str(value)) if value else None
    except ValueError:
        return None  # of a later version
