"""`headgate new`: the files of a project, or of jobs in one that exists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.own_version import own_version

_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 30
"""Characters of a name, which is part of every queue's name on AWS."""

_PLACES = {
    "app.py.txt": "{package}/app.py",
    "package.py.txt": "{package}/__init__.py",
    "test_jobs.py.txt": "tests/test_{package}.py",
    "pyproject.toml.txt": "pyproject.toml",
    "requirements.txt": "requirements.txt",
    "cdk.json.txt": "cdk.json",
    "Dockerfile.txt": "Dockerfile",
    "Makefile.txt": "Makefile",
}
"""Each template, and the place of its file in a project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """The result of `write_project`."""

    folder: Path
    app_path: str
    """The app's path, for ``headgate dev``."""
    written: tuple[str, ...]
    """The files that it wrote, from the folder on."""
    kept: tuple[str, ...]
    """Those that were there already, and stayed as they were."""


def write_project(name: str, folder: Path) -> NewProject:
    """Write the files of a project into a folder, which may exist; none in it is overwritten.

    Args:
        name: the app's: lower-case words joined by hyphens.
        folder: the project's.

    Raises:
        ConfigurationError: the name is none, or its package's folder exists.
        OSError: a file can't be written.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise ConfigurationError(
            f"{name!r} is no name of an app: write lower-case words joined by hyphens, at most "
            f"{_LONGEST} characters, as in headgate new web-shop"
        )
    package = name.replace("-", "_")
    if (folder / package).exists():
        raise ConfigurationError(
            f"{folder / package} exists, and nothing is overwritten: take another name"
        )
    values = {"name": name, "package": package, "version": own_version()}
    written: list[str] = []
    kept: list[str] = []
    for template, place in _PLACES.items():
        path = folder / (relative := place.format(**values))
        (kept if path.exists() else written).append(relative)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(filled(template, values))
    return NewProject(
        folder=folder, app_path=f"{package}.app:app", written=tuple(written), kept=tuple(kept)
    )


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return the text of a template with its names replaced by values."""
    text = (_TEMPLATES / template).read_text()
    for name, value in values.items():
        text = text.replace(f"<<{name}>>", value)
    return text
