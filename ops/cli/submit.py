"""``headgate submit``."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic_core import from_json

from headgate.jobs.core.topology import Priority
from headgate.jobs.retry.backoff import Backoff
from headgate.ops.cli.durations import backoff_of, duration
from headgate.ops.cli.shared import app_of, examples
from headgate.ops.views.output import show

if TYPE_CHECKING:
    from headgate.jobs.core.retention import Keep
    from headgate.jobs.definitions.app import App
    from headgate.jobs.definitions.job_type import JobType
    from headgate.jobs.messages.job_options import JobKeep

EXAMPLES = examples(
    'headgate -A shop.app:app submit send-email \'{"to": "ada@example.com"}\'',
    "headgate -A shop.app:app submit nightly --delay 1h30m --priority low",
    "headgate -A shop.app:app submit report - --wait < parameters.json",
)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a time: write 2030-01-31T08:00:00Z") from error


def submit(
    context: typer.Context,
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The job type's name.")],
    payload: Annotated[
        str,
        typer.Argument(
            metavar="PAYLOAD", help="The payload as JSON; - reads it from standard input."
        ),
    ] = "{}",
    delay: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration, metavar="DURATION", help="Minimum delay, such as 90s, 1h30m, 2d."
        ),
    ] = None,
    at: Annotated[
        datetime | None,
        typer.Option(
            parser=_moment, metavar="TIME", help="Earliest start, such as 2030-01-31T08:00:00Z."
        ),
    ] = None,
    priority: Annotated[
        Priority | None, typer.Option(help="The priority, instead of its type's.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="The tenant that the job is for.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="The job's group on a FIFO queue.")
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(metavar="N", help="Number of attempts, instead of its type's.")
    ] = None,
    backoff: Annotated[
        Backoff | None,
        typer.Option(
            parser=backoff_of,
            metavar="DELAYS",
            help="The delays between attempts: 10s,1m,5m, or 5s..10m doubling with full jitter.",
        ),
    ] = None,
    attempt_timeout: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            help="The timeout of one attempt, instead of its type's.",
        ),
    ] = None,
    expires: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            help="Drop it unless it starts within this time of being due.",
        ),
    ] = None,
    keep: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            help="How long its record and result are kept once it has completed.",
        ),
    ] = None,
    keep_failed: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            help="How long its records are kept if it doesn't simply complete.",
        ),
    ] = None,
    unique_for: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            help="Equal submissions within this time count as one.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the job to end, and print its result as JSON.")
    ] = False,
    timeout: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            help="How long to wait with --wait.  [default: forever]",
        ),
    ] = None,
) -> None:
    """Submit a job and print its id.

    With --wait it exits as `headgate jobs show` does: with 0 once the job has completed, 3 if it
    failed for good, 4 if it has not ended in time.
    """
    from headgate.jobs.client.client import Client
    from headgate.jobs.client.waiting import keeps_outcomes
    from headgate.jobs.definitions.options.submit_options import SubmitOptions
    from headgate.jobs.definitions.options.uniqueness import Unique
    from headgate.ops.views.job import show_end

    if timeout is not None and not wait:
        raise typer.BadParameter(
            "--timeout is how long --wait waits: add --wait, or give the job itself a timeout with "
            "--attempt-timeout"
        )
    app = app_of(context)
    declared = app.find_type(job_type)
    if wait and not keeps_outcomes(app, declared, _own_keep(keep)):
        raise typer.BadParameter("--wait needs a type with records='outcomes' or 'full'")
    loaded = declared.load(_json(payload))
    options = SubmitOptions(
        delay=delay,
        at=at,
        priority=priority,
        tenant=tenant,
        group=group,
        max_attempts=max_attempts,
        backoff=backoff,
        timeout=attempt_timeout,
        expires=expires,
        keep=_keep(app, declared, keep, keep_failed),
        unique=None if unique_for is None else Unique(within=unique_for),
    )
    with Client(app) as client:
        job = client.submit(declared, loaded, **options)
        show(job.id, at_once=True)
        if wait:
            raise typer.Exit(show_end(job, timeout))


def _own_keep(keep: timedelta | None) -> JobKeep | None:
    from headgate.jobs.messages.job_options import LONGEST_KEPT, JobKeep

    if keep is None:
        return None
    within = min(keep, LONGEST_KEPT)  # the submission refuses a longer one
    return JobKeep(completed_s=within.total_seconds())


def _keep(
    app: App, declared: JobType[Any, Any], completed: timedelta | None, failed: timedelta | None
) -> Keep | timedelta | None:
    from headgate.jobs.core.retention import Keep
    from headgate.jobs.definitions.policies import keep_of

    if failed is None:
        return completed
    of_type = keep_of(app, declared).completed
    return Keep(completed=of_type if completed is None else completed, failed=failed)


def _json(payload: str) -> Any:
    try:
        return from_json(sys.stdin.read() if payload == "-" else payload)
    except ValueError as error:
        raise typer.BadParameter(f"the payload is not JSON: {error}") from error
