"""The failure of an attempt, as the function of a custom backoff sees it."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from headgate.jobs.values.light_dataclass import frozen_dataclass


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class BackoffContext:
    """A failed attempt, as the function of `Backoff.custom` sees it.

    All but ``attempt`` have defaults, for tests of such functions.
    """

    attempt: int
    """The number of the attempt that failed, from 1."""
    max_attempts: int = 3
    """The attempt after which a failure sends the job to the dead-letter queue."""
    error: BaseException | None = field(default=None, repr=False)
    """The handler's error; from ``isolation="process"`` a `headgate.errors.ChildFailed`, which has
    its name and its message. None if the process crashed, and where the app is checked."""
    id: str = ""
    """The job's id; the same for every attempt."""
    type: str = ""
    queue: str = ""
    """The queue group's name."""
    tenant: str | None = None
    """The tenant's ``org``."""
    payload: Any = field(default=None, repr=False)
    """The payload, as the handler gets it. None if it was not read, as after some crashes, and
    where the app is checked."""
