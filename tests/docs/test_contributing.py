"""CONTRIBUTING.md shows the tree as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.test_layers import FLOORS, PACKAGES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
[PICTURE] = re.findall(r"```mermaid\n(.*?)```", PAGE, re.DOTALL)
PATHS = sorted(set(re.findall(r"`([\w.]+/[\w./]*|[\w.]+\.(?:md|py|toml))`", PAGE)))


@pytest.mark.parametrize("path", PATHS)
def test_every_path_that_it_names_exists(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "tests" / "simulation" / path).exists()


def test_a_jobs_way_is_at_most_ten_files_and_so_is_each_other() -> None:
    _, *ways = re.split(r"\*\*One [^*]+:\*\*", PAGE.partition("| where is")[0])
    assert len(ways) == 3
    assert all(1 < len(set(re.findall(r"`[\w/]+\.py`", way))) <= 10 for way in ways)


def test_the_picture_has_the_packages_of_jobs_in_the_order_of_their_floors() -> None:
    inside = PICTURE.partition("direction TB")[2].partition("end\n")[0]
    assert [*dict.fromkeys(re.findall(r"\w+", inside))] == FLOORS[::-1]


def test_the_picture_has_every_folder_and_its_packages() -> None:
    for folder in PACKAGES.keys() - {"jobs", "ops"}:
        [inside] = re.findall(rf'\["{folder}/<br/>(.*?)"\]', PICTURE)
        packages = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
        assert packages <= set(re.split(r" · |<br/>", inside))
