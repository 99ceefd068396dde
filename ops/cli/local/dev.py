"""``headgate dev`` and ``headgate provision``: an app on a local AWS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.ops.cli.shared import app_of, app_path_of, examples, require_posix

DEV_EXAMPLES = examples(
    "headgate dev shop.app:app",
    "headgate dev shop.app:app --state .headgate",
    "headgate dev shop.app:app --endpoint http://localhost:4566",
    "headgate dev shop.app:app --no-console",
)
PROVISION_EXAMPLES = examples(
    "headgate -A shop.app:app provision --endpoint http://localhost:4566",
)


def dev(
    context: typer.Context,
    app: Annotated[
        str | None,
        typer.Argument(metavar="APP", help="The app, if neither -A nor HEADGATE_APP names it."),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="A local AWS that runs already.  [default: starts MiniStack]"
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            file_okay=False,
            help="Keep queues, table, objects and schedules here until the next run.",
        ),
    ] = None,
    watch: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            exists=True,
            help="Folders whose Python files are watched.  [default: the current one]",
        ),
    ] = None,
    console: Annotated[
        bool, typer.Option("--console/--no-console", help="Serve the web console, too.")
    ] = True,
) -> None:
    """Run an app on a local AWS, and reload it after every edit.

    It provisions queues, table and bucket, fires schedules, sweeps dead letters, and runs a worker
    and the web console. Ctrl-C ends it, and leaves nothing behind.
    """
    require_posix("headgate dev")
    from headgate.jobs.definitions.app_path import read_app_path
    from headgate.ops.dev import DevOptions, run_dev

    path = app_path_of(context, app)
    read_app_path(path)  # no edit of the app's could mend it
    run_dev(
        DevOptions(
            app=path,
            endpoint_url=endpoint,
            state=state,
            watch=tuple(watch or (Path(),)),
            console=console,
        )
    )


def provision(
    context: typer.Context,
    endpoint: Annotated[
        str, typer.Option(metavar="URL", help="The local AWS, such as http://localhost:4566.")
    ],
) -> None:
    """Create an app's queues, table and bucket on a local AWS.

    Creates its schedules, too. What exists already keeps all that is in it, and is set to what the
    app declares now: the attributes of queues, the bucket's settings, and schedules, of which those
    that it no longer declares are deleted. In an AWS account, `cdk deploy` creates them.
    """
    import os

    from headgate.jobs.definitions.policies import load_handlers
    from headgate.ops.dev.preparing import provision_all
    from headgate.ops.dev.surroundings import Surroundings
    from headgate.ops.views.output import show

    path = app_path_of(context)
    surroundings = Surroundings(app=path, endpoint_url=endpoint, environ=os.environ)
    found = app_of(context)
    load_handlers(found)
    with surroundings.applied():
        provision_all(found)
    names = [spec.name for spec in found.topology.queues]
    show(f"provisioned at {endpoint}: {', '.join(names)}, with all that belongs to them")
