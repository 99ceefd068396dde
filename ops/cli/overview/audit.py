"""``headgate audit``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.ops.cli.shared import After, AsJson, PageLimit, client_of, examples, moment

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
        typer.Option(
            parser=moment, metavar="AGE|TIME", help="Only since then; 2h is two hours ago."
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(
            parser=moment, metavar="AGE|TIME", help="Only before then; 10m is ten minutes ago."
        ),
    ] = None,
    actor: Annotated[
        str, typer.Option(metavar="TEXT", help="Only by people whose name has this in it.")
    ] = "",
    action: Annotated[
        str, typer.Option(metavar="NAME", help="Only this action, such as purge.")
    ] = "",
    target: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Only on an id, queue or type that has this in it."),
    ] = "",
    limit: PageLimit = 20,
    after: After = "",
    json: AsJson = False,
) -> None:
    """Show who did what, and when.

    The latest comes first. It lists every action that changed something: on jobs, dead letters,
    pauses, schedules and tenants' data. Looks at payloads are listed too, submissions are not.
    Exits with 3 if there is nothing.
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
