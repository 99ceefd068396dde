"""`headgate shell`: an interactive session with an app's client at hand."""

from __future__ import annotations

import atexit
import code
import importlib.util
import keyword
import os
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.jobs.values.kinds import bare
from headgate.ops.dev.ministack import cache_folder

if TYPE_CHECKING:
    from headgate.jobs.client.client import Client
    from headgate.jobs.definitions.app import App

_SOURCE = "<headgate shell>"
_HISTORY = "shell_history"
_HISTORY_LINES = 10_000


def names_of(app: App, client: Client) -> dict[str, Any]:
    """Return the names of a session: ``app``, ``client``, job types, and the types of payloads.

    A job type is there by its name, with underscores in place of hyphens: ``send-email`` is
    ``send_email``. A name that is taken, or is Python's, gets an underscore at its end.
    """
    names: dict[str, Any] = {"app": app, "client": client, "timedelta": timedelta}
    for job in app.types.values():
        names[_free(job.name.replace("-", "_"), names)] = job
    for job in app.types.values():
        payload = bare(job.payload)
        name = getattr(payload, "__name__", "")
        if name.isidentifier() and name not in names and payload.__module__ != "builtins":
            names[name] = payload
    return names


def introduction(app: App, names: Mapping[str, Any]) -> str:
    """Return the text that a session begins with."""
    where = os.environ.get("AWS_ENDPOINT_URL") or "AWS"
    return f"{app.name} on {where}: {', '.join(names)}"


def run_command(command: str, names: dict[str, Any]) -> None:
    """Run a program given as a text, as ``python -c`` does."""
    exec(compile(command, _SOURCE, "exec"), names)  # noqa: S102 - whoever types it runs it


def run_session(names: dict[str, Any], intro: str) -> None:
    """Run a session until its end: IPython's, if it is installed."""
    if importlib.util.find_spec("IPython") is not None:
        print(intro)
        import_module("IPython").start_ipython(argv=["--no-banner"], user_ns=names)
        return
    _remember_lines(names)
    code.interact(banner=intro, local=names, exitmsg="")


def _free(name: str, names: Mapping[str, Any]) -> str:
    return f"{name}_" if name in names or keyword.iskeyword(name) else name


def _remember_lines(names: dict[str, Any]) -> None:
    """Complete names with Tab, and keep the lines that were typed from session to session."""
    try:
        import readline
        import rlcompleter
    except ImportError:  # as on Windows
        return
    readline.set_completer(rlcompleter.Completer(names).complete)
    readline.parse_and_bind("tab: complete")
    path = cache_folder(os.environ) / _HISTORY
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            readline.read_history_file(path)
    except OSError as error:
        print(f"this session keeps no history: {error}")
        return
    readline.set_history_length(_HISTORY_LINES)
    atexit.register(_write_history, path)


def _write_history(path: Path) -> None:
    import readline

    try:
        readline.write_history_file(path)
    except OSError as error:
        print(f"this session's history is lost: {error}")
