"""The one reader of AWS that all pages and all who look share.

However many people look, each thing is asked for once in a while, by one of them; the others get
what it found, with its age. What takes long is asked in the background, while everybody gets the
answer before. Nobody waits for longer than `PATIENCE_S`: AWS that is away may take minutes to be
given up, and what it answers by then comes with the next look.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from headgate.jobs.core.clock import Clock
from headgate.jobs.errors import RecordsOff, SettingsInvalid, TransportError
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import text_of

_MOST_KEPT = 100
"""Number of things that are kept, the ones last looked at."""

_AT_ONCE = 8
"""Number of things that are asked for at a time."""

PATIENCE_S = 4.0
"""Maximum seconds that somebody waits for an answer."""

_MOST_BEGUN = 64
"""Maximum number of questions under way and waiting for their turn, each of which has a thread."""

_BUSY = "So much is asked for at once that this was not: look again."

_IN_USE_S = 60.0
"""Seconds for which a question counts as looked at."""

_FAULT = "The console has a fault; its log has the traceback."

_log = OwnLog("headgate.console")

T = TypeVar("T")


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Generic[T]):
    """The last answer to a question, which may be old."""

    value: T | None = None
    """The answer; None if none has ever come."""
    at: datetime | None = None
    """The time of the answer; aware."""
    fault: str = ""
    """The reason for which the last attempt to ask failed; empty if it did not."""
    renewing: bool = False
    """True while an answer, or a newer one, is on its way, for which nobody waits."""

    def age_s(self, now: datetime) -> float:
        """Return the seconds since the answer; 0 without one."""
        return 0.0 if self.at is None else max(0.0, (now - self.at).total_seconds())


_NOTHING: Seen[Any] = Seen()


@dataclass(slots=True)
class _Place:
    """One question: its last answer, and the lock of whoever asks it."""

    seen: Seen[Any] = _NOTHING
    asked_at: float | None = None
    looked_at: float = 0.0
    began_at: float = field(default_factory=time.monotonic)
    """The time at which the question that is under way was asked, on the machine's clock."""
    asking: threading.Lock = field(default_factory=threading.Lock)


class SharedReader:
    """Asks each question at most once in a given time. Thread-safe.

    Args:
        clock: tells the age of answers.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places: OrderedDict[Hashable, _Place] = OrderedDict()
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._begun = threading.BoundedSemaphore(_MOST_BEGUN)

    def read(self, key: Hashable, ask: Callable[[], T], *, fresh_s: float) -> Seen[T]:
        """Return the answer to a question.

        While one thread asks, others get the answer before, if there is one, and wait otherwise;
        after `PATIENCE_S` they get none, which is on its way then.

        Args:
            key: names the question.
            ask: asks it. If AWS doesn't answer, or the app keeps no records of it, that is kept as
                the answer's fault, and serves as long as an answer would.
            fresh_s: the seconds for which an answer serves.
        """
        place = self._place(key)
        while not self._is_fresh(place, fresh_s):
            if place.asking.acquire(blocking=False):
                if not self._is_fresh(place, fresh_s):
                    return self._asked(place, ask)
                place.asking.release()
            elif place.asked_at is not None:
                return place.seen
            elif not place.asking.acquire(timeout=_left_s(place)):
                return replace(place.seen, renewing=True)
            else:
                place.asking.release()
        return place.seen

    def read_behind(
        self, key: Hashable, ask: Callable[[], T], *, fresh_s: float, wait_first: bool
    ) -> Seen[T]:
        """Return the last answer at once, however old, and ask anew in the background.

        Args:
            key: names the question.
            ask: see `read`.
            fresh_s: see `read`.
            wait_first: wait where there is no answer yet, rather than return none.
        """
        place = self._place(key)
        if self._is_fresh(place, fresh_s):
            return place.seen
        if wait_first and place.asked_at is None:
            return self.read(key, ask, fresh_s=fresh_s)
        if place.asking.acquire(blocking=False):
            if self._is_fresh(place, fresh_s):
                place.asking.release()
            else:
                place.began_at = time.monotonic()
                in_thread(lambda: self._ask_behind(place, ask), "headgate-console-look")
        return replace(place.seen, renewing=place.asking.locked())

    def in_use(self, kind: str) -> int:
        """Return the number of questions of a kind that somebody looked at within a minute.

        Those are of a kind whose keys are tuples that begin with its name.
        """
        since = self._clock.monotonic() - _IN_USE_S
        with self._lock:
            return sum(
                isinstance(key, tuple) and key[:1] == (kind,) and place.looked_at >= since
                for key, place in self._places.items()
            )

    def peek(self, key: Hashable) -> Seen[Any]:
        """Return the last answer to a question without asking."""
        with self._lock:
            place = self._places.get(key)
        return _NOTHING if place is None else place.seen

    def forget(self, *keys: Hashable) -> None:
        """Have questions asked anew by whoever looks next, since something was changed."""
        with self._lock:
            for key in keys:
                self._places.pop(key, None)

    def _place(self, key: Hashable) -> _Place:
        with self._lock:
            place = self._places.setdefault(key, _Place())
            self._places.move_to_end(key)
            place.looked_at = self._clock.monotonic()
            while len(self._places) > _MOST_KEPT:
                self._places.popitem(last=False)
        return place

    def _is_fresh(self, place: _Place, fresh_s: float) -> bool:
        return place.asked_at is not None and self._clock.monotonic() - place.asked_at < fresh_s

    def _asked(self, place: _Place, ask: Callable[[], Any]) -> Seen[Any]:
        """Ask in a thread of its own, and wait for the answer as long as anybody waits."""
        if not self._begun.acquire(blocking=False):
            place.asking.release()
            return replace(place.seen, fault=_BUSY)
        place.began_at = time.monotonic()
        ended: Future[None] = Future()
        _begin(lambda: self._ask_for(place, ask, ended), "headgate-console-ask")
        try:
            ended.result(_left_s(place))
        except TimeoutError:
            if not ended.cancel():  # it has ended just now, or with such an error
                ended.result()
            return replace(place.seen, renewing=place.asking.locked())
        return place.seen

    def _ask_for(self, place: _Place, ask: Callable[[], Any], ended: Future[None]) -> None:
        """Ask for somebody who waits, unless they have given up by the end."""
        error: Exception | None = None
        try:
            self._ask(place, ask)
        except Exception as raised:  # noqa: BLE001 - raised where somebody waits, or told
            error = raised
        waits = ended.set_running_or_notify_cancel()
        if error is not None and not waits:
            _tell(place, error, self._clock.monotonic())
        place.asking.release()
        self._begun.release()
        if waits and error is not None:
            ended.set_exception(error)
        elif waits:
            ended.set_result(None)

    def _ask(self, place: _Place, ask: Callable[[], Any]) -> None:
        try:
            with self._slots:
                found = ask()
        except (RecordsOff, SettingsInvalid, TransportError) as error:
            place.seen = replace(place.seen, fault=text_of(error))
        else:
            place.seen = Seen(value=found, at=self._clock.now())
        place.asked_at = self._clock.monotonic()

    def _ask_behind(self, place: _Place, ask: Callable[[], Any]) -> None:
        try:
            self._ask(place, ask)
        except Exception as error:  # noqa: BLE001 - told on the page, as nobody waits for it
            _tell(place, error, self._clock.monotonic())
        finally:
            place.asking.release()


def in_thread(run: Callable[[], None], name: str) -> None:
    """Begin something that goes on in a thread of its own, until the process ends."""
    _begin(run, name)


def _begin(run: Callable[[], None], name: str) -> None:
    threading.Thread(target=run, name=name, daemon=True).start()


def _left_s(place: _Place) -> float:
    """Return the seconds for which somebody still waits for what was asked."""
    return max(0.0, place.began_at + PATIENCE_S - time.monotonic())


def _tell(place: _Place, error: Exception, now: float) -> None:
    """Have the page tell of a fault of ours, since nobody waits for it."""
    _log.error("a look in the background failed", exc_info=error)
    place.seen = replace(place.seen, fault=_FAULT)
    place.asked_at = now
