"""`headgate new`: the files of a project, or of jobs in one that exists."""

from __future__ import annotations

import errno
import keyword
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from headgate.jobs.definitions.current_folder import OURS
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_version import own_version

_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 30
"""Characters of a name, which is part of every queue's name on AWS."""
_TESTS = "tests"

_PLACES = {
    "app.py.txt": "{package}/app.py",
    "package.py.txt": "{package}/__init__.py",
    "test_jobs.py.txt": "tests/test_{package}.py",
    "pyproject.toml.txt": "pyproject.toml",
    "requirements.txt": "requirements.txt",
    "cdk.json.txt": "cdk.json",
    "Dockerfile.txt": "Dockerfile",
    "Makefile.txt": "Makefile",
    "gitignore.txt": ".gitignore",
}
"""Each template, and the place of its file in a project."""

_ADDITIONS = {
    "pyproject.toml": "add headgate[emf,ops] to the dependencies",
    "requirements.txt": "add headgate[emf,ops] and dumb-init, for the workers' image",
    "cdk.json": 'add "headgate:app": "{package}.app:app" to the context',
    "Dockerfile": "the workers need one of their own (docs/worker-service.md)",
}
"""The advice on a file that was there, unless it names Headgate."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """The result of `write_project`."""

    folder: Path
    app_path: str
    """The app's path, for ``headgate dev``."""
    written: tuple[str, ...]
    """The files that it wrote, from the folder on."""
    kept: tuple[str, ...]
    """Those that were there already, and stayed as they were."""
    additions: Mapping[str, str]
    """The advice on some of these, by their places."""


def write_project(name: str, folder: Path) -> NewProject:
    """Write the files of a project into a folder, which may exist; none in it is overwritten.

    Args:
        name: the app's: lower-case words joined by hyphens.
        folder: the project's.

    Raises:
        ConfigurationError: the name is none, its package would hide another module or be hidden by
            one, or a file can't be written.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise ConfigurationError(
            f"{name!r} is no name of an app: write lower-case words joined by hyphens, at most "
            f"{_LONGEST} characters, as in headgate new web-shop"
        )
    package = name.replace("-", "_")
    _check_package(name, package, folder)
    values = {"name": name, "package": package, "version": own_version()}
    try:
        written, kept = _written(values, folder)
        additions = _additions(kept, values, folder)
    except OSError as error:
        raise ConfigurationError(
            f"the project can't be written: {error.filename}: {error.strerror}. Take another "
            "folder with --into"
        ) from error
    return NewProject(
        folder=folder,
        app_path=f"{package}.app:app",
        written=written,
        kept=kept,
        additions=additions,
    )


def _additions(kept: Sequence[str], values: Mapping[str, str], folder: Path) -> dict[str, str]:
    return {
        place: _ADDITIONS[place].format(**values)
        for place in kept
        if place in _ADDITIONS and b"headgate" not in (folder / place).read_bytes()
    }


def _check_package(name: str, package: str, folder: Path) -> None:
    """Refuse a package that can't be imported, or that another module would be mistaken for."""
    if (folder / package).exists() or (folder / f"{package}.py").exists():
        there = package if (folder / package).exists() else f"{package}.py"
        raise ConfigurationError(
            f"{folder / there} exists, and nothing is overwritten: take another name"
        )
    if keyword.iskeyword(package):
        taken = "is a word of Python's own"
    elif package in sys.stdlib_module_names:
        taken = "would hide Python's own module"
    elif package == _TESTS:
        taken = "is the folder of the tests"
    elif package in OURS or _is_installed(package, folder):
        taken = "would hide an installed package"
    else:
        return
    raise ConfigurationError(
        f"the package {package!r} {taken}: take another name, such as {name}-jobs"
    )


def _is_installed(package: str, folder: Path) -> bool:
    own = {Path.cwd(), folder.resolve()}
    elsewhere = [each for each in sys.path if Path(each).resolve() not in own]
    found = PathFinder.find_spec(package, elsewhere)
    return found is not None and found.origin is not None  # a folder without code hides nothing


def _written(values: Mapping[str, str], folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write the files that are not there; return the places of these, and of the others."""
    places = {place.format(**values): template for template, place in _PLACES.items()}
    kept = [place for place in places if (folder / place).exists()]
    written = [place for place in places if place not in kept]
    for parent in {(folder / place).parent for place in written}:
        if parent.exists() and not parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(parent))
    for place in written:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(filled(places[place], values))
    return tuple(written), tuple(kept)


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return the text of a template with its names replaced by values."""
    text = (_TEMPLATES / template).read_text()
    for name, value in values.items():
        text = text.replace(f"<<{name}>>", value)
    return text
