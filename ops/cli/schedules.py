"""``headgate schedules``."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.ops.cli.shared import AsJson, app_of, client_of, examples, noun
from headgate.ops.views.output import show, show_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headgate import ScheduleInfo, UnreadableSchedule
    from headgate.jobs.client.client import Client

schedules = noun(
    "List, pause, move or run an app's schedules.",
    examples(
        "headgate -A shop.app:app schedules list",
        "headgate -A shop.app:app schedules next daily-report --count 3",
        "headgate -A shop.app:app schedules pause daily-report",
    ),
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
OneOrAll = Annotated[
    str | None, typer.Argument(metavar="NAME", help="One schedule; all of them if left out.")
]


OneOrNone = Annotated[str | None, typer.Argument(metavar="NAME", help="One schedule.")]
All = Annotated[bool, typer.Option("--all", help="All schedules, in place of one.")]


@schedules.command(
    "list",
    epilog=examples(
        "headgate -A shop.app:app schedules list", "headgate -A shop.app:app schedules list --json"
    ),
)
def list_schedules(context: typer.Context, name: OneOrAll = None, json: AsJson = False) -> None:
    """Show each schedule's expression, state and next time.

    Exits with 1 if a declared one is not deployed here.
    """
    from headgate.jobs.schedules.registry import undeployed
    from headgate.ops.views.schedules import show_schedules, tell_undeployed

    with client_of(context) as client:
        found = client.schedules.list() if name is None else [client.schedules.get(name)]
        missing = undeployed(app_of(context), found) if name is None else []
    show_schedules(found, datetime.now(UTC), as_json=json)
    raise typer.Exit(tell_undeployed(missing))


@schedules.command(
    "next", epilog=examples("headgate -A shop.app:app schedules next daily-report --count 3")
)
def next_times(
    context: typer.Context,
    name: OneOrAll = None,
    count: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Number of times for each.")
    ] = 5,
    json: AsJson = False,
) -> None:
    """Show the next times, in UTC, at which schedules fire."""
    from headgate.ops.views.schedules import show_times, tell_unreadable, times_by_name

    with client_of(context) as client:
        if name is not None:
            show_times({name: client.schedules.next_times(name, count)}, as_json=json)
            return
        found = client.schedules.list()
    show_times(times_by_name(found, count, datetime.now(UTC)), as_json=json)
    tell_unreadable(found)


@schedules.command(epilog=examples("headgate -A shop.app:app schedules runs daily-report"))
def runs(
    context: typer.Context,
    name: Name,
    count: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Number of times.")] = 10,
    json: AsJson = False,
) -> None:
    """Show a schedule's last times, and what became of each."""
    from headgate.ops.views.schedules import show_runs

    with client_of(context) as client:
        found = client.schedules.get(name).last_runs(count, datetime.now(UTC))
        show_runs([(each, client.handle(each.job_id).history()) for each in found], as_json=json)


@schedules.command(
    epilog=examples(
        "headgate schedules pause daily-report --reason 'the source is down'",
        "headgate -A shop.app:app schedules pause --all",
    )
)
def pause(
    context: typer.Context,
    name: OneOrNone = None,
    every: All = False,
    reason: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="Kept in the audit; up to 300 characters.", show_default=False
        ),
    ] = "",
) -> None:
    """Pause a schedule until it is resumed, or all of them.

    Exits with 1 if one of all can't be read, or is not paused: it may still fire.
    """
    with client_of(context) as client:
        pausing = partial(client.schedules.pause, reason=reason)
        raise typer.Exit(_switch(client, name, pausing, "is paused", every=every, enabled=True))


@schedules.command(
    epilog=examples(
        "headgate -A shop.app:app schedules resume daily-report",
        "headgate -A shop.app:app schedules resume --all",
    )
)
def resume(context: typer.Context, name: OneOrNone = None, every: All = False) -> None:
    """Resume a paused schedule, or all of them.

    It does not make up for the times that it missed. Exits with 1 if one of all can't be read, or
    is not resumed.
    """
    with client_of(context) as client:
        resuming = client.schedules.resume
        raise typer.Exit(_switch(client, name, resuming, "fires again", every=every, enabled=False))


@schedules.command(
    epilog=examples(
        "headgate schedules reschedule daily-report 'cron(0 9 * * ? *)'",
        "headgate -A shop.app:app schedules reschedule sync-stock 'rate(5 minutes)'",
    )
)
def reschedule(
    context: typer.Context,
    name: Name,
    expression: Annotated[
        str, typer.Argument(metavar="EXPRESSION", help="cron(...), rate(...) or at(...).")
    ],
    timezone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE",
            help="The time zone of cron(...) and at(...).  [default: its present one]",
        ),
    ] = None,
) -> None:
    """Change the times of a schedule.

    Its start, end and flexible window stay; at(...) has neither start nor end, and an end that has
    passed is dropped. `client.schedules.reschedule` changes them.

    One declared in code keeps the new times until it is reset, or changed by a deployment.
    """
    from headgate import Schedule
    from headgate.ops.rescheduling import with_expression
    from headgate.ops.views.schedules import show_moved

    Schedule(expression=expression, timezone=timezone or "UTC")  # is refused before AWS is asked
    with client_of(context) as client:
        when, now = client.schedules.get(name).when, datetime.now(UTC)
        moved, dropped = with_expression(when, expression, timezone or when.timezone, now)
        client.schedules.reschedule(name, schedule=moved)
    show_moved(name, moved, dropped, now)


@schedules.command(epilog=examples("headgate -A shop.app:app schedules reset daily-report"))
def reset(context: typer.Context, name: Name) -> None:
    """Let a schedule fire as the code declares it."""
    with client_of(context) as client:
        client.schedules.reset(name)
    show(f"{name} fires as the code declares it")


@schedules.command(epilog=examples("headgate -A shop.app:app schedules run daily-report"))
def run(context: typer.Context, name: Name) -> None:
    """Submit a schedule's job now, and print the job's id."""
    with client_of(context) as client:
        show(client.schedules.run_now(name).id)


@schedules.command(epilog=examples("headgate -A shop.app:app schedules export schedules.jsonl"))
def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that is not there yet.")],
) -> None:
    """Write all schedules to a file, one JSON object a line.

    They have their jobs' payloads; only you can read the file. Exits with 1 if some can't be read.
    """
    from headgate.ops.views.schedules import show_exported

    with client_of(context) as client:
        raise typer.Exit(show_exported(client.schedules.export(file), str(file)))


@schedules.command(
    "import",
    epilog=examples("AWS_REGION=eu-west-1 headgate -A shop.app:app schedules import s.jsonl"),
)
def import_schedules(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` has written.")],
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove those made at run time that it doesn't have.")
    ] = False,
) -> None:
    """Have this region's schedules fire as an exported file says.

    Creates and changes those made at run time; enables, pauses and moves those that the code
    declares. The whole file is checked first. Exits with 1 if a declared one is not deployed here.
    """
    from headgate.ops.views.schedules import show_imported

    with client_of(context) as client:
        raise typer.Exit(show_imported(client.schedules.import_(file, prune=prune)))


def _switch(
    client: Client,
    name: str | None,
    switch: Callable[[str], None],
    said: str,
    *,
    every: bool,
    enabled: bool,
) -> int:
    """Switch the schedule that is named, or all that are in that state; return the exit code.

    Raises:
        click's BadParameter: neither is asked for, or both.
    """
    if (name is None) is not every:
        raise typer.BadParameter("name one schedule, or write --all")
    if name is not None:
        switch(name)
        show(f"{name} {said}")
        return 0
    return _switch_all(client.schedules.list(), switch, said, enabled=enabled)


def _switch_all(
    found: Sequence[ScheduleInfo | UnreadableSchedule],
    switch: Callable[[str], None],
    said: str,
    *,
    enabled: bool,
) -> int:
    """Switch each that is in that state; one that is refused doesn't keep the others from it."""
    from headgate import ScheduleInfo
    from headgate.jobs.errors import HeadgateError, ScheduleMissing
    from headgate.ops.views.schedules import tell_unreadable

    tell_unreadable(found)
    readable = [each for each in found if isinstance(each, ScheduleInfo)]
    left = len(found) - len(readable)
    for name in (each.name for each in readable if each.enabled is enabled):
        try:
            switch(name)
        except ScheduleMissing:  # it was removed, or has fired for the last time
            show(f"{name} is gone")
        except HeadgateError as error:
            left += 1
            show_error(f"{name} is left as it was: {error}")
        else:
            show(f"{name} {said}")
    return int(left > 0)
