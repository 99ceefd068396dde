"""The filter of dead letters, as it stands in the address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlencode

from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.ops.console.forms import Fields, age_or_time

_LONGEST = 300
_NAMES: Mapping[str, str] = {
    "id": "ids",
    "type": "types",
    "reason": "reasons",
    "error": "errors",
    "queue": "queues",
    "tenant": "tenants",
}
_TIMES = ("since", "until")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedLetters:
    """The dead letters that somebody wants to see: by all of the fields that are given."""

    ids: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    since: str = ""
    """An age such as ``2h``, or a time such as ``2026-11-01T12:00Z``; empty is any."""
    until: str = ""

    @classmethod
    def of(cls, fields: Fields) -> WantedLetters:
        """Read the filter from a query or a form."""
        texts = {name: fields.texts(key, most=_LONGEST) for key, name in _NAMES.items()}
        return cls(
            **texts, since=fields.text("since", most=40), until=fields.text("until", most=40)
        )

    def filter(self) -> DeadLetterFilter:
        """Return the library's filter.

        Raises:
            HTTPException: an age or a time can't be read.
            ConfigurationError: nothing can be as young and as old.
        """
        return DeadLetterFilter(
            ids=self.ids,
            types=self.types,
            reasons=self.reasons,
            errors=self.errors,
            queues=self.queues,
            tenants=self.tenants,
            since=age_or_time("since", self.since),
            until=age_or_time("until", self.until),
        )

    def fields(self) -> Sequence[tuple[str, str]]:
        """Return the fields of a form that hold this filter."""
        values = asdict(self)
        lists = [(key, each) for key, name in _NAMES.items() for each in values[name]]
        return [*lists, *((name, values[name]) for name in _TIMES if values[name])]

    def query(self, **more: str) -> str:
        """Return the query of an address that has this filter, with ``?``, or an empty text."""
        pairs = [*self.fields(), *((name, value) for name, value in more.items() if value)]
        return f"?{urlencode(pairs)}" if pairs else ""

    def until_at_most(self, at: datetime) -> WantedLetters:
        """Return the same filter without what dies after a time, unless it has an end already."""
        return self if self.until else replace(self, until=at.isoformat())

    def narrowed(self, group: Mapping[str, str | None]) -> WantedLetters | None:
        """Return the same filter for one group's letters; None if no filter selects these.

        Args:
            group: what the letters have in common, as `LetterCount.group`.
        """
        if None in group.values():
            return None
        more: dict[str, str | tuple[str, ...]] = {}
        for name, value in group.items():
            if name != "hour":
                more[_NAMES[name]] = (str(value),)
                continue
            begin = datetime.fromisoformat(str(value))
            more["since"] = begin.isoformat()
            more["until"] = (begin + timedelta(hours=1)).isoformat()
        return WantedLetters(**{**asdict(self), **more})
