"""What the contestants' jobs have written down: see `peers/common.py`."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_RECORD = struct.Struct("<qd")


@dataclass(frozen=True, slots=True)
class Mark:
    """One job that ran."""

    number: int
    at: float
    """On the machine's monotonic clock, which all processes share."""


class Tally:
    """Reads a tally while it grows; counting is one ``stat``, so the workers don't notice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def count(self) -> int:
        """How many jobs have run."""
        return self.path.stat().st_size // _RECORD.size

    def marks(self) -> list[Mark]:
        """Every job that ran, in order of time."""
        data = self.path.read_bytes()
        whole = len(data) - len(data) % _RECORD.size
        found = [Mark(*fields) for fields in _RECORD.iter_unpack(data[:whole])]
        return sorted(found, key=lambda mark: mark.at)

    def wait(
        self,
        count: int,
        *,
        within_s: float,
        every_s: float = 0.01,
        check: Callable[[], None] = lambda: None,
    ) -> bool:
        """Whether so many jobs have run before ``within_s`` was over; ``check`` may raise."""
        deadline = time.monotonic() + within_s
        while self.count() < count:
            check()
            if time.monotonic() > deadline:
                return False
            time.sleep(every_s)
        return True


class Runs:
    """What jobs began and what they ended, in files that outlive the workers.

    Args:
        folder: where the files are; they must be new.
    """

    def __init__(self, folder: Path) -> None:
        self.starts = Tally(folder / "starts")
        self.ends = Tally(folder / "ends")

    def started(self) -> Counter[int]:
        """How often each job has begun."""
        return Counter(mark.number for mark in self.starts.marks())

    def ended(self) -> Counter[int]:
        """How often each job has ended."""
        return Counter(mark.number for mark in self.ends.marks())

    def running(self) -> set[int]:
        """The jobs that have begun and not ended."""
        return set(self.started()) - set(self.ended())
