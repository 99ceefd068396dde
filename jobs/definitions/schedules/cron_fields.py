"""The fields of EventBridge's cron expressions: the numbers that each text stands for.

https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html#cron-based
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import chain

from headgate.jobs.values.light_dataclass import light_dataclass

LAST_YEAR = 2199
"""The last year that a cron expression may name."""

FIRST_YEAR = 1970
"""The first year that a cron expression may name."""


@light_dataclass(frozen=True, slots=True)
class CronField:
    """One of the six fields, whose text is a list of numbers, ranges and steps."""

    name: str
    numbers: range
    names: Mapping[str, int] = field(default_factory=dict)
    """Names that may be used for numbers."""
    wraps: bool = True
    """True if a range may wrap around the end, as FRI-MON does."""

    def read(self, text: str) -> frozenset[int]:
        """Return the numbers of a text: ``*``, ``5``, ``1-5``, ``MON-FRI``, ``0/15``, or a list.

        Raises:
            ValueError: it can't be read, or names a number or name that doesn't exist.
        """
        return frozenset(chain.from_iterable(map(self._read_part, text.upper().split(","))))

    def number(self, text: str) -> int:
        """Read one number, or its name.

        Raises:
            ValueError: it is neither.
        """
        if text in self.names:
            return self.names[text]
        number = int(text) if _NUMBER.fullmatch(text) else None
        if number is None or number not in self.numbers:
            raise ValueError(f"{text!r} is not in {self._known}")
        return number

    @property
    def _known(self) -> str:
        numbers = f"{self.numbers[0]} to {self.numbers[-1]}"
        return f"{numbers}, nor in {', '.join(self.names)}" if self.names else numbers

    def _read_part(self, part: str) -> Iterator[int]:
        if (found := _PART.fullmatch(part)) is None:
            raise ValueError(f"{part!r} is neither a number nor a range, such as 1-5, */2 or 0/15")
        first, last, step = found.groups()
        start = self.numbers[0] if first is None else self.number(first)
        if last is not None:
            end = self.number(last)
        else:
            end = start if first is not None and step is None else self.numbers[-1]
        if end < start and not self.wraps:
            raise ValueError(f"the range {part!r} ends before it starts")
        wrapped = len(self.numbers) if end < start else 0
        for number in range(start, end + wrapped + 1, self._step(step)):
            yield (number - self.numbers[0]) % len(self.numbers) + self.numbers[0]

    def _step(self, text: str | None) -> int:
        if text is None:
            return 1
        if not 1 <= (step := int(text)) <= self.numbers[-1]:
            raise ValueError(f"the step {text} is not in 1 to {self.numbers[-1]}")
        return step


_NUMBER = re.compile(r"[0-9]{1,4}")
_PART = re.compile(r"(?:\*|([0-9A-Z]+)(?:-([0-9A-Z]+))?)(?:/([0-9]{1,4}))?")

MINUTE = CronField("minute", range(60))
HOUR = CronField("hour", range(24))
DAY = CronField("day of month", range(1, 32))
MONTH = CronField(
    "month",
    range(1, 13),
    {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name},
)
WEEKDAY = CronField(
    "day of week",
    range(1, 8),
    {"SUN": 1, "MON": 2, "TUE": 3, "WED": 4, "THU": 5, "FRI": 6, "SAT": 7},
)
NTH = CronField("weekday's place in its month", range(1, 6))
YEAR = CronField("year", range(FIRST_YEAR, LAST_YEAR + 1), wraps=False)

FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY, YEAR)
