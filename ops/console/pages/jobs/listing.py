"""``/jobs``: the jobs that the records list, by a filter that is all in the address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headgate.jobs.client.jobs.desk import JobCounts
from headgate.jobs.client.jobs.filters import JobFilter
from headgate.jobs.client.jobs.pages import JobPage
from headgate.jobs.records.lists.entries import lists_of
from headgate.jobs.records.state import JobState
from headgate.ops.console.context import Console
from headgate.ops.console.forms import query_of
from headgate.ops.console.pages.jobs.filters import job_filter, path_found, wanted_jobs
from headgate.ops.console.reader import Seen
from headgate.ops.console.rendering import base_of, console_of, render

STATES = (
    *(JobState.RUNNING, JobState.RETRYING, JobState.DEAD, JobState.QUARANTINED),
    *(JobState.CANCELLED, JobState.COMPLETED, JobState.DISCARDED, JobState.DROPPED),
)
"""The states that have lists."""

UNCOUNTED = (JobState.RUNNING,)
"""Those whose lists keep jobs that have ended since, so that counting them says nothing."""

AGES = ("15m", "1h", "6h", "1d", "7d", "30d")

_LIMIT = 50
_MOST_ENTRIES = 10_000
"""Entries that a page reads past: few of a list's may be of the queue or tenant."""

_MOST_COUNTED = 5_000
_FRESH_S, _COUNTS_FRESH_S = 5.0, 30.0
_REQUESTS_PER_MINUTE, _COUNTS_REQUESTS_PER_MINUTE = 3_000, 600
"""Requests that the console sends at most for pages of jobs that are looked at, and for counts."""

_EVERY_S, _SOON_S = 5, 1
"""Seconds after which a page looks again, and those until its first counts are there."""

_JOBS, _COUNTS = "jobs", "job counts"


def jobs(request: Request) -> Response:
    """List jobs, or go where a search leads."""
    console, query = console_of(request), query_of(request)
    if search := query.text("q"):
        path = path_found(console.app, search)
        return RedirectResponse(f"{base_of(request)}{path}", status_code=303)
    wanted, after = wanted_jobs(query), query.text("after")
    chosen, of_any_state = job_filter(wanted), wanted.having("state")
    seen = _listed(console, (_JOBS, wanted, after), chosen, after)
    counts = _counted(console, (_COUNTS, of_any_state), job_filter(of_any_state))
    return render(
        request,
        "jobs.html",
        title="Jobs",
        active="/jobs",
        every_s=_EVERY_S if counts.value or not counts.renewing else _SOON_S,
        seen=seen,
        counts=counts,
        most_counted=_MOST_COUNTED,
        by_state=_by_state(counts.value),
        wanted=wanted,
        after=after,
        states=STATES,
        uncounted=UNCOUNTED,
        ages=AGES,
    )


def _listed(
    console: Console, key: tuple[Hashable, ...], chosen: JobFilter, after: str
) -> Seen[JobPage]:
    """Read a page of jobs, the less often the more requests it takes and the more are in use."""
    requests = _lists(console, chosen) + 2 * _LIMIT
    return console.reader.read(
        key,
        lambda: console.client.jobs.list(chosen, limit=_LIMIT, after=after, most=_MOST_ENTRIES),
        fresh_s=_pace_s(console, _JOBS, requests, _FRESH_S, _REQUESTS_PER_MINUTE),
    )


def _counted(console: Console, key: tuple[Hashable, ...], chosen: JobFilter) -> Seen[JobCounts]:
    """Return the counts, for which no page waits: they take longer than its jobs."""
    requests = 2 * _lists(console, chosen)
    return console.reader.read_behind(
        key,
        lambda: console.client.jobs.count(chosen, most=_MOST_COUNTED),
        fresh_s=_pace_s(console, _COUNTS, requests, _COUNTS_FRESH_S, _COUNTS_REQUESTS_PER_MINUTE),
        wait_first=False,
    )


def _lists(console: Console, chosen: JobFilter) -> int:
    """Return the number of lists to read: a query for each, however long they are."""
    states = [JobState(each) for each in chosen.states]
    return len(lists_of(chosen.types or console.app.types, states))


def _pace_s(console: Console, kind: str, requests: int, least_s: float, per_minute: int) -> float:
    """Return the seconds for which an answer serves, so that all of its kind stay in a bound."""
    in_use = max(1, console.reader.in_use(kind))
    return max(least_s, requests * in_use * 60 / per_minute)


def _by_state(counts: JobCounts | None) -> Counter[JobState]:
    found: Counter[JobState] = Counter()
    for each in [] if counts is None else counts.counts:
        found[each.state] += each.count
    return found


def ids_in_words(ids: Sequence[str]) -> str:
    """Return jobs' ids for a log, cut short if there are many."""
    more = f" and {len(ids) - 20:,} more" if len(ids) > 20 else ""
    return ", ".join(ids[:20]) + more


ROUTES = [Route("/jobs", jobs)]
