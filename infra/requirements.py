"""The dependencies of a function: ours, pinned with hashes, and a user's.

What the user's file names is installed as it says there, ours where it says nothing; together, so
that pip finds what does not go together. Hashes are checked if all of it has some: pip takes no
mixture. So a user's file without them makes the whole as strict as it is itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import ConfigurationError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INCLUDES = re.compile(r"(?:-r\s*|--requirement[=\s]\s*)(.+)")
_COMMENT = re.compile(r"(^|\s)#.*")
_HASH = re.compile(r"\s*--hash=\S+")
_CONTINUED = re.compile(r"\\\r?\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What is to be installed.

    Raises:
        ConfigurationError: a file of the user's can't be read.
    """

    pinned: Path
    """Ours: all of them, with hashes."""
    users: Path | None = None
    """The user's requirements file; it may include others."""
    owner: str = ""
    """Whose it is, for errors."""

    def __post_init__(self) -> None:
        list(self.files())

    def files(self) -> Iterator[tuple[str, Path]]:
        """All files that it is read from, each with a name that no machine's paths are in."""
        yield self.pinned.name, self.pinned
        for index, (path, _) in enumerate(self._read()):
            yield f"requirements {index}", path

    def options(self, scratch: Path) -> list[str]:
        """pip's and uv's options for it; ``scratch`` is a directory to write into."""
        if self.users is None:
            return ["--requirement", str(self.pinned), "--require-hashes", "--no-deps"]
        lines = [line for _, text in self._read() for line in _lines(text)]
        named = {_canonical(line) for line in lines}
        hashed = any(_HASH.search(line) for line in lines)
        ours = scratch / self.pinned.name
        ours.write_text(
            "".join(
                f"{line if hashed else _HASH.sub('', line)}\n"
                for line in _lines(self.pinned.read_text(encoding="utf-8"))
                if _canonical(line) not in named
            ),
            encoding="utf-8",
        )
        strictly = ["--require-hashes"] if hashed else []
        return ["--requirement", str(self.users), "--requirement", str(ours), *strictly]

    def _read(self) -> Iterator[tuple[Path, str]]:
        """The user's files with their texts, an included one after what includes it."""
        waiting = [self.users] if self.users is not None else []
        seen: set[Path] = set()
        while waiting:
            path = waiting.pop(0)
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            text = self._text(path)
            yield path, text
            waiting += [path.parent / each for each in _included(text)]

    def _text(self, path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{self.owner}: its requirements could not be read: {error}"
            ) from error


def _lines(text: str) -> Iterator[str]:
    """The requirements of a file, a line each, without comments and options."""
    for line in _logical(text):
        if not line.startswith("-"):
            yield line


def _included(text: str) -> Iterator[str]:
    for line in _logical(text):
        if found := _INCLUDES.fullmatch(line):
            yield found[1].strip()


def _logical(text: str) -> Iterator[str]:
    for raw in _CONTINUED.sub(" ", text).splitlines():
        if line := _COMMENT.sub("", raw).strip():
            yield line


def _canonical(line: str) -> str:
    """The name of the package, as https://peps.python.org/pep-0503/ has it."""
    found = _NAME.match(line)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else line
