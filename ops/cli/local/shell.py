"""``headgate shell``: Python with an app's client at hand."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.ops.cli.shared import app_of, examples

EXAMPLES = examples(
    "headgate shell shop.app:app",
    "headgate shell shop.app:app -c 'print(client.queues.list())'",
)


def shell(
    context: typer.Context,
    app: Annotated[
        str | None,
        typer.Argument(metavar="APP", help="The app, if neither -A nor HEADGATE_APP names it."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option("-c", "--command", metavar="CODE", help="Run this, and end."),
    ] = None,
) -> None:
    """Open a Python session with an app's client.

    At hand are app, client, the job types by their names, and their payloads' types. The session
    is IPython's if that is installed. It reaches AWS as every command does: by the environment.
    """
    from headgate.jobs.client.client import Client
    from headgate.ops.shell import introduction, names_of, run_command, run_session

    found = app_of(context, app)
    with Client(found) as client:
        names = names_of(found, client)
        if command is None:
            run_session(names, introduction(found, names))
        else:
            run_command(command, names)
