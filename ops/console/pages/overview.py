"""``/``: the state of the whole system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.jobs.client.jobs.desk import JobCounts
from headgate.jobs.client.jobs.filters import JobFilter
from headgate.jobs.client.jobs.pages import JobPage
from headgate.jobs.client.overview.queue_metrics import Minutes, QueuePast
from headgate.jobs.client.overview.queues import QueueList, QueueStatus
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.records.state import JobState
from headgate.jobs.schedules.registry import ScheduleInfo, UnreadableSchedule
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.console.context import Console
from headgate.ops.console.figures.charts import Curve
from headgate.ops.console.figures.past import past_curve
from headgate.ops.console.lanes import groups, lanes, total
from headgate.ops.console.pages.month import month, month_so_far
from headgate.ops.console.reader import Seen
from headgate.ops.console.rendering import console_of, render

_COUNTED = timedelta(days=1)
_MOST_COUNTED = 10_000
_COUNTS_FRESH_S = 60.0
_MOST_DEAD = 50
"""The latest dead jobs, of which the reasons are counted: each is read."""

_MOST_UPCOMING = 6
_NOTHING: Mapping[str, Any] = {
    "health": None,
    "lanes": {},
    "totals": {},
    "month": None,
    "so_far": None,
}
_TROUBLE = (JobState.DEAD, JobState.QUARANTINED, JobState.RETRYING, JobState.CANCELLED)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart with its title."""

    title: str
    unit: str
    """Empty for a length of time in seconds."""
    curve: Curve
    source: str
    """The origin of its values, and so of their times."""


def overview(request: Request) -> Response:
    """Show the verdict, the lanes and the workers."""
    console = console_of(request)
    _begin(console)
    seen = console.queues()
    counts, dead = _counts(console, wait_first=True), _dead_jobs(console, wait_first=True)
    schedules = console.schedules()
    values: Mapping[str, Any] = {} if seen.value is None else _of(console, seen.value)
    return render(
        request,
        "overview.html",
        title="Overview",
        active="/",
        every_s=5,
        seen=seen,
        counts=counts,
        troubles=() if counts.value is None else troubles(counts.value),
        dead=dead,
        reasons=() if dead.value is None else reasons(dead.value),
        charts=charts(console, seen.value),
        schedules=schedules,
        upcoming=upcoming(schedules.value or (), console.clock.now()),
        **{**_NOTHING, **values},
    )


def _begin(console: Console) -> None:
    """Have all be read at once that the page waits for, at the first look."""
    _counts(console, wait_first=False)
    _dead_jobs(console, wait_first=False)
    console.begin_schedules()


def _counts(console: Console, *, wait_first: bool) -> Seen[JobCounts]:
    return console.reader.read_behind(
        "counts", lambda: _count(console), fresh_s=_COUNTS_FRESH_S, wait_first=wait_first
    )


def _dead_jobs(console: Console, *, wait_first: bool) -> Seen[JobPage]:
    return console.reader.read_behind(
        "dead jobs", lambda: _dead(console), fresh_s=_COUNTS_FRESH_S, wait_first=wait_first
    )


def upcoming(
    found: Sequence[ScheduleInfo | UnreadableSchedule], now: datetime
) -> Sequence[tuple[ScheduleInfo, datetime]]:
    """Return the schedules that run next, with their times."""
    times: list[tuple[ScheduleInfo, datetime]] = []
    for each in found:
        if isinstance(each, ScheduleInfo) and each.enabled:
            times += ((each, at) for at in _next(each, now))
    return sorted(times, key=lambda pair: pair[1])[:_MOST_UPCOMING]


def _next(schedule: ScheduleInfo, now: datetime) -> Sequence[datetime]:
    try:
        return schedule.next_times(1, now)
    except SettingsInvalid:  # an expression that only AWS can read
        return ()


def _of(console: Console, found: QueueList) -> Mapping[str, Any]:
    health = console.health(found)
    workers = found.workers or ()
    return {
        "health": health,
        "month": month(console, found),
        "so_far": month_so_far(console),
        "lanes": groups(lanes(console.app, found, health)),
        "totals": {
            **{name: total(found, name) for name in ("waiting", "in_flight", "delayed", "dead")},
            "quarantined": found.quarantined,
            "workers": None if found.workers is None else len(workers),
            "busy": sum(each.busy for each in workers),
            "slots": sum(each.slots for each in workers),
        },
    }


def _count(console: Console) -> JobCounts:
    wanted = JobFilter(states=tuple(_TROUBLE), since=_COUNTED)
    return console.client.jobs.count(wanted, most=_MOST_COUNTED)


def _dead(console: Console) -> JobPage:
    wanted = JobFilter(states=(JobState.DEAD, JobState.QUARANTINED), since=_COUNTED)
    return console.client.jobs.list(wanted, limit=_MOST_DEAD)


def reasons(found: JobPage) -> Sequence[tuple[tuple[str, str], int]]:
    """Return the reasons and errors of dead jobs with their counts, the most frequent first."""
    return Counter((each.reason, each.error_type) for each in found.jobs).most_common()


def troubles(counts: JobCounts) -> Sequence[tuple[str, Mapping[JobState, int]]]:
    """Return the counts of jobs in trouble by type, those with the most dead first."""
    found: dict[str, dict[JobState, int]] = {}
    for each in counts.counts:
        found.setdefault(each.type, {})[each.state] = each.count
    return sorted(found.items(), key=lambda item: (-item[1].get(JobState.DEAD, 0), item[0]))


def charts(console: Console, found: QueueList | None, group: str | None = None) -> Sequence[Chart]:
    """Return the charts of all queues, or of one queue group.

    Some are of the last hour, from CloudWatch; and some, from the second look on, of what this
    console has read since its start. Failed attempts are of the latter where CloudWatch has none.
    """
    queues = [each for each in found.queues if group in (None, each.queue)] if found else []
    hour = [
        Chart(title=title, unit=unit, curve=curve, source="The last hour, as CloudWatch has it")
        for title, unit, minutes, over in _PAST
        if (curve := past_curve(queues, minutes, over)) is not None
    ]
    if all(each.title != _FAILED for each in hour) and (
        (failed := console.samples.failed_attempts(group)) is not None
    ):
        told = "As workers counted them while this console looked"
        hour.append(Chart(title=_FAILED, unit="/min", curve=failed, source=told))
    seen = (
        Chart(title=title, unit=unit, curve=curve, source="As far as this console has looked")
        for title, unit, value in _SEEN
        if (curve := console.samples.chart(value, group)) is not None
    )
    return [*hour, *seen]


def _waiting(queue: QueueStatus) -> float | None:
    return queue.waiting


def _in_flight(queue: QueueStatus) -> float | None:
    return queue.in_flight


def _dead_letters(queue: QueueStatus) -> float | None:
    return queue.dead


_FAILED = "Failed attempts"

_PAST: Sequence[
    tuple[str, str, Callable[[QueuePast], Minutes], Callable[[Iterable[float]], float]]
] = (
    ("Submitted", "/min", lambda past: past.sent, sum),
    ("Finished", "/min", lambda past: past.deleted, sum),
    (_FAILED, "/min", lambda past: past.failed, sum),
    ("Oldest", "", lambda past: past.oldest_s, max),
)

_SEEN: Sequence[tuple[str, str, Callable[[QueueStatus], float | None]]] = (
    ("Waiting", "jobs", _waiting),
    ("In flight", "jobs", _in_flight),
    ("Dead", "letters", _dead_letters),
)

ROUTES = [Route("/", overview)]
