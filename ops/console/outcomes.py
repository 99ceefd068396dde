"""Outcomes of actions on many things at once, kept to be shown on a page of their own."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence

from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass

_MOST_KEPT = 50


@light_dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeLine:
    """The outcome for one of them."""

    of: str
    """Its name, such as a job's id."""
    text: str
    is_done: bool
    path: str = ""
    """A page of the console that shows more; empty if there is none."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcomes of one action."""

    title: str
    lines: Sequence[OutcomeLine]
    back: str
    """The path of the page that it was begun from."""

    @property
    def failed(self) -> int:
        """Number of things that it was not done to."""
        return sum(not each.is_done for each in self.lines)


class Outcomes:
    """The latest outcomes, by ids that can't be guessed. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Outcome] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, outcome: Outcome) -> str:
        """Keep an outcome; return the path of its page."""
        name = secrets.token_urlsafe(9)
        with self._lock:
            self._kept[name] = outcome
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return f"/outcomes/{name}"

    def get(self, name: str) -> Outcome | None:
        """Return the outcome of that id; None if it is not kept any more."""
        with self._lock:
            return self._kept.get(name)
