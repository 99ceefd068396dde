"""Files of exports, which only their owner may read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from headgate.jobs.errors import ConfigurationError


@contextmanager
def writing(to: str | Path | TextIO) -> Iterator[TextIO]:
    """Open a file that isn't there yet, for its owner alone; an open one is passed on as it is.

    Raises:
        ConfigurationError: it exists, or can't be written.
    """
    if not isinstance(to, str | Path):
        yield to
        return
    try:
        # It may hold secrets, and an earlier export is not to be lost.
        number = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{to} can't be written: {error.strerror}") from error
    with os.fdopen(number, "w", encoding="utf-8") as file:
        yield file


@contextmanager
def reading(path: str | Path) -> Iterator[TextIO]:
    """Open a file to read it.

    Raises:
        ConfigurationError: it can't be read.
    """
    try:
        file = Path(path).open(encoding="utf-8", errors="replace")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from error
    with file:
        yield file
