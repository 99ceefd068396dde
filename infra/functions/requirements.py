"""The dependencies of a function: ours, pinned with hashes, and a user's.

The requirements of the user's file are installed as written, ours where it has none; in one run, so
that pip detects conflicts. Hashes are checked if the user's file has any, and then all of its
requirements need them: pip accepts no mixture. A file without hashes turns the checks off for all.

Environment markers are evaluated here, for Lambda: pip evaluates them for the interpreter that it
runs on, whatever platform it installs for (https://github.com/pypa/pip/issues/11664). So the
user's files are passed to pip as one, without markers and with absolute paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.requirements import InvalidRequirement, Requirement

from headgate.jobs.deployment.surroundings import Architecture
from headgate.jobs.errors import ConfigurationError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REFERENCE = re.compile(
    r"(-r|--requirement|-c|--constraint|-f|--find-links)(?:\s*=\s*|\s+|(?<=-[rcf]))(.+)"
)
_OPTIONS = re.compile(r"\s+--\S.*")
_COMMENT = re.compile(r"(^|\s)#.*")
_HASH = re.compile(r"\s*--hash=\S+")
_CONTINUED = re.compile(r"\\\r?\n")
_INCLUDE = ("-r", "--requirement")
_CONSTRAIN = ("-c", "--constraint")

MACHINES: Mapping[Architecture, str] = {"arm64": "aarch64", "x86_64": "x86_64"}
"""Lambda's architectures, as wheels and markers name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The requirements to install.

    Raises:
        ConfigurationError: a file of the user's can't be read.
    """

    pinned: Path
    """Our requirements: all of them, with hashes."""
    users: Path | None = None
    """The user's requirements file; it may include others."""
    owner: str = ""
    """The function, as errors name it."""
    machine: str = MACHINES["arm64"]
    """The machine that markers are evaluated for."""

    def __post_init__(self) -> None:
        list(self.files())

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield all inputs of the installation: requirements, constraints and local wheels.

        Their names contain no path of this machine.
        """
        yield self.pinned.name, self.pinned
        for index, (path, text) in enumerate(self._read()):
            yield f"requirements {index}", path
            for local in self._beside(path, text):
                yield f"requirements {index} {local.name}", local

    def options(self, scratch: Path, *, python: str) -> list[str]:
        """Return pip's and uv's options.

        Args:
            scratch: a directory for temporary files.
            python: the version of Python that markers are evaluated for, such as ``3.13``.
        """
        if self.users is None:
            return ["--requirement", str(self.pinned), "--require-hashes", "--no-deps"]
        lines = [
            line
            for path, text in self._read()
            for line in _passed_on(path, text, python, self.machine)
        ]
        named = {_canonical(line) for line in lines if not line.startswith("-")}
        hashed = any(_HASH.search(line) for line in lines)
        ours = [
            line if hashed else _HASH.sub("", line)
            for line in _logical(self.pinned.read_text(encoding="utf-8"))
            if _canonical(line) not in named
        ]
        theirs_file, ours_file = scratch / "requirements.txt", scratch / "headgate.txt"
        for path, content in ((theirs_file, lines), (ours_file, ours)):
            path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
        strictly = ["--require-hashes"] if hashed else []
        return ["--requirement", str(theirs_file), "--requirement", str(ours_file), *strictly]

    def _read(self) -> Iterator[tuple[Path, str]]:
        """Yield the user's files with their texts, an included file after the including one."""
        waiting = [self.users] if self.users is not None else []
        seen: set[Path] = set()
        while waiting:
            path = waiting.pop(0)
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            text = self._text(path)
            yield path, text
            waiting += [path.parent / each for each in _referred(text, _INCLUDE)]

    def _beside(self, path: Path, text: str) -> Iterator[Path]:
        """Yield the constraints and local wheels that a file names."""
        for each in _referred(text, _CONSTRAIN):
            constraints = path.parent / each
            self._text(constraints)
            yield constraints
        for line in _logical(text):
            if not line.startswith("-") and (wheel := _local_file(line)) is not None:
                yield wheel

    def _text(self, path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{self.owner}: its requirements could not be read: {error}"
            ) from error


def _passed_on(path: Path, text: str, python: str, machine: str) -> Iterator[str]:
    """Yield the lines of a file for pip, independent of the directory that they are read from."""
    for line in _logical(text):
        if (found := _REFERENCE.fullmatch(line)) is not None:
            option, target = found[1], found[2].strip()
            if option not in _INCLUDE:  # the included file's own lines are passed on
                yield f"{option} {_absolute(path.parent, target)}"
        elif line.startswith("-"):
            yield line
        elif (unmarked := _unmarked(line, python, machine)) is not None:
            yield unmarked


def _absolute(base: Path, target: str) -> str:
    """Resolve a path relative to the file that names it; URLs and missing files are unchanged."""
    local = base / target
    return str(local.resolve()) if local.exists() else target


def _unmarked(line: str, python: str, machine: str) -> str | None:
    """Return a requirement without its marker; None if the marker excludes Lambda."""
    options = found[0] if (found := _OPTIONS.search(line)) else ""
    try:
        wanted = Requirement(line.removesuffix(options))
    except InvalidRequirement:
        return line  # a path, or an error that pip explains
    if wanted.marker is None:
        return line
    applies = wanted.marker.evaluate(dict(_environment(python, machine)))
    wanted.marker = None
    return f"{wanted}{options}" if applies else None


def _environment(python: str, machine: str) -> Mapping[str, str]:
    """Return the environment that markers are evaluated with: Lambda on that machine.

    https://packaging.python.org/en/latest/specifications/dependency-specifiers/#environment-markers
    """
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }


def _local_file(line: str) -> Path | None:
    """Return the local file that a requirement names, by a path or by a ``file:`` URL."""
    spec = _OPTIONS.sub("", line)
    try:
        url = Requirement(spec).url
    except InvalidRequirement:
        path = Path(spec.partition(";")[0].partition("[")[0].strip())
    else:
        if url is None or not url.startswith("file:"):
            return None
        path = Path(url2pathname(urlsplit(url).path))
    return path if path.is_file() else None


def _referred(text: str, options: tuple[str, ...]) -> Iterator[str]:
    """Yield the files that these options name."""
    for line in _logical(text):
        if (found := _REFERENCE.fullmatch(line)) is not None and found[1] in options:
            yield found[2].strip()


def _logical(text: str) -> Iterator[str]:
    for raw in _CONTINUED.sub(" ", text).splitlines():
        if line := _COMMENT.sub("", raw).strip():
            yield line


def _canonical(line: str) -> str:
    """Return the package's name, normalized as in https://peps.python.org/pep-0503/."""
    found = _NAME.match(line)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else line
