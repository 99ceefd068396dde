"""``headgate workers``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from headgate.ops.cli.shared import AsJson, client_of, examples, noun

workers = noun("Show which workers are alive.", examples("headgate -A shop.app:app workers list"))


@workers.command(
    "list",
    epilog=examples(
        "headgate -A shop.app:app workers list",
        "headgate -A shop.app:app workers list --jobs",
        "headgate -A shop.app:app workers list --json",
    ),
)
def list_workers(
    context: typer.Context,
    jobs: Annotated[bool, typer.Option("--jobs", help="List what each runs.")] = False,
    json: AsJson = False,
) -> None:
    """Show the workers that are alive, what they poll and what they run.

    Each worker reports about every 30 seconds. One that has not reported for 90 seconds is shown as
    silent for an hour. Lambda functions are not listed. Exits with 3 if no worker is alive.
    """
    from headgate.ops.views.overview.workers import show_workers

    with client_of(context) as client:
        found = client.workers.list()
    raise typer.Exit(show_workers(found, datetime.now(UTC), as_json=json, with_jobs=jobs))
