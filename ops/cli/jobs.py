"""``headgate jobs``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.ops.cli.dead_letters.options import Moment, Tenants, Types, moment
from headgate.ops.cli.shared import AsJson, client_of, examples, noun

if TYPE_CHECKING:
    from headgate.jobs.client.client import Client
    from headgate.jobs.client.handle import JobHandle
    from headgate.jobs.client.jobs.filters import JobFilter

_MOST_PAGES = 10
"""Pages that one list reads on, if few of the entries in them are what is wanted."""

ID = "0196a2b4-0000-7000-8000-000000000001"

APP = "headgate -A shop.app:app jobs"

jobs = noun(
    "List jobs, look one up, or cancel it.",
    examples(
        f"{APP} list --state dead --since 2h",
        f"{APP} count --since 1d",
        f"{APP} show {ID}",
        f"{APP} cancel {ID}",
    ),
)

JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id, as submit prints it.")]


States = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="NAME",
        help="Only in this state: retrying, dead, quarantined, cancelled, completed, discarded or "
        "dropped.",
    ),
]
Queues = Annotated[
    list[str] | None, typer.Option("--queue", metavar="NAME", help="Only of this queue.")
]
Since = Annotated[
    datetime | None,
    typer.Option(parser=moment, metavar="AGE|TIME", help="Only what changed since: 2h."),
]
Until = Annotated[
    datetime | None,
    typer.Option(parser=moment, metavar="AGE|TIME", help="Only what changed before: 10m."),
]


@jobs.command(
    "list",
    epilog=examples(
        f"{APP} list --state dead --type send-email --since 2h",
        f"{APP} list --tenant org-1 --limit 100 --json",
    ),
)
def list_jobs(
    context: typer.Context,
    states: States = None,
    types: Types = None,
    queues: Queues = None,
    tenants: Tenants = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="How many at most.")
    ] = 20,
    after: Annotated[
        str,
        typer.Option(
            metavar="PAGE", help="Go on where a list has ended, as it says.", show_default=False
        ),
    ] = "",
    json: AsJson = False,
) -> None:
    """List jobs that failed, died or were cancelled.

    Those that completed since are listed too, the newest change first. All completed jobs are
    listed where records="full" or Keep(last=...) has them so. Waiting jobs, and those in their
    first attempt, are in no list: `show` tells of one. Options that select can be given several
    times: --type a --type b means either. Exits with 3 if there are none.
    """
    from headgate.ops.views.job_list import show_page

    chosen = wanted(states, types, queues, tenants, since, until)
    with client_of(context) as client:
        page = client.jobs.list(chosen, limit=limit, after=after)
        found = [*page.jobs]
        for _ in range(_MOST_PAGES):
            if len(found) >= limit or not page.next:
                break
            page = client.jobs.list(chosen, limit=limit - len(found), after=page.next)
            found.extend(page.jobs)
    raise typer.Exit(show_page(found, page.next, datetime.now(UTC), as_json=json))


@jobs.command(epilog=examples(f"{APP} count --since 1d", f"{APP} count --state dead --json"))
def count(
    context: typer.Context,
    states: States = None,
    types: Types = None,
    queues: Queues = None,
    tenants: Tenants = None,
    since: Since = None,
    until: Until = None,
    json: AsJson = False,
) -> None:
    """Count jobs by type and state, of those that `list` lists.

    Reads up to 100,000 entries, the newest first, and says so if there are more. Exits with 3 if
    there are none.
    """
    from headgate.ops.views.job_list import show_counts

    chosen = wanted(states, types, queues, tenants, since, until)
    with client_of(context) as client:
        raise typer.Exit(show_counts(client.jobs.count(chosen), as_json=json))


@jobs.command(
    epilog=examples(
        f"{APP} show {ID}",
        f"{APP} show {ID} --tracebacks",
        f"{APP} show {ID} --json",
    )
)
def show(
    context: typer.Context,
    job_id: JobId,
    tracebacks: Annotated[
        bool, typer.Option("--tracebacks", help="Print the traceback of each attempt.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show a job's state, attempts, errors, progress and timeline.

    Exits with 0 if the job completed, was discarded or dropped, 3 if it is dead, quarantined or
    cancelled, 4 if it has not ended, and 5 if no job has the id.
    """
    from headgate.ops.views.job import show_record

    with client_of(context) as client:
        record = _handle(client, job_id).history()
    raise typer.Exit(show_record(record, tracebacks=tracebacks, as_json=json))


@jobs.command(epilog=examples(f"{APP} cancel {ID}", f"{APP} cancel {ID} --reason 'a mistake'"))
def cancel(
    context: typer.Context,
    job_id: JobId,
    reason: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Recorded with the job; up to 300 characters.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Request a job's cancellation.

    A waiting job then never starts, and a running one is interrupted: workers look for requests
    every few seconds. Exits with 1 if the job has ended already.
    """
    from headgate.ops.views.job import cancel

    with client_of(context) as client:
        raise typer.Exit(cancel(_handle(client, job_id), reason))


def wanted(
    states: Sequence[str] | None,
    types: Sequence[str] | None,
    queues: Sequence[str] | None,
    tenants: Sequence[str] | None,
    since: Moment | None,
    until: Moment | None,
) -> JobFilter:
    """Return the filter that a command's options describe."""
    from headgate.jobs.client.jobs.filters import JobFilter

    return JobFilter(
        states=tuple(states or ()),
        types=tuple(types or ()),
        queues=tuple(queues or ()),
        tenants=tuple(tenants or ()),
        since=since,
        until=until,
    )


def _handle(client: Client, job_id: str) -> JobHandle[Any]:
    try:
        return client.handle(job_id)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
