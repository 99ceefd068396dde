"""docs/runbook.md has every alarm and every log line of level error, and commands that exist."""

from __future__ import annotations

import ast
import logging
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from headgate.jobs.core.event_log import LEVELS
from headgate.ops.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "runbook.md").read_text()
COMMANDS = re.findall(r"^\$ headgate (.*)$", PAGE, re.MULTILINE)

WORDLESS = {
    "jobs/records/writes.py": "DynamoDB refused",
    "workers/parts.py": "a child process for handlers with isolation='process' can't run jobs",
    "lambdas/sweep/sweeper.py": "could not be swept",
}
"""By file whose line consists of an error's text alone, the words to look for."""


def logged() -> Iterator[tuple[str, str]]:
    """Yield the file and the words of each line that is logged at level error or above."""
    for folder in ("jobs", "workers", "lambdas"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for call in ast.walk(ast.parse(path.read_text())):
                if isinstance(call, ast.Call) and (text := _text(call)) is not None:
                    name = str(path.relative_to(ROOT))
                    words = max(re.split(r"%[sdgr]", text), key=len).strip(" ;:")
                    yield name, words if len(words) > 5 else WORDLESS[name]


def _text(call: ast.Call) -> str | None:
    """Return the text of a call that logs an error, or that prepares one with `partial`."""
    levels = {"error", "exception", "critical"}
    asked = [call.func, *call.args]
    for function, text in pairwise(asked):
        match function, text:
            case ast.Attribute(ast.Name("_log"), level), ast.Constant(str(said)) if level in levels:
                return said
    return None


@pytest.mark.parametrize(("path", "words"), [*logged()])
def test_every_line_of_level_error_is_explained(path: str, words: str) -> None:
    assert words in PAGE, f"of {path}"


@pytest.mark.parametrize("name", [e.name for e, lvl in LEVELS.items() if lvl >= logging.ERROR])
def test_every_event_of_level_error_is_explained(name: str) -> None:
    assert f"| `{name}` |" in PAGE


def test_every_alarm_is_explained() -> None:
    alarms = re.findall(
        r"^\| `([\w-]+)` \|", (ROOT / "docs" / "watching.md").read_text(), re.MULTILINE
    )
    assert len(alarms) > 10
    for name in alarms:
        known = re.sub(r".*-(silent|errors)$", r"…-\1", name)
        assert f"| `{known}` |" in PAGE


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_exists_with_its_options(line: str) -> None:
    command: Any = typer.main.get_command(cli)
    words = shlex.split(line)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    known = {option for each in command.params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= known
