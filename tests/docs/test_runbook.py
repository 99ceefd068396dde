"""docs/runbook.md has every alarm and every log line of level error."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from headgate.jobs.core.event_log import LEVELS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "runbook.md").read_text()

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
            source = path.read_text()
            if "_log" not in source:
                continue  # most of them, which need not be parsed
            for call in ast.walk(ast.parse(source)):
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
