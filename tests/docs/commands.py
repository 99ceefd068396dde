"""The command lines that pages tell readers to type."""

from __future__ import annotations

import shlex
from functools import cache
from typing import Any

import typer

from headgate.ops.cli.main import cli


@cache
def _headgate() -> Any:
    return typer.main.get_command(cli)


def unknown_options(line: str) -> set[str]:
    """Return the options of a line, without its first word ``headgate``, that its command lacks.

    Raises:
        KeyError: there is no such command.
    """
    words = shlex.split(line, comments=True)
    if words[0] in ("-A", "--app"):
        words = words[2:]
    command = _headgate()
    known = {option for each in command.params for option in each.opts} | {"--help"}
    while words and hasattr(command, "commands") and words[0] not in known:
        command = command.commands[words.pop(0)]
    known |= {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    return {word.partition("=")[0] for word in words if word.startswith("--")} - known
