"""``headgate dead-letters replay``, ``replays``, ``resume`` and ``abort``."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic_core import from_json

from headgate.jobs.core.topology import Priority
from headgate.ops.cli.dead_letters.commands import dead_letters
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
from headgate.ops.cli.durations import duration
from headgate.ops.cli.shared import AsJson, Tenants, Types, Yes, client_of, examples

if TYPE_CHECKING:
    from headgate.jobs.client.client import Client
    from headgate.jobs.dead_letters.filters import DeadLetterFilter
    from headgate.jobs.dead_letters.replaying.options import ReplaySettings

ID = "20260131-081500-3f2a"

__all__ = ["dead_letters"]

ReplayId = Annotated[
    str, typer.Argument(metavar="ID", help="The replay's id, as `replays` lists it.")
]
OneOrAll = Annotated[
    str | None, typer.Argument(metavar="ID", help="One replay; all of them if left out.")
]


@dead_letters.command(
    epilog=examples(
        "headgate dead-letters replay --type send-email --since 2h --dry-run",
        "headgate dead-letters replay --error timeout --canary 20 --spread 1h",
        "headgate dead-letters replay --type charge --set region='\"eu\"' --yes",
    )
)
def replay(
    context: typer.Context,
    types: Types = None,
    reasons: Reasons = None,
    errors: Errors = None,
    queues: Queues = None,
    tenants: Tenants = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Send at most N jobs.")
    ] = None,
    rate: Annotated[float | None, typer.Option(metavar="N", help="Send N jobs a second.")] = None,
    spread: Annotated[
        timedelta | None,
        typer.Option(parser=duration, metavar="DURATION", help="Spread them over 10m, 2h, 1d."),
    ] = None,
    canary: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Send N first, and wait until they have ended."),
    ] = None,
    stop_above: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Stop once more than this share died again; 1 never stops.",
        ),
    ] = 0.5,
    priority: Annotated[
        Priority | None, typer.Option(help="Send them at this priority, not their own.")
    ] = None,
    as_type: Annotated[
        str | None, typer.Option(metavar="NAME", help="Run them as another job type.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=JSON", help="Replace a field of the payload."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be sent.")
    ] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Send dead letters back to the queues that they came from.

    Options that select can be given several times. Without any, all dead letters are sent. Counts
    them, and asks. Ctrl-C stops the replay; `resume` goes on with it.

    Exits with 0 once all are sent, 1 if letters were left where they are, 3 if it has stopped or
    was aborted, and 130 after Ctrl-C.
    """
    chosen = wanted(types, reasons, errors, queues, tenants, ids, since, until)
    settings: ReplaySettings = {
        "limit": limit,
        "rate": rate,
        "spread": spread,
        "canary": canary,
        "stop_above": stop_above if stop_above < 1 else None,
        "priority": priority,
        "as_type": as_type,
        "set": _changes(changes or []),
    }
    from headgate.ops.views.replays import show_end, watched

    with client_of(context) as client:
        if dry_run or not yes:
            _confirm(context, client, chosen, settings, dry_run=dry_run, as_json=json)
        with watched(client.dead_letters.stop) as on_step:
            report = client.dead_letters.replay(chosen, on_step=on_step, **settings)
    code = show_end(report, as_json=json)
    if not report.sent:
        tell_unknown(context, chosen)
    raise typer.Exit(code)


@dead_letters.command(
    epilog=examples(
        "headgate -A shop.app:app dead-letters replays",
        f"headgate -A shop.app:app dead-letters replays {ID} --json",
    )
)
def replays(context: typer.Context, replay_id: OneOrAll = None, json: AsJson = False) -> None:
    """List the replays of the last 30 days, or show one."""
    from headgate.ops.views.replays import show_end, show_replays

    with client_of(context) as client:
        if replay_id is not None:
            show_end(client.dead_letters.get_replay(replay_id), as_json=json)
            return
        show_replays(client.dead_letters.replays(), as_json=json)


@dead_letters.command(epilog=examples(f"headgate -A shop.app:app dead-letters resume {ID}"))
def resume(context: typer.Context, replay_id: ReplayId, json: AsJson = False) -> None:
    """Send the rest of a replay that has stopped.

    Its filter and its options stay the same. Exits as `replay` does.
    """
    from headgate.ops.views.replays import show_end, watched

    with client_of(context) as client, watched(client.dead_letters.stop) as on_step:
        report = client.dead_letters.resume(replay_id, on_step=on_step)
    raise typer.Exit(show_end(report, as_json=json))


@dead_letters.command(epilog=examples(f"headgate -A shop.app:app dead-letters abort {ID}"))
def abort(context: typer.Context, replay_id: ReplayId) -> None:
    """End a replay for good, wherever it runs.

    What it has sent stays sent; all other letters stay where they are.
    """
    from headgate.ops.views.output import show

    with client_of(context) as client:
        report = client.dead_letters.abort(replay_id)
    show(f"{report.id} is aborted")


def _confirm(
    context: typer.Context,
    client: Client,
    chosen: DeadLetterFilter,
    settings: ReplaySettings,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Say what would be sent, and end the command unless that is wanted."""
    from headgate.ops.views.output import show_json
    from headgate.ops.views.replays import EXIT_LEFT, show_plan, values_of

    plan = client.dead_letters.replay(chosen, dry_run=True, **settings)
    if dry_run and as_json:
        show_json(values_of(plan))
    else:
        show_plan(plan)
    if not plan.sent:
        tell_unknown(context, chosen)
    if dry_run:
        raise typer.Exit(0)
    if not plan.sent:
        raise typer.Exit(EXIT_LEFT if plan.refused else 0)
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to confirm it: add --yes, or look with --dry-run")
    typer.confirm("Send them?", abort=True, err=True)


def _changes(given: list[str]) -> dict[str, Any]:
    """Read ``field=json``."""
    changes: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        try:
            changes[name] = from_json(value)
        except ValueError as error:
            raise typer.BadParameter(
                f"{each!r} is not FIELD=JSON: write --set size=3 or --set region='\"eu\"'"
            ) from error
        if not equals or not name:
            raise typer.BadParameter(f"{each!r} names no field: write --set size=3")
    return changes
