"""``headgate queues``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, TypedDict

import typer

from headgate.jobs.core.topology import Priority
from headgate.ops.cli.durations import duration
from headgate.ops.cli.shared import AsJson, app_of, client_of, examples, noun

queues = noun(
    "Show what queues hold; pause, resume or drain them.",
    examples(
        "headgate -A shop.app:app queues list --watch",
        "headgate queues pause payments --for 2h --reason 'the bank is down'",
    ),
)

Name = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="The queue, with all its priorities.", show_default=False),
]
OnePriority = Annotated[
    Priority | None, typer.Option(help="Only the queue's messages of this priority.")
]
OneType = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="A job type in place of a queue.")
]
OneTenant = Annotated[str | None, typer.Option(metavar="ORG", help="A tenant in place of a queue.")]


class Named(TypedDict):
    """The subject of a pause or resumption, as `headgate.jobs.client.pauses.Pauses` takes it."""

    queue: str | None
    priority: Priority | None
    job_type: str | None
    tenant: str | None


@queues.command(
    "list",
    epilog=examples(
        "headgate -A shop.app:app queues list",
        "headgate -A shop.app:app queues list --watch --every 5s",
        "headgate -A shop.app:app queues list --json",
    ),
)
def list_queues(
    context: typer.Context,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")
    ] = False,
    every: Annotated[
        timedelta,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            help="Time between two looks, from 1s.  [default: 2s]",
            show_default=False,
        ),
    ] = timedelta(seconds=2),
    count: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="End --watch after N looks.", show_default=False),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show what each queue holds, its rates, its pollers and its pauses.

    Messages are waiting, in flight (received by a worker), delayed, or dead. The numbers are SQS's,
    which are approximate. Ages and rates are CloudWatch's, a minute or two late, and a ? where it
    can't be asked. Exits with 1 if a queue does not exist.
    """
    from headgate.ops.views.overview.queues import show_queues

    if every < timedelta(seconds=1):
        context.fail(f"--every must be at least 1s, got {every.total_seconds():g}s")
    with client_of(context) as client:
        if not watch:
            raise typer.Exit(show_queues(client.queues.list(), as_json=json))
        from headgate.ops.views.overview.queue_watch import watch as watch_queues

        watch_queues(client.queues, every_s=every.total_seconds(), count=count, as_json=json)


@queues.command(
    epilog=examples(
        "headgate queues pause payments --for 2h --reason 'the bank is down'",
        "headgate -A shop.app:app queues pause payments --priority low",
        "headgate -A shop.app:app queues pause --type send-email",
        "headgate -A shop.app:app queues pause --tenant org-1",
    )
)
def pause(
    context: typer.Context,
    name: Name = None,
    priority: OnePriority = None,
    job_type: OneType = None,
    tenant: OneTenant = None,
    lasts: Annotated[
        timedelta | None,
        typer.Option(
            "--for", parser=duration, metavar="DURATION", help="Resume after 90s, 15m, 2h or 1d."
        ),
    ] = None,
    reason: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="Shown with the pause; up to 300 characters.", show_default=False
        ),
    ] = "",
) -> None:
    """Pause a queue, a job type or a tenant, within seconds.

    Running jobs go on, and submitting does too. Without --for the pause ends after three quarters
    of the time for which SQS keeps messages, so that none is lost.
    """
    from headgate.ops.views.output import show
    from headgate.ops.views.pauses import in_words

    named = _named(context, name, priority, job_type, tenant)
    with client_of(context) as client:
        made = client.pauses.create(**named, lasts=lasts, reason=reason)
    show(in_words(made))


@queues.command(
    epilog=examples(
        "headgate -A shop.app:app queues drain mail --timeout 1h",
        "headgate -A shop.app:app queues drain mail --priority low",
    )
)
def drain(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The queue.")],
    priority: OnePriority = None,
    every: Annotated[
        timedelta,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            help="Time between two looks, from 1s.  [default: 5s]",
            show_default=False,
        ),
    ] = timedelta(seconds=5),
    timeout: Annotated[
        timedelta | None,
        typer.Option(parser=duration, metavar="DURATION", help="Give up after 15m, 2h or 1d."),
    ] = None,
) -> None:
    """Wait until a queue is empty, before you remove it.

    Workers go on running its jobs: first stop whatever submits them. Ends once nothing has been
    waiting, in flight or delayed for a minute, since SQS's counts may be that late. Exits with 1 if
    that does not happen within --timeout.
    """
    from headgate.ops.views.overview.queue_drain import QueueDrain

    if every < timedelta(seconds=1):
        context.fail(f"--every must be at least 1s, got {every.total_seconds():g}s")
    topology = app_of(context).topology
    if priority is not None:
        topology.queue(name, priority)  # refuses one that the app doesn't have
    topology.select([name])
    with client_of(context) as client:
        waiting = QueueDrain(
            client.queues,
            name,
            priority,
            every_s=every.total_seconds(),
            timeout_s=timeout.total_seconds() if timeout is not None else None,
        )
        raise typer.Exit(waiting.wait())


@queues.command(
    epilog=examples(
        "headgate -A shop.app:app queues resume payments",
        "headgate -A shop.app:app queues resume --tenant org-1",
    )
)
def resume(
    context: typer.Context,
    name: Name = None,
    priority: OnePriority = None,
    job_type: OneType = None,
    tenant: OneTenant = None,
) -> None:
    """Resume what was paused, named in the same way.

    Exits with 1 if it was not paused.
    """
    from headgate.ops.views.pauses import show_resumed

    named = _named(context, name, priority, job_type, tenant)
    with client_of(context) as client:
        was_paused = client.pauses.remove(**named)
        raise typer.Exit(show_resumed(client, was_paused=was_paused))


def _named(
    context: typer.Context,
    name: str | None,
    priority: Priority | None,
    job_type: str | None,
    tenant: str | None,
) -> Named:
    if sum(each is not None for each in (name, job_type, tenant)) != 1:
        context.fail("name one queue, or one --type, or one --tenant")
    app = app_of(context)
    if name in app.types and name not in app.topology.groups:
        context.fail(f"{name!r} is a job type and no queue: write --type {name}")
    return Named(queue=name, priority=priority, job_type=job_type, tenant=tenant)
