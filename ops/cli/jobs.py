"""``headgate jobs``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic_core import from_json

from headgate.ops.cli.shared import (
    After,
    AsJson,
    Moment,
    PageLimit,
    Tenants,
    Types,
    Yes,
    app_of,
    client_of,
    examples,
    moment,
    noun,
    tell_unknown_names,
)

if TYPE_CHECKING:
    from headgate.jobs.client.client import Client
    from headgate.jobs.client.jobs.filters import JobFilter
    from headgate.jobs.definitions.options.submit_options import SubmitOptions
    from headgate.jobs.handles.handle import JobHandle

_MOST_PAGES = 10
"""Pages that one list reads on, if few of the entries in them are what is wanted."""

ID = "$JOB"

APP = "headgate -A shop.app:app jobs"

jobs = noun(
    "List jobs, look one up, cancel it, or run it again.",
    examples(
        f"{APP} list --state dead --since 2h",
        f"{APP} count --since 1d",
        f"{APP} show {ID}",
        f"{APP} cancel {ID}",
        f"{APP} rerun {ID}",
    ),
)

JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id, as submit prints it.")]


States = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="NAME",
        help="Only in this state: running, retrying, dead, quarantined, cancelled, completed, "
        "discarded or dropped.",
    ),
]
Queues = Annotated[
    list[str] | None, typer.Option("--queue", metavar="NAME", help="Only of this queue.")
]
Since = Annotated[
    datetime | None,
    typer.Option(
        parser=moment, metavar="AGE|TIME", help="Only what changed since then; 2h is two hours ago."
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option(
        parser=moment,
        metavar="AGE|TIME",
        help="Only what changed before then; 10m is ten minutes ago.",
    ),
]


@jobs.command(
    "list",
    epilog=examples(
        f"{APP} list --state dead --type send-email --since 2h",
        f"{APP} list --state running",
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
    limit: PageLimit = 20,
    after: After = "",
    json: AsJson = False,
) -> None:
    """List jobs that failed, died or were cancelled.

    The newest change comes first. A job stays listed when it completes after a failure; others that
    completed are listed only with records="full" or Keep(last=...). Running jobs are listed once
    they have run for a second, waiting ones not at all: `show` finds those by id.

    Options that select can be given several times: --type a --type b means either. Exits with 3 if
    there are none.
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
    if not found:
        _tell_unknown(context, chosen)
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
        counts = client.jobs.count(chosen)
    if not counts.total:
        _tell_unknown(context, chosen)
    raise typer.Exit(show_counts(counts, as_json=json))


@jobs.command(
    epilog=examples(
        f"{APP} show {ID}",
        f"{APP} show {ID} --tracebacks",
        f"{APP} show {ID} --children 100",
        f"{APP} show {ID} --json",
    )
)
def show(
    context: typer.Context,
    job_id: JobId,
    tracebacks: Annotated[
        bool, typer.Option("--tracebacks", help="Print the traceback of each attempt.")
    ] = False,
    children: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="How many of its children at most.")
    ] = 20,
    json: AsJson = False,
) -> None:
    """Show a job's state, attempts, errors, timeline and children.

    Exits with 0 if the job completed, was discarded or dropped, 3 if it is dead, quarantined or
    cancelled, 4 if it has not ended, and 5 if no job has the id.
    """
    from headgate.ops.views.job import show_record

    with client_of(context) as client:
        handle = _handle(client, job_id)
        record, page = handle.history(), client.jobs.children(handle.id, limit=children)
    raise typer.Exit(show_record(record, page, tracebacks=tracebacks, as_json=json))


@jobs.command(
    epilog=examples(
        f"{APP} cancel {ID}",
        f"{APP} cancel --type send-email --since 2h --dry-run",
        f"{APP} cancel --state running --type report",
    )
)
def cancel(
    context: typer.Context,
    job_id: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="The job's id, as submit prints it.", show_default=False),
    ] = None,
    states: States = None,
    types: Types = None,
    queues: Queues = None,
    tenants: Tenants = None,
    since: Since = None,
    until: Until = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be cancelled.")
    ] = False,
    yes: Yes = False,
    reason: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Recorded with the job; up to 300 characters.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Request the cancellation of one job, or of several.

    A waiting job then never starts, and a running one is interrupted: workers look for requests
    every few seconds. Options select among the listed jobs that have not ended: those that wait or
    run again after a failure. They are counted, and you are asked; at most 1,000 at a time.

    Exits with 1 if the job has ended already, and 3 if no such jobs are listed.
    """
    from headgate.ops.views.job import cancel
    from headgate.ops.views.job_list import tell_cancelled

    chosen = wanted(states, types, queues, tenants, since, until)
    is_selected = any((states, types, queues, tenants, since, until))
    if (job_id is None) is not is_selected:
        raise typer.BadParameter("name one job by its id, or select several: --type send-email")
    with client_of(context) as client:
        if job_id is not None:
            raise typer.Exit(cancel(_handle(client, job_id), reason))
        among = None
        if dry_run or not yes:
            planned = client.jobs.cancel(chosen, reason=reason, dry_run=True)
            if not planned.jobs:
                _tell_unknown(context, chosen)
            if (code := tell_cancelled(planned, "would be")) or dry_run:
                raise typer.Exit(code)
            typer.confirm("Cancel them?", abort=True)
            among = [each.id for each in planned.jobs]
        done = client.jobs.cancel(chosen, reason=reason, among=among)
    if not done.jobs:
        _tell_unknown(context, chosen)
    raise typer.Exit(tell_cancelled(done, "will be"))


@jobs.command(
    epilog=examples(f"{APP} rerun {ID}", f'{APP} rerun {ID} --payload \'{{"to": "ada"}}\'')
)
def rerun(
    context: typer.Context,
    job_id: JobId,
    payload: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="The payload, in place of the old one.", show_default=False
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The group on a FIFO queue, in place of the old one.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Submit a job that has ended again, as a new job.

    Prints the new job's id. The payload of a job that died is in its dead letter, which stays where
    it is, and so is its group on a FIFO queue. For one that ended otherwise give them: its message
    is gone.
    """
    from headgate.ops.views.output import show

    with client_of(context) as client:
        _handle(client, job_id)
        given: SubmitOptions = {} if group is None else {"group": group}
        show(client.jobs.rerun(job_id, payload=_read_payload(payload), **given).id)


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


def _tell_unknown(context: typer.Context, chosen: JobFilter) -> None:
    """Say which of the names that a command selects by are none, where nothing was found."""
    app = app_of(context)
    tell_unknown_names(
        ("type", chosen.types, app.types.keys()), ("queue", chosen.queues, app.queues.keys())
    )


def _read_payload(given: str | None) -> Any:
    """Return the payload that is given in place of the old one; None if none is."""
    if given is None:
        return None
    try:
        payload = from_json(given)
    except ValueError as error:
        raise typer.BadParameter(f"--payload is not JSON: {error}") from error
    if payload is None:
        raise typer.BadParameter("null replaces no payload: leave --payload out to keep the old")
    return payload


def _handle(client: Client, job_id: str) -> JobHandle[Any]:
    try:
        return client.handle(job_id)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
