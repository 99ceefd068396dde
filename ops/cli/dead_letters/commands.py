"""``headgate dead-letters``."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from headgate.jobs.values.listing.time_bounds import end_by
from headgate.ops.cli.dead_letters.options import (
    Errors,
    Ids,
    Queues,
    Reasons,
    Since,
    Until,
    tell_unknown,
    wanted,
)
from headgate.ops.cli.shared import AsJson, Limit, Tenants, Types, Yes, client_of, examples, noun

APP = "headgate -A shop.app:app dead-letters"
ID = "$JOB"

dead_letters = noun(
    "List dead letters; send them back, keep or delete them.",
    examples(
        f"{APP} count",
        f"{APP} list --type send-email --since 2h",
        f"{APP} show {ID}",
    ),
)


@dead_letters.command(
    "list", epilog=examples(f"{APP} list --error timeout --since 2h", f"{APP} list --json")
)
def list_letters(
    context: typer.Context,
    types: Types = None,
    reasons: Reasons = None,
    errors: Errors = None,
    queues: Queues = None,
    tenants: Tenants = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    json: AsJson = False,
) -> None:
    """List dead letters, with the reason and the error of each.

    Options that select can be given several times: --type a --type b means either. Messages are
    looked at and given back. Exits with 3 if there are none.
    """
    from headgate.ops.views.dead_letters import show_page

    chosen = wanted(types, reasons, errors, queues, tenants, ids, since, until)
    with client_of(context) as client:
        page = client.dead_letters.list(chosen, limit=limit)
    if not page.letters:
        tell_unknown(context, chosen)
    raise typer.Exit(show_page(page, limit, datetime.now(UTC), as_json=json))


@dead_letters.command(epilog=examples(f"{APP} count", f"{APP} count --by error --by hour"))
def count(
    context: typer.Context,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT",
            help="type, reason, error, queue, tenant or hour.  [default: type, reason]",
        ),
    ] = None,
    types: Types = None,
    reasons: Reasons = None,
    errors: Errors = None,
    queues: Queues = None,
    tenants: Tenants = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    json: AsJson = False,
) -> None:
    """Count dead letters by what they have in common.

    Exits with 3 if there are none.
    """
    from headgate.jobs.dead_letters.counting import read_by
    from headgate.ops.views.dead_letters import show_counts

    chosen = wanted(types, reasons, errors, queues, tenants, ids, since, until)
    keys = read_by(by or ("type", "reason"))
    with client_of(context) as client:
        counts = client.dead_letters.count(keys, chosen)
    if not counts.total:
        tell_unknown(context, chosen)
    raise typer.Exit(show_counts(counts, keys, as_json=json))


@dead_letters.command(epilog=examples(f"{APP} show {ID}", f"{APP} show {ID} --payload --json"))
def show(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The job's id, or SQS's of the message.")],  # noqa: A002 - as users call it
    payload: Annotated[
        bool, typer.Option("--payload", help="Print the payload too, which may be secret.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show all that is known of one dead letter.

    Its attributes, its job's attempts and the last traceback, as far as records are kept. Exits
    with 3 if no dead letter that can be seen has the id.
    """
    from headgate.ops.views.dead_letters import show_letter

    with client_of(context) as client:
        details = client.dead_letters.show(id, payload=payload)
    raise typer.Exit(show_letter(id, details, with_payload=payload, as_json=json))


@dead_letters.command(epilog=examples(f"{APP} export letters.jsonl --type send-email"))
def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that doesn't exist yet.")],
    types: Types = None,
    reasons: Reasons = None,
    errors: Errors = None,
    queues: Queues = None,
    tenants: Tenants = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Write dead letters to a file, one JSON object a line.

    The file holds their payloads, and only you can read it. Exits with 1 if some messages could not
    be looked at.
    """
    from headgate.ops.views.dead_letters import show_exported

    chosen = wanted(types, reasons, errors, queues, tenants, ids, since, until)
    with client_of(context) as client:
        outcome = client.dead_letters.export(chosen, to=file)
    raise typer.Exit(show_exported(outcome, str(file)))


@dead_letters.command("import", epilog=examples(f"{APP} import letters.jsonl"))
def import_letters(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` has written.")],
) -> None:
    """Send exported letters back to the queues they were in.

    The whole file is checked first. Importing it twice makes two of each.
    """
    from headgate.ops.views.dead_letters import show_imported

    with client_of(context) as client:
        show_imported(client.dead_letters.import_(file))


@dead_letters.command(epilog=examples(f"{APP} purge --type send-email --until 3d"))
def purge(
    context: typer.Context,
    types: Types = None,
    reasons: Reasons = None,
    errors: Errors = None,
    queues: Queues = None,
    tenants: Tenants = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    copy: Annotated[
        bool, typer.Option("--copy/--no-copy", help="Copy each to the app's bucket first.")
    ] = True,
    yes: Yes = False,
) -> None:
    """Delete dead letters, once each has a copy in the app's bucket.

    Counts them, and asks. What dies after that stays. Exits with 1 if one of them was left or may
    have been, as those that somebody else holds, and 3 if there are none.
    """
    from headgate.ops.views.dead_letters import show_purged, tell_purge

    chosen = wanted(types, reasons, errors, queues, tenants, ids, since, until)
    chosen = replace(chosen, until=end_by(chosen.until, datetime.now(UTC)))
    with client_of(context) as client:
        if not yes:
            if code := tell_purge(client.dead_letters.count(("queue", "type"), chosen), copy=copy):
                tell_unknown(context, chosen)
                raise typer.Exit(code)
            typer.confirm("Delete them?", abort=True)
        outcome = client.dead_letters.purge(chosen, copy=copy)
    code = show_purged(outcome)
    if not outcome.purged:
        tell_unknown(context, chosen)
    raise typer.Exit(code)
