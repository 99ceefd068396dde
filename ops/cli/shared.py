"""Parts that the commands have in common: the app they are about, their options, their help."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.jobs.core.settings import Settings
from headgate.jobs.errors import ConfigurationError
from headgate.ops.cli.durations import duration

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from headgate.jobs.client.client import Client
    from headgate.jobs.definitions.app import App

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

_STAGE = "HEADGATE_STAGE"

Moment = datetime | timedelta
"""A time, or an age."""

Types = Annotated[
    list[str] | None, typer.Option("--type", metavar="NAME", help="Only of this job type.")
]
Tenants = Annotated[
    list[str] | None, typer.Option("--tenant", metavar="NAME", help="Only of this tenant.")
]
Limit = Annotated[int, typer.Option(min=1, metavar="N", help="How many at most.")]
PageLimit = Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="How many at most.")]
"""The limit of a list that goes on after its page."""
After = Annotated[
    str,
    typer.Option(
        metavar="PAGE", help="Go on with a list: what it printed at its end.", show_default=False
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]


def moment(text: str | Moment) -> Moment:
    """Read a time, which is in UTC unless it has an offset, or an age.

    Raises:
        typer.BadParameter: it is neither.
    """
    if not isinstance(text, str):
        return text  # typer hands defaults to a parser too
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    try:
        return duration(text)
    except typer.BadParameter:
        raise typer.BadParameter(
            f"{text!r} is neither an age nor a time: write 2h or 2030-01-31T08:00:00Z"
        ) from None


def require_posix(command: str) -> None:
    """Refuse to go on with a command on Windows, whose processes and signals are others.

    Raises:
        ConfigurationError: this is Windows.
    """
    import platform

    if platform.system() == "Windows":
        raise ConfigurationError(
            f"{command} runs on Linux and macOS alone: on Windows, run it in WSL (wsl --install)"
        )


def app_of(context: typer.Context, named: str | None = None) -> App:
    """Import a command's app, with what exists for its stage by the current folder's ``cdk.json``.

    Raises:
        click's UsageError, AppImportError: as `declared_app_of`.
        ConfigurationError: likewise; or ``cdk.json`` can't be read or names what can't be used.
    """
    from headgate.ops.existing import use_existing

    app = declared_app_of(context, named)
    use_existing(app)
    return app


def declared_app_of(context: typer.Context, named: str | None = None) -> App:
    """Import the app of a command: the one named, or ``-A``'s, or ``HEADGATE_APP``'s.

    Raises:
        click's UsageError: none is named, or two different ones are.
        AppImportError: there is none by that name.
        ConfigurationError: the current folder has a module in place of one that Headgate needs.
    """
    from headgate.jobs.definitions.app_path import load_app
    from headgate.jobs.definitions.current_folder import look_here_first

    path = app_path_of(context, named)
    look_here_first()
    return load_app(path)


def app_to_deploy_of(context: typer.Context, cdk_json: Path | None) -> App:
    """Import a command's app in its stage: that of ``HEADGATE_STAGE``, or else a file's default.

    For commands that read all of ``cdk.json`` themselves, and tell what ``cdk deploy`` makes of it.

    Raises:
        click's UsageError, AppImportError: as `declared_app_of`.
        ConfigurationError: likewise; or the file can't be read.
    """
    from headgate.ops.cdk_context import default_stage

    if os.environ.get(_STAGE) or (stage := default_stage(cdk_json)) is None:
        return declared_app_of(context)
    os.environ[_STAGE] = stage  # read by an App that names no stage
    try:
        return declared_app_of(context)
    finally:
        del os.environ[_STAGE]


def app_path_of(context: typer.Context, named: str | None = None) -> str:
    """Return the path of a command's app, as `declared_app_of` finds it.

    Raises:
        click's UsageError: none is named, or two different ones are.
    """
    option: str | None = context.find_root().params["app"]
    if named and option and named != option:
        context.fail(f"two apps are named, {option} and {named}: name one of them")
    path = named or option or Settings.from_env().app
    if not path:
        takes_app = any(each.name == "app" for each in context.command.params)
        how = f"{context.info_name} shop.app:app" if takes_app else "-A shop.app:app ..."
        context.fail(f"no app is named: write headgate {how}, or set HEADGATE_APP")
    return path


def client_of(context: typer.Context) -> Client:
    """Return a client of the command's app; raises as `app_of`."""
    from headgate.jobs.client.client import Client

    return Client(app_of(context))


def tell_unknown_names(*selected: tuple[str, Sequence[str], Collection[str]]) -> None:
    """Say which of the names that a command selects by are none: where nothing was found, a
    misspelt one would pass for good news.

    Args:
        selected: the kind of the names, those given, and those that there are.
    """
    from headgate.jobs.errors.root import did_you_mean
    from headgate.ops.views.output import show_error

    for kind, names, known in selected:
        for name in names:
            if name not in known:
                show_error(f"there is no {kind} {name!r}: {did_you_mean(name, known)}")


def noun(about: str, epilog: str) -> typer.Typer:
    """Return a group for the commands of one noun, its verbs."""
    return typer.Typer(help=about, epilog=epilog, no_args_is_help=True, rich_markup_mode=None)


def examples(*lines: str) -> str:
    """Return the end of a command's help: command lines, which are not wrapped."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
