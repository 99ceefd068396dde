"""``headgate worker``."""

from __future__ import annotations

import logging
import os
import sys
from datetime import timedelta
from typing import Annotated

import typer

from headgate.ops.cli.durations import duration, in_words
from headgate.ops.cli.shared import app_of, examples, require_posix
from headgate.workers.configuration import (
    DEFAULTS,
    UNWATCHED,
    ObservabilitySettings,
    WorkerSettings,
    read_priorities,
    short_wait,
)

EXAMPLES = examples(
    "headgate worker shop.app:app",
    "headgate worker shop.app:app --queues payments --concurrency 20",
    "headgate worker shop.app:app --processes 4 --health-port 8080",
)


def worker(
    context: typer.Context,
    app: Annotated[
        str | None,
        typer.Argument(metavar="APP", help="The app, if neither -A nor HEADGATE_APP names it."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(metavar="N", help="Jobs that run at the same time.")
    ] = DEFAULTS.concurrency,
    reserved: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Slots among them for critical jobs only.  [default: a tenth]"
        ),
    ] = None,
    queues: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Queue groups, comma-separated.  [default: all]"),
    ] = None,
    priorities: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Priorities of these groups, comma-separated.  [default: all]"
        ),
    ] = None,
    drain: Annotated[
        timedelta,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            show_default=False,
            help="Time that running jobs have to finish after SIGTERM.  "
            f"[default: {in_words(DEFAULTS.drain)}]",
        ),
    ] = DEFAULTS.drain,
    receive_wait: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            help="How long a poll waits for messages, 1s to 20s. An idle worker stops when its "
            "polls return.  [default: 20s; 1s in a terminal or with a local AWS]",
        ),
    ] = None,
    queue_grace: Annotated[
        timedelta,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            show_default=False,
            help="How long to wait for the queues while none of them exists.  "
            f"[default: {in_words(DEFAULTS.queue_grace)}]",
        ),
    ] = DEFAULTS.queue_grace,
    processes: Annotated[
        int,
        typer.Option(
            min=1, max=64, metavar="N", help="Worker processes; one per vCPU is a good number."
        ),
    ] = 1,
    children: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Child processes for handlers with isolation='process'.  [default: one per CPU]",
        ),
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Serve /healthz, /readyz and /metrics here; further processes take the next "
            "ports.",
        ),
    ] = None,
    health_host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to serve them on.")
    ] = UNWATCHED.host,
    emf: Annotated[
        bool, typer.Option("--emf", help="Write CloudWatch metrics (EMF) to standard output.")
    ] = False,
    log_level: Annotated[
        str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")
    ] = "info",
    log_json: Annotated[
        bool | None,
        typer.Option(
            "--log-json/--log-plain", help="The log's format.  [default: plain in a terminal]"
        ),
    ] = None,
) -> None:
    """Run jobs until SIGTERM or Ctrl-C.

    It then receives nothing more and lets running jobs finish; a second signal stops it at once.
    """
    require_posix("headgate worker")
    from headgate.workers.logs import configure
    from headgate.workers.process.entry import run
    from headgate.workers.process.supervisor import run_several
    from headgate.workers.process.supervisor_link import is_supervised

    configure(level=_log_level(log_level), json=log_json)
    settings = WorkerSettings(
        concurrency=concurrency,
        reserved=reserved,
        children=children,
        queues=tuple(name.strip() for name in queues.split(",")) if queues else None,
        priorities=read_priorities(priorities) if priorities else None,
        drain=drain,
        queue_grace=queue_grace,
        receive_wait=receive_wait
        if receive_wait is not None
        else short_wait(os.environ, terminal=_in_terminal()),
    )
    watching = ObservabilitySettings(port=health_port, host=health_host, emf=emf)
    if processes > 1 and not is_supervised(os.environ):
        raise typer.Exit(run_several(processes))
    raise typer.Exit(run(app_of(context, app), settings, watching))


def _in_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _log_level(name: str) -> int:
    levels = logging.getLevelNamesMapping()
    if name.upper() not in levels:
        raise typer.BadParameter(f"there is no log level {name!r}: debug, info, warning, error")
    return levels[name.upper()]
