"""The filter of the list of jobs, as it stands in the address."""

from __future__ import annotations

from urllib.parse import urlencode
from uuid import UUID

from headgate.jobs.client.jobs.filters import LISTED, JobFilter
from headgate.jobs.definitions.app import App
from headgate.ops.console.forms import Fields, refuse
from headgate.ops.console.pages.wanted import TIMES, Wanted

_NAMES = ("state", "type", "queue", "tenant")
_LONGEST_NAME = 128


def wanted_jobs(fields: Fields) -> Wanted:
    """Read the filter from a query or a form; raises as `Wanted.of`."""
    return Wanted.of(fields, _NAMES, most=_LONGEST_NAME)


def job_filter(wanted: Wanted) -> JobFilter:
    """Return the library's filter.

    Raises:
        HTTPException: an age or a time can't be read.
        ConfigurationError: there is no such state, or nothing can be as young and as old.
    """
    return JobFilter(
        states=wanted.values("state"),
        types=wanted.values("type"),
        queues=wanted.values("queue"),
        tenants=wanted.values("tenant"),
        since=wanted.time("since"),
        until=wanted.time("until"),
    )


def path_found(app: App, text: str) -> str:
    """Return the path that a search leads to: a job's page for its id, or a filtered list.

    Words such as ``state:dead type:send-email since:2h`` filter; so does the bare name of a state,
    a type or a queue.

    Raises:
        HTTPException: a word is not one of these.
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
    if colon and value and name in (*_NAMES, *TIMES):
        return name, value
    kinds = (("state", LISTED), ("type", app.types), ("queue", app.queues))
    if (key := next((kind for kind, known in kinds if word in known), None)) is None:
        refuse(
            f"{word!r} is no job's id, state, type or queue. Write an id, or words such as "
            "state:dead, type:send-email, queue:payments, tenant:org-1, since:2h or until:10m."
        )
    return key, word
