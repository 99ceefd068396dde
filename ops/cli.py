"""The command ``headgate``."""

from __future__ import annotations

import logging
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic_core import from_json

from headgate.jobs.client.client import Client
from headgate.jobs.client.waiting import keeps_outcomes
from headgate.jobs.core.settings import Settings
from headgate.jobs.core.topology import Priority
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.app_path import load_app
from headgate.jobs.definitions.overrides import Overrides
from headgate.jobs.errors import ConfigurationError, HeadgateError, ScheduleError, SubmissionError
from headgate.ops import cost_options as assumed
from headgate.workers.configuration import (
    DEFAULTS,
    UNWATCHED,
    Watching,
    WorkerSettings,
    read_priorities,
    short_wait,
)

if TYPE_CHECKING:
    from headgate.ops.schedules import Action

cli = typer.Typer(
    name="headgate",
    help="Background jobs on AWS SQS and EventBridge.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AppPath = Annotated[
    str | None,
    typer.Argument(
        metavar="APP",
        help="module:attribute, as in shop.app:app; HEADGATE_APP names it when left out.",
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]

EXIT_FAULT = 1
EXIT_USAGE = 2

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def duration(text: str | timedelta) -> timedelta:
    """Read ``90s``, ``15m``, ``1h`` or ``1h30m``.

    Raises:
        typer.BadParameter: the text has another form.
    """
    if isinstance(text, timedelta):
        return text  # typer hands defaults to a parser too
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(f"{text!r} is no duration: write 90s, 15m, 1h or 1h30m")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    except OverflowError as error:
        raise typer.BadParameter(f"{text!r} is too long a duration") from error


def in_words(length: timedelta) -> str:
    """Format a duration as `duration` reads it: ``90s``, ``15m``, ``1h``."""
    milliseconds = length // timedelta(milliseconds=1)
    for unit in reversed(_UNITS):
        if milliseconds % (size := round(_UNITS[unit] * 1000)) == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


@cli.command()
def worker(
    app: AppPath = None,
    concurrency: Annotated[int, typer.Option(help="Jobs at once.")] = DEFAULTS.concurrency,
    reserved: Annotated[
        int | None,
        typer.Option(help="Of them, slots for critical jobs alone; a tenth by default."),
    ] = None,
    queues: Annotated[
        str | None, typer.Option(help="Queue groups, comma-separated; all by default.")
    ] = None,
    priorities: Annotated[
        str | None, typer.Option(help="Of these groups, the priorities, comma-separated.")
    ] = None,
    drain: Annotated[
        timedelta,
        typer.Option(
            parser=duration,
            show_default=in_words(DEFAULTS.drain),
            help="How long jobs may finish after SIGTERM.",
        ),
    ] = DEFAULTS.drain,
    receive_wait: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration,
            help="How long a poll waits, 1s to 20s; 20s by default, and 1s in a terminal or on a "
            "local AWS, since an idle worker ends when its polls do.",
        ),
    ] = None,
    queue_grace: Annotated[
        timedelta,
        typer.Option(
            parser=duration,
            show_default=in_words(DEFAULTS.queue_grace),
            help="How long to wait for queues if none exists.",
        ),
    ] = DEFAULTS.queue_grace,
    processes: Annotated[
        int, typer.Option(min=1, max=64, help="Worker processes; one per vCPU is a good number.")
    ] = 1,
    children: Annotated[
        int | None,
        typer.Option(help="Child processes for isolated handlers; the CPUs by default."),
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option(help="Serve /healthz, /readyz and /metrics; each process takes the next."),
    ] = None,
    health_host: Annotated[str, typer.Option(help="Where to.")] = UNWATCHED.host,
    emf: Annotated[
        bool, typer.Option("--emf", help="Metrics for CloudWatch on standard output.")
    ] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_json: Annotated[
        bool | None,
        typer.Option("--log-json/--log-plain", help="JSON unless on a terminal."),
    ] = None,
) -> None:
    """Run jobs until SIGTERM or Ctrl-C; a second one stops at once."""
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
    watching = Watching(port=health_port, host=health_host, emf=emf)
    if processes > 1 and not is_supervised(os.environ):
        raise typer.Exit(run_several(processes))
    raise typer.Exit(run(_app(app), settings, watching))


@cli.command()
def submit(
    app: Annotated[str, typer.Argument(metavar="APP", help="module:attribute")],
    job_type: Annotated[str, typer.Argument(help="The job type's name.")],
    payload: Annotated[
        str, typer.Argument(help="JSON, or - to read it from standard input.")
    ] = "{}",
    delay: Annotated[
        timedelta | None, typer.Option(parser=duration, help="Not before this long from now.")
    ] = None,
    priority: Annotated[Priority | None, typer.Option(help="Another than the type's.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Whose job it is.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end, and print its result as JSON.")
    ] = False,
    timeout: Annotated[
        timedelta | None,
        typer.Option(parser=duration, help="How long to wait; for ever by default."),
    ] = None,
) -> None:
    """Submit one job and print its id; with --wait the exit code is that of `status`."""
    found = _app(app)
    declared = found.find_type(job_type)
    if wait and not keeps_outcomes(found, declared):
        raise typer.BadParameter("--wait needs a type with records='outcomes' or 'full'")
    try:
        value = from_json(sys.stdin.read() if payload == "-" else payload)
    except ValueError as error:
        raise typer.BadParameter(f"the payload is not JSON: {error}") from error
    overrides: Overrides = {}
    if delay is not None:
        overrides["delay"] = delay
    if priority is not None:
        overrides["priority"] = priority
    if tenant is not None:
        overrides["tenant"] = tenant
    with Client(found) as client:
        job = client.submit(declared, declared.load(value), **overrides)
        print(job.id, flush=True)
        if wait:
            from headgate.ops.status import show_end

            raise typer.Exit(show_end(job, timeout))


@cli.command()
def status(
    app: Annotated[str, typer.Argument(metavar="APP", help="module:attribute")],
    job_id: Annotated[str, typer.Argument(help="As submit printed it.")],
    json: AsJson = False,
) -> None:
    """What has become of a job.

    Exits with 0 if it has completed or was discarded, 3 if it is dead, quarantined or cancelled, 4
    if it has not ended, 5 if nothing is known of it.
    """
    from headgate.ops.status import show_record

    with Client(_app(app)) as client:
        try:
            job = client.handle(job_id)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        raise typer.Exit(show_record(job.history(), as_json=json))


@cli.command()
def check(app: AppPath = None, json: AsJson = False) -> None:
    """Find faults of the configuration before AWS does; exits with 1 if there are errors.

    The deployment is the one that ./cdk.json has in its context, if there is one.
    """
    from headgate.jobs.deployment.checks.check import check as faults_of
    from headgate.ops.cdk_context import deployment_from_cdk_json
    from headgate.ops.checking import show_faults

    found = _app(app)
    found.load_handlers()
    deployment = deployment_from_cdk_json(None, found.stage)
    raise typer.Exit(show_faults(faults_of(found, datetime.now(UTC), deployment), as_json=json))


@cli.command()
def plan(
    app: Annotated[str, typer.Argument(metavar="APP", help="module:attribute")],
    job_type: Annotated[str, typer.Argument(help="The job type's name.")],
    json: AsJson = False,
) -> None:
    """When each attempt of a failing job comes."""
    from headgate.jobs.deployment.checks.retry_rules import has_long_delays
    from headgate.ops.checking import show_plan

    found = _app(app)
    declared = found.find_type(job_type)
    queue = found.topology.queue(declared.queue, declared.priority)
    show_plan(declared, queue, long_delays=has_long_delays(found, declared), as_json=json)


@cli.command()
def schedules(
    app: Annotated[str, typer.Argument(metavar="[APP]", help="module:attribute, or HEADGATE_APP.")],
    action: Annotated[
        str | None, typer.Argument(metavar="ls|pause|resume|run|next", help="What to do.")
    ] = None,
    name: Annotated[
        str | None, typer.Argument(help="Which schedule; ls and next take all without it.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many times next shows.")] = 5,
    json: AsJson = False,
) -> None:
    """List an app's schedules on AWS, switch them, run one now, or show its next times."""
    from headgate.ops.schedules import act

    path, wanted, which = (app, action, name) if ":" in app else (None, app, action)
    doing = _action(wanted, which)
    found = _app(path)
    with Client(found) as client:
        act(client, doing, which, count=count, now=datetime.now(UTC), as_json=json)


@cli.command()
def cost(
    app: AppPath = None,
    *,
    jobs: assumed.Jobs,
    share: assumed.Shares = None,
    typical: Annotated[
        timedelta | None,
        typer.Option("--duration", parser=duration, help="Of a handler; the group's typical."),
    ] = None,
    payload: assumed.PayloadBytes = 500,
    result: assumed.ResultBytes = 100,
    failure_rate: assumed.FailureRate = 0.01,
    together: assumed.Together = 1,
    peak: assumed.Peak = 2,
    delayed: assumed.Delayed = 0,
    tenants: assumed.Tenants = False,
    free_tier: assumed.FreeTier = False,
    cdk_json: assumed.CdkJson = None,
    json: AsJson = False,
) -> None:
    """What a month costs on AWS, by service and by job type: an estimate."""
    from headgate.ops.cdk_context import deployment_from_cdk_json
    from headgate.ops.cost import show_cost
    from headgate.ops.costing.alternatives import alternatives
    from headgate.ops.costing.estimate import estimate
    from headgate.ops.costing.load import Load

    found, now = _app(app), datetime.now(UTC)
    load = Load(
        jobs=jobs,
        shares=assumed.shares(share),
        duration=typical,
        payload_bytes=payload,
        result_bytes=result,
        failure_rate=failure_rate,
        together=together,
        peak=peak,
        delayed=delayed,
        tenants=tenants,
    )
    deployment = deployment_from_cdk_json(cdk_json, found.stage)
    others = alternatives(found, deployment, load, now=now, free_tier=free_tier)
    month = estimate(found, deployment, load, now=now, free_tier=free_tier)
    show_cost(month, others, as_json=json)


@cli.command()
def demo(
    jobs: Annotated[int, typer.Option(min=100, help="How many jobs to submit, about.")] = 2000,
    seed: Annotated[int, typer.Option(help="Another seed plans other faults.")] = 1,
) -> None:
    """The whole system on this machine: bounded, self-checking, nothing left behind."""
    from headgate.ops.demo import DemoOptions, run_demo

    raise typer.Exit(run_demo(DemoOptions(jobs=jobs, seed=seed)))


def _app(path: str | None) -> App:
    path = path or Settings.from_env().app
    if not path:
        raise typer.BadParameter("name the app as module:attribute, or set HEADGATE_APP")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does: an app lives in the current directory
    return load_app(path)


def _action(text: str | None, name: str | None) -> Action:
    from headgate.ops.schedules import Action

    try:
        action = Action(text or "")
    except ValueError as error:
        raise typer.BadParameter(f"say what to do: {', '.join(Action)}") from error
    if name is None and action not in (Action.LS, Action.NEXT):
        raise typer.BadParameter(f"say which schedule to {action}")
    return action


def _in_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _log_level(name: str) -> int:
    levels = logging.getLevelNamesMapping()
    if name.upper() not in levels:
        raise typer.BadParameter(f"there is no log level {name!r}: debug, info, warning, error")
    return levels[name.upper()]


def main() -> None:
    """Run the command line. An error of Headgate's becomes one line and an exit code: 2 when the
    command, the app or the environment has to change, 1 when running it again may help."""
    try:
        cli()
    except HeadgateError as error:
        print(f"headgate: {error}", file=sys.stderr)
        wrong = isinstance(error, ConfigurationError | SubmissionError | ScheduleError)
        sys.exit(EXIT_USAGE if wrong else EXIT_FAULT)
