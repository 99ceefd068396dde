"""A user's code in a function's bundle: a directory, except files that are of no use on Lambda."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import IgnoreStrategy

from headgate.jobs.errors import ConfigurationError

IGNORED = (
    "**/.*",  # versions, environments, caches, secrets, and this machine's leftovers
    "**/*.env",
    "**/*.key",
    "**/*.p12",
    "**/*.pfx",
    "**/tests",
    "**/__pycache__",
    "**/*.pyc",
    "**/node_modules",
    "cdk.out*",
    "cdk.json",
    "cdk.context.json",
)
"""Patterns left out at any depth; ``.dockerignore`` can re-include them with ``!``."""

_FILE = ".dockerignore"

_ENVIRONMENT = "pyvenv.cfg"
"""A file in every virtual environment, whatever its name (PEP 405)."""

_PRIVATE_KEY = b"PRIVATE KEY-----"
"""Marks a PEM file with a private key (RFC 7468); files of certificates belong to the code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCode:
    """A directory of code for the bundle.

    Raises:
        ConfigurationError: it is no directory, or the handler's module isn't in it.
    """

    root: Path
    handler: str
    """``module.attribute``, with dots between packages."""
    owner: str
    """The function, as errors name it."""
    output: Path | None = None
    """CDK's present output directory, which is left out; so are its earlier ones."""

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise ConfigurationError(
                f"{self.owner}: its source {str(self.root)!r} is no directory below the one where "
                "CDK runs"
            )
        module, _, attribute = self.handler.rpartition(".")
        path = self.root.joinpath(*module.split("."))
        if not module or not attribute.isidentifier() or not _is_module(path):
            raise ConfigurationError(
                f"{self.owner}: its handler {self.handler!r} must be module.attribute, of a module "
                f"in its source {str(self.root)!r}"
                + (f"; there is no {path.relative_to(self.root)}.py" if module else "")
            )

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield the files by their names below the root, in a stable order.

        Raises:
            ConfigurationError: the handler's module is excluded by the patterns to ignore, or a
                link leads nowhere or back to one of its own parent directories.
        """
        module = self.handler.rpartition(".")[0].replace(".", "/")
        handlers = {f"{module}.py", f"{module}/__init__.py"}
        found = sorted(self._walked())
        if not any(name in handlers for name, _ in found):
            raise ConfigurationError(
                f"{self.owner}: {_FILE} leaves out the module of its handler {self.handler!r}"
            )
        yield from found

    def _walked(self) -> Iterator[tuple[str, Path]]:
        root = self.root.resolve()
        ignore = IgnoreStrategy.docker(str(root), [*IGNORED, *self._ignored()])
        # Links are followed: a shared package is often linked into each service that uses it.
        for directory, below, names in os.walk(root, followlinks=True):
            here = Path(directory)
            below[:] = [
                each
                for each in below
                if not ignore.completely_ignores(str(here / each))
                and not self._stays_here(here / each)
            ]
            for each in below:
                self._check_circle(here / each)
            for path in (here / name for name in names):
                if not ignore.ignores(str(path)) and self._is_carried(path):
                    yield path.relative_to(root).as_posix(), path

    def _is_carried(self, path: Path) -> bool:
        if path.is_symlink() and not path.exists():
            raise ConfigurationError(
                f"{self.owner}: {str(path)!r} is a link to nothing: fix it, or name it in {_FILE}"
            )
        if path.suffix == ".pem" and _PRIVATE_KEY in path.read_bytes():
            return False
        return path.is_file()

    def _check_circle(self, directory: Path) -> None:
        if not directory.is_symlink():
            return
        if directory.resolve() in {above.resolve() for above in directory.parents}:
            raise ConfigurationError(
                f"{self.owner}: the link {str(directory)!r} leads back to a directory that it lies "
                f"in: remove it, or name it in {_FILE}"
            )

    def _stays_here(self, directory: Path) -> bool:
        """Return True for a virtual environment, and for CDK's present and earlier outputs."""
        if (directory / _ENVIRONMENT).is_file() or (directory / "cdk.out").is_file():
            return True
        return self.output is not None and directory == self.output.resolve()

    def _ignored(self) -> list[str]:
        path = self.root / _FILE
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _is_module(path: Path) -> bool:
    return path.with_name(f"{path.name}.py").is_file() or (path / "__init__.py").is_file()
