"""``headgate new``: what it writes works as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

ROOT = Path(__file__).parents[4]
HEADGATE = [sys.executable, "-c", "from headgate.ops import main; main()"]


def test_a_project_passes_its_own_tests_and_check_as_it_was_written(
    here: Path, headgate: CommandLine
) -> None:
    ended = headgate("new", "web-shop")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith("cd web-shop\npython -m pytest\nheadgate dev web_shop.app:app\n")
    project = here / "web-shop"
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    for command in (
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        [*HEADGATE, "-A", "web_shop.app:app", "check"],
    ):
        done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_project_s_further_tests_can_take_the_fixture(
    here: Path, headgate: CommandLine
) -> None:
    headgate("new", "web-shop")
    wanted = '\nheadgate_app = "web_shop.app:app"\n'
    assert wanted in (here / "web-shop" / "pyproject.toml").read_text()


def test_a_new_project_keeps_what_tools_leave_behind_out_of_git(
    here: Path, headgate: CommandLine
) -> None:
    headgate("new", "web-shop")
    ignored = (here / "web-shop" / ".gitignore").read_text().split()
    assert {".venv/", "__pycache__/", ".pytest_cache/", "cdk.out/"} <= {*ignored}


def test_what_exists_is_kept_and_said(here: Path, headgate: CommandLine) -> None:
    (here / "Makefile").write_text("all:\n")
    ended = headgate("new", "mail", "--into", ".")
    assert ended.code == 0
    assert "kept Makefile, which was there\n" in ended.out
    assert "\ncd " not in ended.out
    assert (here / "Makefile").read_text() == "all:\n"
    assert (here / "mail" / "app.py").exists()


def test_what_the_files_that_were_kept_lack_is_said(here: Path, headgate: CommandLine) -> None:
    (here / "pyproject.toml").write_text("[project]\n")
    (here / "cdk.json").write_text('{"context": {"headgate:app": "mail.app:app"}}')
    said = headgate("new", "mail", "--into", ".").out
    assert "\npyproject.toml: add headgate[emf,ops] to the dependencies\n" in said
    assert "\ncdk.json: " not in said


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("class", "is a word of Python's own"),
        ("queue", "would hide Python's own module"),
        ("headgate", "would hide an installed package"),
        ("pytest", "would hide an installed package"),
        ("tests", "is the folder of the tests"),
    ],
)
def test_a_name_whose_package_could_not_be_imported_writes_nothing(
    name: str, why: str, here: Path, headgate: CommandLine
) -> None:
    before = sorted(here.iterdir())
    ended = headgate("new", name)
    assert ended.code == 2
    assert f"the package {name!r} {why}: take another name, such as {name}-jobs" in ended.err
    assert sorted(here.iterdir()) == before


def test_a_module_of_the_package_s_name_is_not_hidden(here: Path, headgate: CommandLine) -> None:
    (here / "mail.py").touch()
    ended = headgate("new", "mail", "--into", ".")
    assert ended.code == 2
    assert "mail.py exists, and nothing is overwritten" in ended.err
    assert not (here / "cdk.json").exists()


def test_a_file_in_the_way_of_the_project_is_named(here: Path, headgate: CommandLine) -> None:
    (here / "web-shop").write_text("notes")
    ended = headgate("new", "web-shop")
    assert ended.code == 2
    assert "the project can't be written: web-shop" in ended.err
    assert "--into" in ended.err
    assert (here / "web-shop").read_text() == "notes"


def test_a_file_in_the_way_of_a_folder_leaves_no_half_of_a_project(
    here: Path, headgate: CommandLine
) -> None:
    (here / "tests").touch()
    before = sorted(here.iterdir())
    ended = headgate("new", "mail", "--into", ".")
    assert (ended.code, sorted(here.iterdir())) == (2, before)
    assert "the project can't be written: tests: Not a directory" in ended.err


@pytest.mark.parametrize("name", ["Web-Shop", "web_shop", "", "1shop", "../shop", "s" * 31])
def test_a_name_that_aws_would_refuse_writes_nothing(
    name: str, here: Path, headgate: CommandLine
) -> None:
    before = sorted(here.iterdir())
    ended = headgate("new", name)
    assert ended.code == 2
    assert "is no name of an app" in ended.err
    assert sorted(here.iterdir()) == before


def test_a_package_that_exists_is_not_written_into(here: Path, headgate: CommandLine) -> None:
    (here / "mail").mkdir()
    ended = headgate("new", "mail", "--into", ".")
    assert ended.code == 2
    assert "mail exists, and nothing is overwritten" in ended.err
    assert not (here / "cdk.json").exists()


def test_the_quickstart_shows_the_app_as_it_is_written(here: Path, headgate: CommandLine) -> None:
    headgate("new", "web-shop")
    source = (here / "web-shop" / "web_shop" / "app.py").read_text()
    _, _, declared = source.partition('"""\n\n')
    assert f"```python\n{declared}```" in (ROOT / "docs" / "quickstart.md").read_text()
