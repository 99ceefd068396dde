"""Comments and pages name modules that exist: no name outlives a move."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.test_layers import PACKAGES

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / folder for folder in (*PACKAGES, "tests", "examples")]
TEXTS = [
    *(path for folder in FOLDERS for path in folder.rglob("*.py")),
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
]
NAME = re.compile(rf"`(?:headgate\.)?((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`")


def exists(name: str) -> bool:
    """Return True for a module, or a name in a module."""
    path, parts = ROOT, name.split(".")
    while parts and (path / parts[0]).is_dir():
        path /= parts.pop(0)
    if parts and (path / f"{parts[0]}.py").exists():
        path /= f"{parts.pop(0)}.py"
    if not parts:
        return True
    source = path / "__init__.py" if path.is_dir() else path
    return bool(re.search(rf"\b{parts[0]}\b", source.read_text()))


def test_every_module_that_a_text_names_exists() -> None:
    named = {(path, name) for path in TEXTS for name in NAME.findall(path.read_text())}
    assert len(named) > 100
    lost = {f"{path.relative_to(ROOT)}: {name}" for path, name in named if not exists(name)}
    assert not lost


@pytest.mark.parametrize("name", ["jobs.clock", "jobs.core.clock.Cloc", "workers.polling"])
def test_a_name_of_before_a_move_or_a_misspelt_one_does_not_exist(name: str) -> None:
    assert not exists(name)
    assert exists("jobs.core.clock.Clock")
