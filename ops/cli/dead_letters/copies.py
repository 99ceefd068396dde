"""``headgate dead-letters copies`` and ``restore``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headgate.ops.cli.dead_letters.commands import APP, ID
from headgate.ops.cli.dead_letters.options import (
    Errors,
    Ids,
    Queues,
    Reasons,
    Since,
    Until,
    wanted,
)
from headgate.ops.cli.dead_letters.replays import dead_letters
from headgate.ops.cli.shared import AsJson, Limit, Tenants, Types, Yes, client_of, examples

__all__ = ["dead_letters"]

_COUNTED = 1_000
"""Copies up to which `restore` counts those that are selected: each takes a request."""

OneOrAll = Annotated[
    str | None,
    typer.Argument(metavar="ID", help="The job's id, or SQS's of the message; all if left out."),
]


@dead_letters.command(
    epilog=examples(f"{APP} copies --type send-email --since 30d", f"{APP} copies {ID} --payload")
)
def copies(
    context: typer.Context,
    id: OneOrAll = None,  # noqa: A002 - as users call it
    types: Types = None,
    reasons: Reasons = None,
    errors: Errors = None,
    queues: Queues = None,
    tenants: Tenants = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    payload: Annotated[
        bool, typer.Option("--payload", help="With an ID, print the payload too.")
    ] = False,
    json: AsJson = False,
) -> None:
    """List the copies of dead letters in the app's bucket, or show one.

    The sweep copies what SQS is about to delete, and `purge` what it deletes. Exits with 3 if there
    are none.
    """
    from headgate.ops.views.copies import show_copies, show_copy

    with client_of(context) as client:
        if id is not None:
            details = client.dead_letters.show_copy(id, payload=payload)
            raise typer.Exit(show_copy(id, details, with_payload=payload, as_json=json))
        chosen = wanted(types, reasons, errors, queues, tenants, ids, since, until)
        page = client.dead_letters.copies(chosen, limit=limit)
    raise typer.Exit(show_copies(page, as_json=json))


@dead_letters.command(epilog=examples(f"{APP} restore --type send-email --since 30d"))
def restore(
    context: typer.Context,
    types: Types = None,
    reasons: Reasons = None,
    errors: Errors = None,
    queues: Queues = None,
    tenants: Tenants = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    include_superseded: Annotated[
        bool,
        typer.Option(
            "--include-superseded",
            help="Send those too whose jobs have completed, been replayed or ended since.",
        ),
    ] = False,
    yes: Yes = False,
) -> None:
    """Send copies back to the dead-letter queues they were in.

    From there `replay` sends them on. Payloads that lay in the bucket are put back too. Leaves and
    names those whose jobs have gone on since, by their records. Counts copies, and asks. Exits with
    1 if a letter could not be restored, and 3 if there are none.
    """
    from headgate.ops.views.copies import show_restored, tell_restore

    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to confirm it: add --yes, or look with `copies`")
    chosen = wanted(types, reasons, errors, queues, tenants, ids, since, until)
    with client_of(context) as client:
        if not yes:
            page = client.dead_letters.copies(chosen, limit=_COUNTED)
            if code := tell_restore(page, include_superseded=include_superseded):
                raise typer.Exit(code)
            typer.confirm("Send them back?", abort=True, err=True)
        outcome = client.dead_letters.restore(chosen, include_superseded=include_superseded)
    raise typer.Exit(show_restored(outcome))
