"""``headgate erase``."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.ops.cli.shared import client_of, examples

EXAMPLES = examples(
    "headgate -A shop.app:app erase --tenant org-1 --dry-run",
    "headgate -A shop.app:app erase --tenant org-1 --yes",
)


def erase(
    context: typer.Context,
    tenant: Annotated[
        str, typer.Option(metavar="NAME", help="The tenant, as jobs were submitted for it.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be deleted, and change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't count or ask first.")] = False,
) -> None:
    """Delete what the app keeps of one tenant.

    That is its dead letters and their copies, its schedules and delayed jobs, and the records,
    payloads and results of its jobs. Counts them, and asks. Jobs that wait in a queue are
    cancelled: run it once more when they have left it. If it is interrupted, run it again. Exits
    with 1 if something was left.
    """
    from headgate.ops.views.erasing import show_erased, show_planned, tell_progress

    with client_of(context) as client:
        if dry_run or not yes:
            planned = client.erase(tenant=tenant, dry_run=True, tell=tell_progress)
            show_planned(planned)
            if dry_run or not (planned.found or planned.unseen):
                return
            typer.confirm("Delete all of it?", abort=True)
        outcome = client.erase(tenant=tenant, tell=tell_progress)
    raise typer.Exit(show_erased(outcome))
