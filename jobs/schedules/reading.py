"""Reading many schedules: the requests still to be made, and the list that the answers make up.

EventBridge Scheduler returns the input of one schedule at a time, so a list of a thousand takes a
thousand requests. They are made in rounds, a few at a time; those throttled are repeated in the
next round. `jobs.client.schedules` makes the requests.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from headgate.jobs.core.batching import TRIES, pause_s
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import HeadgateError, MessageUnreadable, Throttled
from headgate.jobs.schedules.registry import (
    ScheduleInfo,
    UnreadableSchedule,
    all_names,
    read_listed,
)

AT_ONCE = 16
"""Maximum number of requests under way."""

Answer = ScheduleSpec | None | MessageUnreadable | Throttled
"""One schedule, None if it is gone, or the reason why it can't be read. Other errors would affect
all of them: the caller raises those."""


class Reading:
    """The rounds in which an app's schedules are read.

    Args:
        app: the app whose schedules they are.
        found: the names on AWS of those made at run time.
        rng: spreads the pauses.
    """

    def __init__(self, app: App, found: list[str], rng: random.Random) -> None:
        self.left = all_names(app, found)
        """The names on AWS of the schedules to ask for next; empty at the end."""
        self._app = app
        self._rng = rng
        self._answers: dict[str, Answer] = {}
        self._fruitless = 0
        """Number of successive rounds that were throttled as a whole."""

    def note(self, answers: Iterable[Answer]) -> float:
        """Take the answers for the names in `left`, in order; return the seconds to wait now.

        Raises:
            Throttled: AWS lets none of them be read.
        """
        round_ = dict(zip(self.left, answers, strict=True))
        throttled = {name: said for name, said in round_.items() if isinstance(said, Throttled)}
        self._answers |= round_
        self._fruitless = self._fruitless + 1 if len(throttled) == len(round_) else 0
        if self._fruitless < TRIES:
            self.left = list(throttled)
            return pause_s(self._fruitless + 1, self._rng) if throttled else 0.0
        if len(throttled) == len(self._answers):
            raise throttled[self.left[0]]
        self.left = []
        return 0.0

    def specs(self) -> tuple[list[ScheduleSpec], list[str]]:
        """Return all schedules as they are stored, and the names of those that can't be read."""
        found, faults = [], []
        for name, answer in self._answers.items():
            if answer is None:
                continue
            if isinstance(answer, HeadgateError) or not _is_readable(self._app, answer):
                faults.append(name)
            else:
                found.append(answer)
        return found, faults

    def listed(self) -> Sequence[ScheduleInfo | UnreadableSchedule]:
        """Return all schedules, sorted by name."""
        return sorted(
            (
                read_listed(self._app, name, answer)
                for name, answer in self._answers.items()
                if answer is not None
            ),
            key=lambda each: each.name,
        )


def _is_readable(app: App, spec: ScheduleSpec) -> bool:
    return isinstance(read_listed(app, spec.name, spec), ScheduleInfo)
