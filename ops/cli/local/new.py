"""``headgate new``: a project to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.ops.cli.shared import examples

EXAMPLES = examples("headgate new web-shop", "headgate new mail --into .")


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The app's name, such as web-shop.")],
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            file_okay=False,
            help="The project's folder, which may exist.  [default: ./NAME]",
        ),
    ] = None,
) -> None:
    """Write a project: an app, its test, and what deploys it.

    It runs under `headgate dev` as it is. No file that exists is changed.
    """
    from headgate.ops.scaffold import write_project
    from headgate.ops.views.output import show

    made = write_project(name, into if into is not None else Path(name))
    for each in made.written:
        show(f"wrote {made.folder / each}")
    for each in made.kept:
        show(f"kept {made.folder / each}, which was there")
    for place, addition in made.additions.items():
        show(f"{made.folder / place}: {addition}")
    show()
    if made.folder.resolve() != Path.cwd():
        show(f"cd {made.folder}")
    show("python -m pytest")
    show(f"headgate dev {made.app_path}")
