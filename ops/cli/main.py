"""The commands of ``headgate`` together, and the exit codes of their failures."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from headgate.jobs.errors import (
    ConfigurationError,
    HeadgateError,
    ReplayError,
    RerunError,
    ScheduleError,
    SubmissionError,
)
from headgate.ops.cli import cost, erase, submit, worker
from headgate.ops.cli.dead_letters.copies import dead_letters
from headgate.ops.cli.deploying import check, diff, verify
from headgate.ops.cli.deploying.export import export
from headgate.ops.cli.jobs import jobs
from headgate.ops.cli.libraries import missing_library
from headgate.ops.cli.local import demo, dev, new, shell
from headgate.ops.cli.overview import audit, console, health
from headgate.ops.cli.overview.dashboard import dashboard
from headgate.ops.cli.overview.workers import workers
from headgate.ops.cli.queues import queues
from headgate.ops.cli.schedules import schedules
from headgate.ops.cli.shared import examples
from headgate.ops.cli.spelling import APP_FLAGS, Commands
from headgate.ops.views.output import show, show_error, show_traceback

EXIT_FAULT = 1
EXIT_USAGE = 2

_WRONG = (ConfigurationError, SubmissionError, ScheduleError, ReplayError, RerunError)
"""Errors for which the command, the app or the environment has to change."""

cli = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from headgate.jobs.values.own_version import own_version

        show(f"headgate {own_version()}")
        raise typer.Exit


@cli.callback(
    epilog=examples(
        "headgate worker shop.app:app",
        'headgate -A shop.app:app submit send-email \'{"to": "ada"}\' --wait',
        "headgate -A shop.app:app jobs show 0196a2b4-0000-7000-8000-000000000001",
        "HEADGATE_APP=shop.app:app headgate schedules list --json",
    )
)
def headgate(
    app: Annotated[
        str | None,
        typer.Option(
            *APP_FLAGS,
            metavar="MODULE:NAME",
            help="The app that a command is about, as in shop.app:app.  [default: $HEADGATE_APP]",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Run and look after background jobs on AWS SQS and EventBridge."""


cli.command(epilog=new.EXAMPLES)(new.new)
cli.command(epilog=dev.DEV_EXAMPLES)(dev.dev)
cli.command(epilog=worker.EXAMPLES)(worker.worker)
cli.command(epilog=shell.EXAMPLES)(shell.shell)
cli.command(epilog=submit.EXAMPLES)(submit.submit)
cli.add_typer(jobs, name="jobs")
cli.add_typer(queues, name="queues")
cli.add_typer(workers, name="workers")
cli.add_typer(dead_letters, name="dead-letters")
cli.add_typer(schedules, name="schedules")
cli.add_typer(dashboard, name="dashboard")
cli.command(epilog=health.EXAMPLES)(health.health)
cli.command(epilog=audit.EXAMPLES)(audit.audit)
cli.command(epilog=erase.EXAMPLES)(erase.erase)
cli.command(epilog=check.CHECK_EXAMPLES)(check.check)
cli.command(epilog=check.PLAN_EXAMPLES)(check.plan)
cli.command(epilog=diff.EXAMPLES)(diff.diff)
cli.command(epilog=verify.EXAMPLES)(verify.verify)
cli.command(epilog=cost.EXAMPLES)(cost.cost)
cli.add_typer(export, name="export")
cli.command(epilog=console.EXAMPLES)(console.console)
cli.command(epilog=dev.PROVISION_EXAMPLES)(dev.provision)
cli.command(epilog=demo.EXAMPLES)(demo.demo)


def main() -> None:
    """Run the command line.

    An error of Headgate's becomes one line and an exit code: 2 when the command, the app or the
    environment has to change, a missing library of an extra included, 1 when running it again may
    help. A reader that has gone, as that of ``| head``, ends it with 1 and in silence. Any other
    error ends it with 1 and a traceback, whose text, too, can do nothing to a terminal.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # whatever the terminal's encoding lacks
    try:
        try:
            cli(prog_name="headgate")
        finally:
            _flush()
    except BrokenPipeError:
        # Python flushes once more as it ends, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAULT)
    except HeadgateError as error:
        show_error("".join((str(error), *getattr(error, "__notes__", ()))))
        sys.exit(EXIT_USAGE if isinstance(error, _WRONG) else EXIT_FAULT)
    except Exception as error:  # noqa: BLE001 - the process's boundary
        if (missing := missing_library(error)) is not None:
            show_error(str(missing))
            sys.exit(EXIT_USAGE)
        show_traceback(error)
        sys.exit(EXIT_FAULT)


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()
