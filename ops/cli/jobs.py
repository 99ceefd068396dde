"""``headgate jobs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.ops.cli.shared import AsJson, client_of, examples, noun

if TYPE_CHECKING:
    from headgate.jobs.client.client import Client
    from headgate.jobs.client.handle import JobHandle

ID = "0196a2b4-0000-7000-8000-000000000001"

jobs = noun(
    "Look up a job, or cancel it.",
    examples(
        f"headgate -A shop.app:app jobs show {ID}", f"headgate -A shop.app:app jobs cancel {ID}"
    ),
)

JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id, as submit prints it.")]


@jobs.command(
    epilog=examples(
        f"headgate -A shop.app:app jobs show {ID}",
        f"headgate -A shop.app:app jobs show {ID} --json",
    )
)
def show(context: typer.Context, job_id: JobId, json: AsJson = False) -> None:
    """Show a job's state, attempts, errors, progress and timeline.

    Exits with 0 if the job completed, was discarded or dropped, 3 if it is dead, quarantined or
    cancelled, 4 if it has not ended, and 5 if nothing is known of it.
    """
    from headgate.ops.views.job import show_record

    with client_of(context) as client:
        raise typer.Exit(show_record(_handle(client, job_id).history(), as_json=json))


@jobs.command(
    epilog=examples(
        f"headgate -A shop.app:app jobs cancel {ID}",
        f"headgate -A shop.app:app jobs cancel {ID} --reason 'a mistake'",
    )
)
def cancel(
    context: typer.Context,
    job_id: JobId,
    reason: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Recorded with the job; up to 300 characters.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Request a job's cancellation.

    A waiting job then never starts, and a running one is interrupted: workers look for requests
    every few seconds. Exits with 1 if the job has ended already.
    """
    from headgate.ops.views.job import cancel

    with client_of(context) as client:
        raise typer.Exit(cancel(_handle(client, job_id), reason))


def _handle(client: Client, job_id: str) -> JobHandle[Any]:
    try:
        return client.handle(job_id)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
