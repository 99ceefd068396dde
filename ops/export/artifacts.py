"""The files of an export, and the folder that they are written into."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass

MANIFEST = ".headgate-export.json"
"""The file in which a folder keeps the hashes of the files that were written into it."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file of an export."""

    name: str
    content: bytes

    @classmethod
    def of_text(cls, name: str, text: str) -> Artifact:
        """Return the file of a text."""
        return cls(name=name, content=text.encode())

    @property
    def text(self) -> str:
        """The content as text."""
        return self.content.decode()

    @property
    def digest(self) -> str:
        """The SHA-256 of the content."""
        return hashlib.sha256(self.content).hexdigest()


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ExportOrigin:
    """The source of an export, as its files say it."""

    command: str
    """The command line that made it."""
    app: str
    """The app's name, with its stage's if any."""
    version: str
    """Headgate's version."""
    notes: tuple[str, ...] = ()
    """Remarks on what is left to do, or left out."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The first lines of files that can hold a comment."""
        return (
            f"{self.app}, written by headgate {self.version}:",
            f"  {self.command}",
            "Change the app or cdk.json and run it again, rather than this file.",
            *self.notes,
        )

    @property
    def comment(self) -> str:
        """These lines as comments of YAML, or of systemd."""
        return "".join(f"# {line}\n" for line in self.lines)


def write_artifacts(folder: Path, artifacts: Sequence[Artifact], *, force: bool) -> Sequence[Path]:
    """Write files into a folder, which is created if need be, and return their paths.

    Files that an earlier export has written, and nobody has changed since, are replaced.

    Args:
        folder: the folder.
        artifacts: the files.
        force: also replace others.

    Raises:
        ConfigurationError: a file of another origin, or with changes, is in the way; nothing was
            written.
        OSError: a file can't be written.
    """
    known = _manifest(folder)
    if not force:
        _refuse_strangers(folder, artifacts, known)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / each.name for each in artifacts]
    for path, each in zip(paths, artifacts, strict=True):
        path.write_bytes(each.content)
    digests = {**known, **{each.name: each.digest for each in artifacts}}
    text = json.dumps(digests, indent=2, sort_keys=True)
    (folder / MANIFEST).write_text(f"{text}\n", encoding="utf-8")
    return paths


def _refuse_strangers(
    folder: Path, artifacts: Sequence[Artifact], known: Mapping[str, str]
) -> None:
    strangers = [each.name for each in artifacts if not _is_ours(folder / each.name, each, known)]
    if strangers:
        raise ConfigurationError(
            f"{folder} has {' and '.join(strangers)}, which `headgate export` has not written, or "
            "which was changed since: choose another folder with --out, or replace it with --force"
        )


def _is_ours(path: Path, wanted: Artifact, known: Mapping[str, str]) -> bool:
    """Return True if nothing of anyone's is lost by writing a file."""
    if not path.exists():
        return True
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    return found is not None and found in (wanted.digest, known.get(wanted.name))


def _manifest(folder: Path) -> dict[str, str]:
    path = folder / MANIFEST
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{path} could not be read: {error}. Delete it, and write the files with --force"
        ) from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path} has to hold an object: delete it, and use --force")
    return {str(name): str(digest) for name, digest in found.items()}
