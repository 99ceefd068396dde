"""Records that the contestants' jobs have written: see `peers/common.py`."""

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
    """Time on the machine's monotonic clock, which all processes share."""


class Tally:
    """Reads a tally while it grows; counting is one ``stat``, so the workers are not disturbed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def count(self) -> int:
        """Return the number of jobs that have run."""
        return self.path.stat().st_size // _RECORD.size

    def marks(self) -> list[Mark]:
        """Return every job that ran, in order of time."""
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
        """Return True if that many jobs ran within ``within_s`` seconds; ``check`` may raise."""
        deadline = time.monotonic() + within_s
        while self.count() < count:
            check()
            if time.monotonic() > deadline:
                return False
            time.sleep(every_s)
        return True


class Runs:
    """Jobs' starts and ends, in files that outlive the workers.

    Args:
        folder: the folder of the files, which must be new.
    """

    def __init__(self, folder: Path) -> None:
        self.starts = Tally(folder / "starts")
        self.ends = Tally(folder / "ends")

    def started(self) -> Counter[int]:
        """Return the number of starts of each job."""
        return Counter(mark.number for mark in self.starts.marks())

    def ended(self) -> Counter[int]:
        """Return the number of ends of each job."""
        return Counter(mark.number for mark in self.ends.marks())

    def running(self) -> set[int]:
        """Return the jobs that have begun and not ended."""
        return set(self.started()) - set(self.ended())
