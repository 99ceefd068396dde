"""A log of handlers' actions, in a file that outlives their processes: one line each, in order."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

GENEROUS_S = 120.0
"""Longer than any awaited event takes on the slowest machine."""

_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened to a job, and the process in which it happened."""

    event: str
    job_id: str
    pid: int


class Journal:
    """Written by the fixture app's handlers, read by tests."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, event: str, job_id: str) -> None:
        """Append a line in one write: lines of several processes never mix."""
        line = f"{event} {job_id} {os.getpid()}\n".encode()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def entries(self, *, pid: int | None = None) -> list[Entry]:
        """Return all entries so far, or those of one process."""
        found, _ = self.entries_from(0)
        return [entry for entry in found if pid in (None, entry.pid)]

    def entries_from(self, offset: int) -> tuple[list[Entry], int]:
        """Read on from an offset; return the entries and the offset where this reading ended."""
        lines, end = _read_lines(self._path, offset)
        return [_entry(line) for line in lines], end

    def count(self, event: str, *, pid: int | None = None) -> Counter[str]:
        """Return the number of such events by job id."""
        return Counter(entry.job_id for entry in self.entries(pid=pid) if entry.event == event)

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait until ``happened`` is true.

        Raises:
            TimeoutError: with the journal's entries so far.
        """
        try:
            await until(happened)
        except TimeoutError as error:
            told = Counter(entry.event for entry in self.entries())
            raise TimeoutError(f"it did not happen; the journal has {dict(told)}") from error


async def until(happened: Callable[[], object], *, within_s: float = GENEROUS_S) -> None:
    """Wait for an event in another process, by polling.

    Raises:
        TimeoutError: it did not happen within a limit that no healthy run comes near.
    """
    async with asyncio.timeout(within_s):
        while not happened():  # noqa: ASYNC110 - another process sets no event of ours
            await asyncio.sleep(_LOOK_S)


def whole_lines(path: Path) -> list[str]:
    """Return the lines that processes have written to a file so far; none if it is missing."""
    lines, _ = _read_lines(path, 0)
    return lines


def _read_lines(path: Path, offset: int) -> tuple[list[str], int]:
    """Return the complete lines from an offset on, and the offset where they end.

    Even a line appended in one write is visible in part for a moment, where it crosses a page of
    the file: what follows the last line break is left to the next reading.
    """
    if not path.exists():
        return [], offset
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    whole = data.rfind(b"\n") + 1
    return data[:whole].decode().splitlines(), offset + whole


def _entry(line: str) -> Entry:
    event, job_id, pid = line.split()
    return Entry(event, job_id, int(pid))
