"""The measures of the code are computed as described."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.architecture.imports import PACKAGES, circles, module_graph, package_graph
from tests.architecture.measure import Piece, Sources, asks, largest_folders, measures

ROOT = Path(__file__).parents[2]

MODULES = {
    "jobs/__init__.py": '"""The jobs."""\n',
    "jobs/clock.py": """
        class Clock:
            '''What time it is.'''

            zone: str
            '''How the time is written.'''

            def now(self) -> float:
                '''The time.

                It is monotonic.
                '''
                whole = 1.0

                return whole

            def set(self, time) -> None: ...

            def _tick(self, seconds): ...
        """,
    "jobs/core/one.py": """
        from headgate.jobs.clock import Clock

        def later() -> None:
            from headgate.jobs.core import two
        """,
    "jobs/core/two.py": "from headgate.jobs.core.one import later\n",
    "workers/slot.py": "import headgate.jobs.core.two\n",
    "workers/gate.py": """
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            from headgate.workers import shut
        """,
    "workers/shut.py": "from headgate.workers.gate import x\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of a few modules, without ``headgate`` in their names, like the old tree."""
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "last.py").touch()
    for path, text in MODULES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(textwrap.dedent(text))
    return tmp_path


def test_cycles_include_function_level_imports_but_not_type_only_ones(tree: Path) -> None:
    pair = ["jobs.core.one", "jobs.core.two"]
    assert circles(module_graph(tree, for_types=False)) == [pair]
    assert circles(module_graph(tree, for_types=True)) == [pair, ["workers.gate", "workers.shut"]]


def test_modules_of_one_package_make_no_circle_of_packages(tree: Path) -> None:
    packages = package_graph(module_graph(tree, for_types=False))
    assert packages["jobs.core"] == {"jobs.clock"}
    assert packages["workers.slot"] == {"jobs.core"}
    assert not circles(packages)


def test_a_tree_from_before_headgate_was_one_name_is_measured_too(tree: Path) -> None:
    path = tree / "jobs" / "core" / "two.py"
    path.write_text("from jobs.core.one import later\n")
    assert circles(module_graph(tree, for_types=False)) == [["jobs.core.one", "jobs.core.two"]]


def test_docstrings_do_not_count_and_private_functions_need_no_types(
    tree: Path,
) -> None:
    found = dict(measures(tree))
    assert str(found["longest body"]) == "3  (jobs.clock.now)"
    assert found["public functions with all types"] == "66.7%  (2 of 3)"
    assert str(found["biggest class"]) == "18  (jobs.clock.Clock)"


def test_docstrings_of_attributes_count_among_those_that_ask(tree: Path) -> None:
    [share] = [value for name, value in measures(tree) if name.startswith("docstrings")]
    assert share == "50.0%  (2 of 4)"


def test_an_init_is_no_module_of_a_folder(tree: Path) -> None:
    assert largest_folders(tree)["jobs"] == ("jobs", 2)


@pytest.mark.parametrize(
    ("docstring", "asking"),
    [("What it is.", True), ("Whether, then?", True), ("Whatever it is.", False), ("", False)],
)
def test_a_question_is_told_by_its_first_word(docstring: str, asking: bool) -> None:
    assert asks(docstring) is asking


def beyond(pieces: list[Piece], most: int) -> list[str]:
    return [str(piece) for piece in pieces if piece.lines > most]


def test_no_body_class_or_file_of_this_tree_is_larger_than_its_bound() -> None:
    sources = Sources(ROOT)
    assert beyond(sources.bodies, 60) == []
    assert beyond(sources.classes, 300) == []
    assert beyond(sources.files, 400) == []


def test_no_folder_of_this_tree_holds_more_than_14_modules() -> None:
    full = {folder: count for folder, count in largest_folders(ROOT).values() if count > 14}
    assert full == {}, "give those that serve one purpose a folder of their own"


def test_the_command_measures_this_tree() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.architecture.measure"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "function bodies, median and 90th percentile" in done.stdout
