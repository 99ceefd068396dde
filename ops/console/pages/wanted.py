"""The filter of a list, as it stands in an address or a form."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import urlencode

from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.console.forms import Fields, age_or_time

TIMES = ("since", "until")
"""Fields of every list: an age such as ``2h``, or a time such as ``2026-11-01T12:00Z``."""

_LONGEST_TIME = 40


@light_dataclass(frozen=True, slots=True)
class Wanted:
    """The things that somebody wants to see: by all fields that are given, by any value of each."""

    given: tuple[tuple[str, str], ...] = ()
    """The fields with their values; one that has several stands there several times."""

    @classmethod
    def of(cls, fields: Fields, names: Sequence[str], *, most: int) -> Wanted:
        """Read a filter from a query or a form.

        Args:
            fields: the query or form.
            names: the fields that may have several values; times come besides.
            most: the most characters of a value.

        Raises:
            HTTPException: a value is too long, or a time is given twice.
        """
        texts = [(name, each) for name in names for each in fields.texts(name, most=most)]
        times = [(name, fields.text(name, most=_LONGEST_TIME)) for name in TIMES]
        return cls((*texts, *((name, text) for name, text in times if text)))

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of a field."""
        return tuple(value for each, value in self.given if each == name)

    def text(self, name: str) -> str:
        """Return the value of a field that has one; empty if it isn't given."""
        return next(iter(self.values(name)), "")

    def time(self, name: str) -> datetime | timedelta | None:
        """Return one of `TIMES`; None if it isn't given.

        Raises:
            HTTPException: it can't be read.
        """
        return age_or_time(name, self.text(name))

    def having(self, name: str, *values: str) -> Wanted:
        """Return the same filter with other values of one field."""
        others = [(each, value) for each, value in self.given if each != name]
        return Wanted((*others, *((name, value) for value in values)))

    def query(self, **more: str) -> str:
        """Return the query of an address that has this filter, with ``?``, or an empty text."""
        pairs = [*self.given, *((name, value) for name, value in more.items() if value)]
        return f"?{urlencode(pairs)}" if pairs else ""
