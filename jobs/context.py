"""What a running handler knows of its own job."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobs.errors import Stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Whose job it is: SQS's fair queues keep one organisation's flood from delaying others."""

    org: str
    workspace: str | None = None


class _JobLog(logging.LoggerAdapter[logging.Logger]):
    """Puts the job's id and type on every line, beside what the caller adds."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


@dataclass(slots=True)
class _Flag:
    """Raised once, by any thread. Every job has one, and `threading.Event` costs ten times this."""

    raised: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """Handed to a handler that takes a second argument."""

    id: str
    """The job's id; the same for every attempt."""
    type: str
    queue: str
    """The queue group's name."""
    attempt: int
    """1 for the first."""
    max_attempts: int
    """The attempt after which a failure sends the job to the dead-letter queue."""
    tenant: Tenant | None
    deadline: datetime
    """When this attempt times out; aware, UTC."""
    _stop: _Flag = field(default_factory=_Flag, repr=False)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that puts ``job_id`` and ``job_type`` on every line."""
        names = {"job_id": self.id, "job_type": self.type, "attempt": self.attempt}
        return _JobLog(logging.getLogger(f"headgate.job.{self.type}"), names)

    @property
    def cancelled(self) -> bool:
        """True once this attempt should end early: it overran, was cancelled, or the worker stops.

        A thread can't be stopped from outside, so a long plain function looks at this now and then,
        cleans up, and calls `raise_if_cancelled`. One that returns instead says that it is done.
        """
        return self._stop.raised

    def raise_if_cancelled(self) -> None:
        """End here if this attempt should end early; the job will be run again.

        Raises:
            Stopped: it should. Let it pass: the worker then gives the job back or, after an
                overrun, counts a timeout.
        """
        if self._stop.raised:
            raise Stopped

    def request_stop(self) -> None:
        """Make `cancelled` true."""
        self._stop.raised = True
