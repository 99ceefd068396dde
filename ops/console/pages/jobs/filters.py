"""The filter of the list of jobs, as it stands in the address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from urllib.parse import urlencode
from uuid import UUID

from headgate.jobs.client.jobs.filters import LISTED, JobFilter
from headgate.jobs.definitions.app import App
from headgate.ops.console.forms import Fields, age_or_time, refuse

_LONGEST_NAME = 128
_NAMES: Mapping[str, str] = {
    "state": "states",
    "type": "types",
    "queue": "queues",
    "tenant": "tenants",
}
_TIMES = ("since", "until")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedJobs:
    """The jobs that somebody wants to see: by all of the fields that are given."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    since: str = ""
    """An age such as ``2h``, or a time such as ``2026-11-01T12:00Z``; empty is any."""
    until: str = ""

    @classmethod
    def of(cls, fields: Fields) -> WantedJobs:
        """Read the filter from a query or a form."""
        texts = {name: fields.texts(key, most=_LONGEST_NAME) for key, name in _NAMES.items()}
        return cls(
            **texts, since=fields.text("since", most=40), until=fields.text("until", most=40)
        )

    def filter(self) -> JobFilter:
        """Return the library's filter.

        Raises:
            HTTPException: an age or a time can't be read.
            ConfigurationError: there is no such state, or nothing can be as young and as old.
        """
        return JobFilter(
            states=self.states,
            types=self.types,
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

    def in_state(self, *states: str) -> WantedJobs:
        """Return the same filter for jobs in other states."""
        return replace(self, states=states)


def path_found(app: App, text: str) -> str:
    """Return the path that a search leads to: a job's page for its id, or a filtered list.

    Words such as ``state:dead type:send-email since:2h`` filter; so does the bare name of a state,
    a type or a queue.

    Raises:
        HTTPException: a word is none of these.
    """
    words = text.split()
    if len(words) == 1 and _is_id(words[0]):
        return f"/jobs/{words[0].lower()}"
    pairs = [_pair(app, word) for word in words]
    return f"/jobs?{urlencode(pairs)}" if pairs else "/jobs"


def _is_id(word: str) -> bool:
    try:
        UUID(word)
    except ValueError:
        return False
    return True


def _pair(app: App, word: str) -> tuple[str, str]:
    name, colon, value = word.partition(":")
    if colon and value and name in (*_NAMES, *_TIMES):
        return name, value
    kinds = (("state", LISTED), ("type", app.types), ("queue", app.queues))
    if (key := next((kind for kind, known in kinds if word in known), None)) is None:
        refuse(
            f"{word!r} is no job's id, state, type or queue. Write an id, or words such as "
            "state:dead, type:send-email, queue:payments, tenant:org-1, since:2h or until:10m."
        )
    return key, word
