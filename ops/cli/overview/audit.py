"""``headgate audit``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.ops.cli.dead_letters.options import moment
from headgate.ops.cli.shared import AsJson, client_of, examples

if TYPE_CHECKING:
    from headgate.jobs.records.audit.entry import AuditEntry

EXAMPLES = examples(
    "headgate -A shop.app:app audit --since 1d",
    "headgate -A shop.app:app audit --actor ada --action purge",
    "headgate -A shop.app:app audit --target payments --json",
)

_MOST_PAGES = 10
"""Pages that one list reads on, if few of the entries in them are what is wanted."""


def audit(
    context: typer.Context,
    since: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="AGE|TIME", help="Only what was done since: 2h."),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="AGE|TIME", help="Only what was done before: 10m."),
    ] = None,
    actor: Annotated[
        str, typer.Option(metavar="TEXT", help="Only by these, by a part of the name.")
    ] = "",
    action: Annotated[
        str, typer.Option(metavar="NAME", help="Only this action, such as purge.")
    ] = "",
    target: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Only on this: a part of an id, a queue, a type."),
    ] = "",
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
    """Show who did what, and when.

    The latest comes first. The audit has what changes something: jobs cancelled or run again, dead
    letters replayed, purged, restored or imported, pauses, schedules, erasures; and whose payloads
    were shown or exported. Submitting is not in it. Exits with 3 if there is nothing.
    """
    from headgate.ops.views.overview.audit import show_entries

    with client_of(context) as client:
        found: list[AuditEntry] = []
        skipped, following = 0, after
        for _ in range(_MOST_PAGES):
            page = client.audit.list(
                since=since,
                until=until,
                actor=actor,
                action=action,
                target=target,
                limit=limit - len(found),
                after=following,
            )
            found += page.entries
            skipped, following = skipped + page.skipped, page.next
            if len(found) >= limit or not following:
                break
    raise typer.Exit(show_entries(found, following, skipped=skipped, as_json=json))
