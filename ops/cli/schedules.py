"""``headgate schedules``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from headgate.ops.cli.shared import AsJson, client_of, examples, noun
from headgate.ops.views.output import show

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


@schedules.command(
    "list",
    epilog=examples(
        "headgate -A shop.app:app schedules list", "headgate -A shop.app:app schedules list --json"
    ),
)
def list_schedules(context: typer.Context, name: OneOrAll = None, json: AsJson = False) -> None:
    """Show each schedule's expression, state and next time."""
    from headgate.ops.views.schedules import show_schedules

    with client_of(context) as client:
        found = client.schedules.list() if name is None else [client.schedules.get(name)]
    show_schedules(found, datetime.now(UTC), as_json=json)


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


@schedules.command(epilog=examples("headgate -A shop.app:app schedules pause daily-report"))
def pause(context: typer.Context, name: Name) -> None:
    """Pause a schedule until it is resumed."""
    with client_of(context) as client:
        client.schedules.pause(name)
    show(f"{name} is paused")


@schedules.command(epilog=examples("headgate -A shop.app:app schedules resume daily-report"))
def resume(context: typer.Context, name: Name) -> None:
    """Resume a paused schedule.

    It does not make up for the times that it has missed.
    """
    with client_of(context) as client:
        client.schedules.resume(name)
    show(f"{name} fires again")


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
        str, typer.Option(metavar="ZONE", help="The time zone of cron(...) and at(...).")
    ] = "UTC",
) -> None:
    """Change the times of a schedule.

    One that the code declares keeps them until it is reset, or changed by a deployment.
    """
    from headgate import Schedule

    with client_of(context) as client:
        when = Schedule(expression=expression, timezone=timezone)
        client.schedules.reschedule(name, schedule=when)
    show(f"{name} fires at {expression} {timezone}")


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
