"""docs/runbook.md has every alarm and every log line of level error, as the code has them."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from headgate import App, Priority, Schedule
from headgate.infra import ConsumerGroup, Deployment, WorkerGroup
from headgate.infra.monitoring.alarm_rules import rules_for
from headgate.infra.monitoring.queue_rules import label
from headgate.infra.monitoring.rule import Rule, pages
from headgate.jobs.core.event_log import LEVELS
from headgate.jobs.deployment.alarms.thresholds import AlarmKind

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "runbook.md").read_text()

FOLDERS = ("jobs", "workers", "lambdas", "ops")

NOBODY_ON_CALL = ("ops/dev/", "ops/local/")
"""The folders whose code runs on a developer's machine only."""

WORDLESS = {
    "jobs/records/writes.py": "DynamoDB refused",
    "workers/parts.py": "a child process for handlers with isolation='process' can't run jobs",
}
"""By file whose line consists of an error's text alone, the words to look for."""

HANDED_ON = {"lambdas/sweep/sweeper.py": "failed"}
"""By file whose line consists of what it is handed, the method that is handed the words."""

OF_EVENTS = {"jobs/core/event_log.py", "lambdas/bridge.py"}
"""The files that log events, whose levels are in `LEVELS`."""

GRADED = {"jobs/client/auditing/auditor.py", "workers/process/supervisor.py"}
"""The files that compute a line's level, none of them higher than a warning."""

_LOGS = re.compile(r"\.(error|exception|critical|fatal|log)\b")
_ERROR_LEVELS = {"error", "exception", "critical", "fatal"}


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Yield each file that may log an error for a person on call."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            source = path.read_text()
            if not name.startswith(NOBODY_ON_CALL) and _LOGS.search(source):
                yield name, ast.parse(source)


def logged() -> Iterator[tuple[str, str]]:
    """Yield the file and the words of each line that is logged at level error or above."""
    for name, module in sources():
        for call in ast.walk(module):
            if not isinstance(call, ast.Call):
                continue
            for text in (*_texts(call), *_handed_on(name, call)):
                words = _words(text)
                if words or name not in HANDED_ON.keys() | OF_EVENTS:
                    yield name, words or WORDLESS[name]


def _texts(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the text of a call that logs an error, or that prepares one with `partial`."""
    for function, text in pairwise([call.func, *call.args]):
        match function:
            case ast.Attribute(logger, level) if level in _ERROR_LEVELS and _is_logger(logger):
                yield text


def _is_logger(node: ast.expr) -> bool:
    match node:
        case ast.Call(function):
            return _is_logger(function)
        case ast.Attribute(_, name) | ast.Name(name):
            return name.lstrip("_").lower().startswith("log")
    return False


def _handed_on(name: str, call: ast.Call) -> Iterator[ast.expr]:
    match call:
        case ast.Call(ast.Attribute(_, method), [text, *_]) if HANDED_ON.get(name) == method:
            yield text


def _words(text: ast.expr) -> str:
    """Return the longest piece of a text that is always the same."""
    match text:
        case ast.Constant(str(said)):
            pieces = re.split(r"%[sdgr]", said)
        case ast.JoinedStr(values):
            pieces = [str(each.value) for each in values if isinstance(each, ast.Constant)]
        case _:
            pieces = [""]
    words = max(pieces, key=len).strip(" ;:")
    return words if len(words) > 5 else ""


def everything() -> list[Rule]:
    """Return the alarms of an app that has one of each."""
    app = App("shop", stage="prod", priorities="all")
    app.define("capture", alert_at_once=True)
    app.define("report", schedule=Schedule.rate(timedelta(days=1)))
    app.queue("payments", priorities=[Priority.CRITICAL])
    app.queue("images", priorities=[Priority.LOW])
    deployment = Deployment(
        workers=(
            WorkerGroup(queues=("jobs", "payments")),
            WorkerGroup(name="idle", queues=("images",), min_tasks=0),
        ),
        consumers=(ConsumerGroup(name="fast", handler="shop.fast", queues=("images",)),),
    )
    rules = rules_for(app, deployment, bridge=True, schedules=True, sweep="shop-prod-sweep")
    labels = "|".join(label(spec) for spec in app.topology.queues)
    return [replace(rule, name=re.sub(rf"^({labels})-", "", rule.name)) for rule in rules]


@pytest.mark.parametrize(("path", "words"), [*logged()])
def test_every_line_of_level_error_is_explained(path: str, words: str) -> None:
    assert words in PAGE, f"of {path}"


@pytest.mark.parametrize("name", [e.name for e, lvl in LEVELS.items() if lvl >= logging.ERROR])
def test_every_event_of_level_error_is_explained(name: str) -> None:
    assert f"| `{name}` |" in PAGE


def test_a_line_whose_level_is_computed_is_no_error() -> None:
    found = set()
    for name, module in sources():
        nodes = [*ast.walk(module)]
        computes = any(
            isinstance(each, ast.Attribute) and each.attr == "log" and _is_logger(each.value)
            for each in nodes
        )
        if computes and name not in OF_EVENTS:
            found.add(name)
            levels = {each.attr for each in nodes if isinstance(each, ast.Attribute)}
            assert not levels & {"ERROR", "CRITICAL", "FATAL"}, name
    assert found == GRADED


def test_every_alarm_is_explained() -> None:
    rules = everything()
    assert {rule.kind for rule in rules} == {*get_args(AlarmKind)}
    for name in {*(rule.name for rule in rules), *pages(rules)}:
        known = re.sub(r".*-(silent|errors|page)$", r"…-\1", name)
        assert f"| `{known}` |" in PAGE


def test_what_the_runbook_explains_of_alarms_exists() -> None:
    named = re.findall(r"^\| `([a-z…-]+)` \|", PAGE.split("## Log lines")[0], re.MULTILINE)
    rules = everything()
    names = {*(rule.name for rule in rules), *pages(rules)}
    existing = {re.sub(r".*-(silent|errors|page)$", r"…-\1", name) for name in names}
    assert sorted(named) == sorted(existing)
