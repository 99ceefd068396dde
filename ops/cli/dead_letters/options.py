"""Options that select dead letters, for all commands about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.ops.cli.shared import Moment, app_of, moment, tell_unknown_names

if TYPE_CHECKING:
    from headgate.jobs.core.topology import Topology
    from headgate.jobs.dead_letters.filters import DeadLetterFilter

Reasons = Annotated[
    list[str] | None,
    typer.Option("--reason", metavar="NAME", help="Only of this reason, as `list` shows it."),
]
Errors = Annotated[
    list[str] | None,
    typer.Option("--error", metavar="TEXT", help="Only of this error: its class, or part of it."),
]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", metavar="NAME", help="Only of this queue or dead-letter queue."),
]
Ids = Annotated[
    list[str] | None, typer.Option("--id", metavar="ID", help="Only this job, or message.")
]
Since = Annotated[
    datetime | None,
    typer.Option(
        parser=moment,
        metavar="AGE|TIME",
        help="Only those that died since then; 2h is two hours ago.",
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option(
        parser=moment,
        metavar="AGE|TIME",
        help="Only those that died before then; 10m is ten minutes ago.",
    ),
]


def wanted(
    types: Sequence[str] | None = None,
    reasons: Sequence[str] | None = None,
    errors: Sequence[str] | None = None,
    queues: Sequence[str] | None = None,
    tenants: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> DeadLetterFilter:
    """Return the filter that a command's options describe."""
    from headgate.jobs.dead_letters.filters import DeadLetterFilter

    return DeadLetterFilter(
        types=tuple(types or ()),
        reasons=tuple(reasons or ()),
        errors=tuple(errors or ()),
        queues=tuple(queues or ()),
        tenants=tuple(tenants or ()),
        ids=tuple(ids or ()),
        since=since,
        until=until,
    )


def tell_unknown(context: typer.Context, chosen: DeadLetterFilter) -> None:
    """Say which of the names that a command selects by are none, where nothing was found."""
    from headgate.jobs.dead_letters.reading import REASONS

    app = app_of(context)
    tell_unknown_names(
        ("type", chosen.types, app.types.keys()),
        ("reason", chosen.reasons, REASONS),
        ("queue", chosen.queues, {*_queues_of(app.topology)}),
    )


def _queues_of(topology: Topology) -> Iterator[str]:
    """Yield each name by which a queue selects dead letters."""
    yield from topology.groups
    yield from (topology.quarantine_name, topology.failed_firings_name)
    for spec in topology.queues:
        yield from (spec.name, spec.dlq_name)
