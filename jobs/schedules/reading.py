"""Many schedules read at once: what is still to be asked, and what the answers come to.

EventBridge Scheduler says of one schedule at a time what it submits, so a list of a thousand takes
a thousand requests. They are made in rounds, a few at a time; what is throttled is asked for again
in the next. `jobs.client.schedules` asks.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from headgate.jobs.core.batching import TRIES, pause_s
from headgate.jobs.core.ports import ScheduleSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import MessageUnreadable, Throttled
from headgate.jobs.schedules.registry import (
    ScheduleInfo,
    UnreadableSchedule,
    all_names,
    read_listed,
)

AT_ONCE = 16
"""Requests under way together."""

Answer = ScheduleSpec | None | MessageUnreadable | Throttled
"""One schedule, None if it is gone, or the reason why it can't be read. Other errors would meet all
of them: whoever asks raises these."""


class Reading:
    """The rounds in which an app's schedules are read.

    Args:
        app: whose.
        found: the names on AWS of those made at run time.
        rng: spreads the pauses.
    """

    def __init__(self, app: App, found: list[str], rng: random.Random) -> None:
        self.left = all_names(app, found)
        """The names on AWS of those to ask for next; none at the end."""
        self._app = app
        self._rng = rng
        self._answers: dict[str, Answer] = {}
        self._fruitless = 0
        """Rounds in a row that were throttled as a whole."""

    def note(self, answers: Iterable[Answer]) -> float:
        """Take the answers for what was `left`, in its order; returns the seconds to wait now.

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

    def listed(self) -> Sequence[ScheduleInfo | UnreadableSchedule]:
        """All that there are, by name."""
        return sorted(
            (
                read_listed(self._app, name, answer)
                for name, answer in self._answers.items()
                if answer is not None
            ),
            key=lambda each: each.name,
        )
