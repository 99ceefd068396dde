"""The current folder comes first on the import path, unless it shadows what Headgate needs."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from headgate.jobs.definitions.current_folder import OURS, check_folder, look_here_first
from headgate.jobs.errors import ConfigurationError

ROOT = Path(__file__).parents[4]
SOURCES = ("jobs", "workers", "lambdas", "ops", "infra")
EXTRAS = {
    "worker",
    "emf",
    "otel",
    "lambda",
    "infra",
    "ops",
    "console",
    "encryption",
    "export",
    "local",
    "sentry",
}
STUBS = {"types_aiobotocore_dynamodb", "types_aiobotocore_sqs", "wrapt-stubs"}
"""Imported by type checkers only."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    return tmp_path


def test_it_comes_before_the_installed_packages(folder: Path) -> None:
    (folder / "shop.py").touch()
    look_here_first()
    look_here_first()
    assert sys.path[0] == str(folder)
    assert sys.path.count(str(folder)) == 1


@pytest.mark.parametrize(
    "file", ["boto3.py", "boto3/__init__.py", "headgate.py", "urllib3.pyc", "json.py", "rich.py"]
)
def test_a_module_in_place_of_one_that_headgate_needs_is_refused(folder: Path, file: str) -> None:
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).touch()
    before = sys.path[:]
    with pytest.raises(ConfigurationError, match="would be imported in place of") as refused:
        look_here_first()
    assert str(folder / file) in str(refused.value)
    assert sys.path == before
    with pytest.raises(ConfigurationError):
        check_folder(str(folder))


def test_a_name_of_python_s_own_is_said_to_be_one(folder: Path) -> None:
    (folder / "code.py").touch()
    with pytest.raises(ConfigurationError, match="Python's own module 'code'") as refused:
        look_here_first()
    assert "rename it, or move it into a package" in str(refused.value)


@pytest.mark.parametrize(
    "file", ["boto3/notes.txt", "boto3.txt", "shop/boto3.py", "profile.py", "jobs/__init__.py"]
)
def test_what_shadows_nothing_of_headgates_is_left_alone(folder: Path, file: str) -> None:
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).touch()
    look_here_first()


def test_headgates_own_sources_are_no_stranger() -> None:
    check_folder(str(ROOT))


def test_a_command_runs_no_boto3_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "boto3.py").write_text("print('it ran')")
    (tmp_path / "shop.py").write_text("from headgate import App\napp = App('shop')\n")
    argv = ["headgate", "-A", "shop:app", "queues", "list"]
    run = f"import sys; sys.argv[:] = {argv}; from headgate.ops import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", run],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "AWS_REGION": "eu-west-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "boto3.py would be imported in place of the installed package 'boto3'" in done.stderr
    assert "it ran" not in done.stdout


def test_all_that_headgate_imports_is_known_by_name() -> None:
    imported = {name for folder in SOURCES for name in _imports_of(ROOT / folder)}
    assert imported - OURS <= STUBS | {"examples"}, "OURS has to name what is imported"


def test_all_that_it_depends_on_is_known_by_name() -> None:
    dependencies = set(_dependencies("headgate", EXTRAS, set()))
    modules = {
        module
        for module, providers in importlib.metadata.packages_distributions().items()
        if {_normal(each) for each in providers} & dependencies
    }
    # Where pip has compiled a package of one module, its list of files names that folder besides.
    assert modules - OURS <= STUBS | {"__pycache__"}


def _imports_of(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    yield from (each.name.partition(".")[0] for each in names)
                case ast.ImportFrom(module=str(module), level=0):
                    yield module.partition(".")[0]


def _dependencies(name: str, extras: set[str], seen: set[tuple[str, str]]) -> Iterator[str]:
    """Yield the installed distributions that one needs, itself included."""
    if (name, ",".join(sorted(extras))) in seen:
        return
    seen.add((name, ",".join(sorted(extras))))
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return
    yield _normal(name)
    for requirement in map(Requirement, found.requires or []):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": each}) for each in extras or {""}):
            yield from _dependencies(requirement.name, set(requirement.extras), seen)


def _normal(name: str) -> str:
    return name.lower().replace("_", "-")
