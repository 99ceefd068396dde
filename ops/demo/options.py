"""What `headgate demo` can be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from rich.console import Console

from headgate.jobs.errors import SettingsInvalid

LEAST_JOBS = 100
"""Fewer don't hold every type with every fault."""

MOST_WORKERS = 8

_WIDTH = 100  # of what is no terminal; rich would take 80 and cut the tables


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """How one run of the demo goes.

    Raises:
        SettingsInvalid: a value is out of range.
    """

    jobs: int = 2000
    """How many to submit, 100 or more; the schedules' come on top."""
    seed: int = 1
    """The same seed submits the same jobs."""
    timeout: timedelta = timedelta(seconds=60)
    """From the start until every job has to have ended."""
    workers: int = 2
    """1 to 8, 50 jobs at once each."""
    console: Console = field(default_factory=_console)
    """Where the progress and the results go."""

    def __post_init__(self) -> None:
        if self.jobs < LEAST_JOBS:
            raise SettingsInvalid(f"the demo needs {LEAST_JOBS} jobs or more, got {self.jobs}")
        if self.timeout <= timedelta(0):
            raise SettingsInvalid(f"the demo's timeout must be positive, got {self.timeout}")
        if not 1 <= self.workers <= MOST_WORKERS:
            raise SettingsInvalid(f"the demo runs 1 to {MOST_WORKERS} workers, got {self.workers}")
