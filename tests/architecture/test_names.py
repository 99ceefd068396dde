"""One word for one thing: the name of a class stands for one class in the whole tree."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("infra", "jobs", "lambdas", "ops", "workers")

TWICE: dict[str, str] = {
    "JobCancelled": "users know it by its module: headgate.events, or headgate.errors",
    "JobDiscarded": "users know it by its module: headgate.events, or headgate.errors",
    "JobDropped": "users know it by its module: headgate.events, or headgate.errors",
}
"""Names that stand for two classes, with the reason. Private names are read in one module only."""


def _places() -> dict[str, list[str]]:
    """Return the modules of each public class name."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    return places


def test_no_two_classes_have_the_same_name() -> None:
    twice = {name: places for name, places in _places().items() if len(places) > 1}
    assert {name: places for name, places in twice.items() if name not in TWICE} == {}


def test_the_exceptions_are_needed() -> None:
    places = _places()
    assert [name for name in TWICE if len(places[name]) < 2] == []


def test_no_module_is_imported_under_another_name() -> None:
    """A module that is read as ``book`` here and ``registry`` there has two names."""
    renamed = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headgate."):
                    renamed += [
                        f"{path.relative_to(ROOT)}: {each.name} as {each.asname}"
                        for each in node.names
                        if each.asname not in (None, each.name) and _is_module(node, each.name)
                    ]
    assert renamed == []


def _is_module(node: ast.ImportFrom, name: str) -> bool:
    inside = (node.module or "").removeprefix("headgate.").replace(".", "/")
    return (ROOT / inside / f"{name}.py").exists() or (ROOT / inside / name).is_dir()
