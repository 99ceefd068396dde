"""One word for one thing: the name of a class stands for one class in the whole tree.

And one spelling: the asynchronous thing is `AsyncX`, or ``async_x``, and the synchronous one `X`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("infra", "jobs", "lambdas", "ops", "workers")

TWICE: dict[str, str] = {
    "Bundle": "users know the option of a job type; a function's code is internal to `infra`",
    "DeadLetter": "users know the letter; the verdict that makes one is internal to `execution`",
    "JobCancelled": "users know it by its module: headgate.events, or headgate.errors",
    "JobDiscarded": "users know it by its module: headgate.events, or headgate.errors",
    "JobDropped": "users know it by its module: headgate.events, or headgate.errors",
}
"""Names that stand for two classes, with the reason. Private names are read in one module only."""


OTHER_SPELLING = re.compile(
    r"_*(?:(?:Sync|Blocking|Aio)[A-Z]|Blocking$|(?:sync|blocking|aio)_|blocking$)"
)
"""Names that tell a synchronous thing from an asynchronous one in another way."""


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


def test_names_of_asynchronous_classes_begin_with_async() -> None:
    spelled = []
    for package in (*PACKAGES, "tests"):
        for path in sorted((ROOT / package).rglob("*.py")):
            names = [path.stem, *_names_in(ast.parse(path.read_text()))]
            spelled += [
                f"{path.relative_to(ROOT)}: {name}" for name in names if OTHER_SPELLING.match(name)
            ]
    assert spelled == []


def _names_in(tree: ast.Module) -> Iterator[str]:
    """Yield the names of classes, and of the parameters of functions."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name


@pytest.mark.parametrize(
    ("name", "is_other"),
    [
        *((name, True) for name in ("SyncTable", "_BlockingTable", "Blocking", "AioClient")),
        *((name, True) for name in ("sync_store", "blocking", "_aio_client")),
        *((name, False) for name in ("Table", "AsyncTable", "async_store", "Asynchronous")),
        *((name, False) for name in ("Synchronous", "synchronous", "aiobotocore")),
    ],
)
def test_other_spellings_are_recognized(name: str, is_other: bool) -> None:
    assert bool(OTHER_SPELLING.match(name)) is is_other
