"""A message's earlier deliveries, judged by the marks that workers wrote of them.

    marks of a delivery              counts as
    failed                           an attempt
    crashed                          an attempt and a crash; unless another mark is an end that only
                                     a live worker can have written
    deferred, released, unrunnable,  neither
    interrupted
    none, after a release because    nothing, and explained up to the next delivery of which such a
    of a pause                       release is told (`jobs.records.pausing.returns`)
    started, and no end              judged by the life of the worker that began it
    (`jobs.records.lives`):
      it died                        an attempt and a crash
      it lived                       an attempt: the record of its end was lost, or is to come, or
                                     it still runs, and SQS has delivered the message twice
      not known yet                  an attempt and a suspicion
    none, the first delivery         a crash if a worker died at the time, else nothing: it may have
                                     begun, since short jobs write no start
    none, a later delivery           nothing: a later delivery writes its start first

Unexplained deliveries are counted, since SQS will not deliver a message for ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from headgate.jobs.core.ports.table import Item
from headgate.jobs.execution.outcome import Attempt, LastFailure, Reason
from headgate.jobs.records.items import Mark, deliveries_of
from headgate.jobs.records.lives import Fate
from headgate.jobs.records.pausing.returns import is_told
from headgate.jobs.values.light_dataclass import light_dataclass

_KINDS = frozenset(Mark)

_LIVED = frozenset(
    {
        Mark.FAILED,
        Mark.DEFERRED,
        Mark.RELEASED,
        Mark.INTERRUPTED,
        Mark.UNRUNNABLE,
        Mark.COMPLETED,
        Mark.DISCARDED,
        Mark.DROPPED,
        Mark.CANCELLED,
    }
)
"""Ends that only the delivery's own worker writes: that worker was slow, not dead."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class UnendedStart:
    """A delivery that was begun and whose end is unknown."""

    receive: int
    worker: str
    """The worker that began it."""
    until: datetime | None = None
    """The time at which that worker ends in any case, as a Lambda function does; aware."""
    seen: int | None = None
    """The worker's beat, as seen by the first later delivery that looked."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A summary of the records of a message's earlier deliveries."""

    failures: int = 0
    crashes: int = 0
    """Crashes, however long ago. Failures and crashes are attempts."""
    recent_crashes: int = 0
    """Crashes within the window that counts."""
    doubts: int = 0
    """Attempts whose end is unknown, and that are not known to be crashes."""
    halted: int = 0
    """Deliveries whose handler was called and which are no attempts: it was interrupted, or put its
    job off, or ended it and the message was delivered again all the same."""
    suspicions: int = 0
    """Deliveries whose worker may have died, which is not known yet."""
    found: tuple[int, ...] = ()
    """Deliveries that are found to be crashes only now; included in the crashes."""
    unexplained: int = 0
    """Deliveries that nothing explains."""
    last_failure: LastFailure | None = None
    """The latest attempt that failed, or that crashed and was to be dead-lettered for it."""
    fatal_crash: str | None = None
    """The detail of a crash for which the job was to be quarantined."""

    def number(self, used: int) -> int:
        """Return the number of the next attempt, if ``used`` were made under earlier messages."""
        return used + self.failures + self.crashes + self.doubts + 1

    @property
    def begun(self) -> bool:
        """True if the handler was called in one of the deliveries."""
        return self.failures + self.crashes + self.doubts + self.halted > 0

    def applied_to(self, attempt: Attempt, *, used: int) -> Attempt:
        """Return a delivery's attempt with what these records tell; ``used`` is as in `number`."""
        return replace(
            attempt,
            number=self.number(used),
            begun=used > 0 or self.begun,
            failures=used + self.failures,
            last_failure=self.last_failure,
            crashes=self.recent_crashes,
            crashes_ever=self.crashes,
            fatal_crash=self.fatal_crash,
            suspicions=self.suspicions,
            unexplained=self.unexplained,
        )


@light_dataclass(frozen=True, slots=True)
class _Fact:
    """One mark of one delivery."""

    at: datetime
    data: Mapping[str, Any]


class Past:
    """The deliveries of a message before the current one.

    Args:
        items: the job's items; those of other messages, and unreadable ones, are left out.
        message_id: SQS's id of the message.
        receive: the current delivery, from 1.
    """

    def __init__(self, items: Iterable[Item], message_id: str, receive: int) -> None:
        self._earlier = range(1, receive)
        self._marks = _by_receive(items, message_id)
        self.starts = tuple(self._starts())
        """The deliveries that were begun and are not known to have ended."""

    @property
    def is_silent(self) -> bool:
        """True if nothing is known of the first delivery."""
        return bool(self._earlier) and not self._marks[1]

    @property
    def unended(self) -> tuple[int, ...]:
        """The deliveries that may have been begun and are not known to have ended."""
        return (*((1,) if self.is_silent else ()), *(start.receive for start in self.starts))

    @property
    def is_clear(self) -> bool:
        """True if the past can be judged without looking up any worker's life."""
        return not self.unended

    @property
    def unrunnable(self) -> int:
        """Number of deliveries that could not become a job where they were received."""
        return self._count(Mark.UNRUNNABLE)

    @property
    def survivors(self) -> frozenset[str]:
        """The workers that wrote of a later delivery, which outlived the first one."""
        return frozenset(str(fact.data.get("worker")) for fact in self._later_facts())

    @property
    def resumed_at(self) -> datetime | None:
        """Time of the earliest mark of any delivery after the first; None if there is none."""
        return min((fact.at for fact in self._later_facts()), default=None)

    def _later_facts(self) -> Iterator[_Fact]:
        for number in self._earlier[1:]:
            yield from self._marks[number].values()

    def history(
        self,
        fate_of: Callable[[UnendedStart], Fate],
        silence: Fate | None,
        *,
        now: datetime,
        window: timedelta,
    ) -> History:
        """Judge the earlier deliveries.

        Args:
            fate_of: returns the fate of the worker that began a delivery.
            silence: the fate of the first delivery's worker, if nothing is known of that delivery.
                None: deliveries of which nothing is known are not counted. With Lambda they may
                never have reached a worker, as when the function is throttled.
            now: the time assigned to crashes that are found only now; aware.
            window: the age up to which a crash counts as recent.
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
            halted=sum(map(self._was_halted, self._earlier)),
            suspicions=sum(fate is Fate.OPEN for fate in fates.values()),
            found=found,
            unexplained=self._unexplained(fates, silence),
            last_failure=self._last_failure(),
            fatal_crash=self._fatal_crash(),
        )

    def _was_halted(self, number: int) -> bool:
        # Not by its start, which is written before it is certain that the handler is called.
        marks = self._marks[number]
        if Mark.FAILED in marks:
            return False
        return Mark.INTERRUPTED in marks or any("ran_s" in fact.data for fact in marks.values())

    def _starts(self) -> Iterable[UnendedStart]:
        for number in self._earlier:
            if self._marks[number].keys() == {Mark.STARTED}:
                data = self._marks[number][Mark.STARTED].data
                worker = str(data.get("worker") or "")
                yield UnendedStart(
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
        unmarked = 0 if silence is None else self._unmarked()
        lost = sum(fates[start.receive] is Fate.LIVED for start in self.starts)
        judged = self.is_silent and fates.get(1) in (Fate.DIED, Fate.OPEN)
        return unmarked + lost - judged

    def _unmarked(self) -> int:
        """Return the number of deliveries without a mark that no pause explains."""
        count, is_paused = 0, False
        for number in self._earlier:
            if marks := self._marks[number]:
                release = marks.get(Mark.RELEASED)
                is_paused = release is not None and release.data.get("paused") is True
            elif not is_paused or is_told(number):
                count, is_paused = count + 1, False
        return count

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
        return None  # written by a later version
