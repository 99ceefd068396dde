"""The examples are users: they import what is public, and their demos one thing more."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PUBLIC = {
    "headgate",
    "headgate.errors",
    "headgate.events",
    "headgate.lambdas.consume",
    "headgate.testing",
}
OF_DEMOS = {"headgate.ops.demo.trial"}


def _imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    found = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "headgate"}


@pytest.mark.parametrize("example", ["assistant", "shop", "travel"])
def test_an_example_imports_public_modules_alone(example: str) -> None:
    files = sorted((EXAMPLES / example).rglob("*.py"))
    assert len(files) > 5
    for path in files:
        allowed = PUBLIC | OF_DEMOS if path.name == "demo.py" else PUBLIC
        assert _imported(path) <= allowed, path
