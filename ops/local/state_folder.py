"""The folder in which a local AWS keeps its state: for one run of `headgate dev` at a time."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.jobs.errors import ConfigurationError

KEPT = "state"
"""The folder of what MiniStack keeps in a folder of state, a file for each service of AWS; S3's
objects lie beside it."""


@contextmanager
def state_held(folder: Path | None) -> Iterator[None]:
    """Hold a folder within the block, and make it if it isn't there; None holds nothing.

    Two local AWSs would overwrite each other's state when they end. The lock is the process's, so
    one that was killed leaves none.

    Raises:
        ConfigurationError: it can't be written, or another process holds it.
    """
    if folder is None:
        yield
        return
    import fcntl  # Windows, where other commands import this module, has none

    descriptor = _opened(folder)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"another headgate dev keeps its state in {folder}: end that one, or name another "
                "folder with --state"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ConfigurationError(
            f"no state can be kept in {folder}: {error.strerror}. Name a folder that can be "
            "written with --state, or leave it out"
        ) from error


def set_aside_unreadable(folder: Path | None) -> list[str]:
    """Rename the files of a folder that hold no state; returns a line about each.

    MiniStack starts empty in place of such a file, without a word, and writes over it at the end.
    Under its new name it stays for whoever can mend it. The readable ones are left as they are.

    Raises:
        ConfigurationError: a file can't be read or renamed.
    """
    if folder is None:
        return []
    return [
        f"{path} can't be read ({reason}): it is kept as {_set_aside(path).name}, and "
        f"{path.stem} starts empty"
        for path in sorted((folder / KEPT).glob("*.json"))
        if (reason := _unreadable(path))
    ]


def _unreadable(path: Path) -> str:
    """Return why a file is none that MiniStack wrote to its end; empty if it is one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(
            f"the state in {path} can't be read: {error.strerror}. Name another folder with "
            "--state, or leave it out"
        ) from error
    except UnicodeDecodeError:
        return "it is no text"
    except (ValueError, RecursionError) as error:
        return f"it is no JSON: {error}" if path.stat().st_size else "it is empty"
    return "" if isinstance(found, dict) else "it holds no JSON object"


def _set_aside(path: Path) -> Path:
    """Give a file a name that no other has."""
    names = (f"{path.name}.unreadable{n}" for n in ("", *(f"-{each}" for each in range(2, 1_000))))
    aside = next(found for name in names if not (found := path.with_name(name)).exists())
    try:
        return path.rename(aside)
    except OSError as error:
        raise ConfigurationError(
            f"the state in {path} can't be read, and can't be put aside: {error.strerror}. Name "
            "another folder with --state, or leave it out"
        ) from error
