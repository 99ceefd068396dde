"""The folder in which a local AWS keeps its state: for one run of `headgate dev` at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.jobs.errors import ConfigurationError


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
