"""The options of `headgate demo`."""

from __future__ import annotations

from dataclasses import field
from datetime import timedelta

from rich.console import Console

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.values.light_dataclass import light_dataclass

LEAST_JOBS = 100
"""Fewer jobs don't cover every fault of every type."""

MOST_WORKERS = 8

_WIDTH = 100  # where the output is no terminal; rich would take 80 and cut the tables


def default_console() -> Console:
    """Return a console on standard output, wide enough for the tables."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The settings of one run of the demo.

    Raises:
        SettingsInvalid: a value is out of range.
    """

    jobs: int = 2000
    """Number of jobs to submit, 100 or more; those of the schedules are added."""
    seed: int = 1
    """The same seed submits the same jobs."""
    timeout: timedelta = timedelta(seconds=60)
    """Time limit for all jobs to end, from the demo's start."""
    workers: int = 2
    """Number of workers, 1 to 8; each runs up to 50 jobs at once."""
    console: Console = field(default_factory=default_console)
    """The console for the progress and the results."""

    def __post_init__(self) -> None:
        if self.jobs < LEAST_JOBS:
            raise SettingsInvalid(f"the demo needs {LEAST_JOBS} jobs or more, got {self.jobs}")
        if self.timeout <= timedelta(0):
            raise SettingsInvalid(f"the demo's timeout must be positive, got {self.timeout}")
        if not 1 <= self.workers <= MOST_WORKERS:
            raise SettingsInvalid(f"the demo runs 1 to {MOST_WORKERS} workers, got {self.workers}")
