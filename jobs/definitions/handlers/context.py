"""The context of a running job, as its handler sees it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, overload
from uuid import UUID

from pydantic_core import from_json, to_json

from headgate.jobs.core.tenant import Tenant
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.errors import Stopped
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import said

if TYPE_CHECKING:
    # A job type's handler takes a context, whose `submit` takes a job type.
    from headgate.jobs.definitions.job_type import Given, JobType, NewJob
    from headgate.jobs.handles.submitted_job import SubmittedJob  # loads the records as well

P = TypeVar("P")
R = TypeVar("R")


class Host(Protocol):
    """The runner of a job, as its context calls it. Callable from any thread."""

    def progress(self, percent: float, message: str, data: Mapping[str, Any]) -> None:
        """Report the job's progress."""
        ...

    def submit(
        self, job: JobType[Any, R] | NewJob[R], payload: Any, overrides: SubmitOptions
    ) -> SubmittedJob[R]:
        """Submit another job; in a synchronous handler's thread, return once SQS has it."""
        ...


@dataclass(slots=True)
class _Flags:
    """Flags of one job, each set once by any thread, at a tenth of a `threading.Event`'s cost."""

    stop: bool = False
    told: bool = False
    """True once the handler has been shown that it should end early."""
    warned: bool = False
    """True once a progress that can't be has been logged."""


class _Already:
    """An awaitable that is done from the start."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


_ALREADY = _Already()


# Made for each job, unlike what `frozen_dataclass` is for: a constructor of its own takes less.
@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The context of a running job, passed to handlers that take a second argument."""

    id: str
    """The job's id; the same for every attempt."""
    type: str
    queue: str
    """The queue group's name."""
    attempt: int
    """The number of this attempt, from 1."""
    max_attempts: int
    """The attempt after which a failure sends the job to the dead-letter queue."""
    tenant: Tenant | None
    deadline: datetime
    """The time at which this attempt times out; aware, UTC."""
    _host: Host = field(repr=False)
    _flags: _Flags = field(default_factory=_Flags, repr=False)

    @property
    def as_of(self) -> datetime:
        """The time that the job is for: its schedule's or, without one, that of its submission.

        Aware, UTC. The job's id holds it, so it stays the same in every attempt, after a replay,
        and however late the job runs. A job that `run_now` of a schedule submits is for that time.

        Raises:
            ValueError: the id is no UUIDv7, so another program than Headgate made it.
        """
        # Few handlers ask, and what makes ids takes long to import.
        from headgate.jobs.messages.job_ids import time_of

        if (time := time_of(UUID(self.id))) is None:
            raise ValueError(f"the id {self.id} is no UUIDv7, and tells no time")
        return time

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that adds ``job_id`` and ``job_type`` to every line."""
        names = {"job_id": self.id, "job_type": self.type, "attempt": self.attempt}
        return OwnLog(f"headgate.job.{self.type}", names)

    @property
    def cancelled(self) -> bool:
        """True once this attempt should end early: it overran, was cancelled, or the worker stops.

        A thread can't be stopped from outside, so a long synchronous handler checks this now and
        then, cleans up, and calls `raise_if_cancelled`. Returning instead completes the job.
        """
        if self._flags.stop:
            self._flags.told = True
        return self._flags.stop

    def raise_if_cancelled(self) -> None:
        """Raise `Stopped` if this attempt should end early; a job not cancelled runs again.

        Raises:
            Stopped: it should end. ``except Exception`` doesn't catch it. The worker then gives the
                job back, settles it if it was cancelled or, after an overrun, counts a timeout.
        """
        if self.cancelled:
            raise Stopped

    def progress(self, percent: float, message: str = "", **data: Any) -> Awaitable[None]:
        """Report the job's progress; never blocks, whether awaited or not.

        Args:
            percent: 0 to 100. A number beyond that counts as the nearest of these, and a report
                without a number is left out. The first mistake of an attempt is logged: none fails
                the job.
            message: the current step, in a word or two.
            data: further details, as JSON values. Of any other value its text is kept; if JSON
                can't hold them at all, such as a list within itself, the details are left out,
                which is logged.
        """
        if (known := self._percent(percent)) is not None:
            self._host.progress(known, message, self._details(data) if data else data)
        return _ALREADY

    def _details(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the details of a report as JSON values; none if they can't be."""
        try:
            details: dict[str, Any] = from_json(to_json(data, fallback=said, inf_nan_mode="null"))
        except Exception:  # noqa: BLE001 - of the user's own values
            self._warn("ctx.progress wants JSON values, and left out %s", ", ".join(data))
            return {}
        return details

    def _percent(self, given: object) -> float | None:
        """Return a percentage from 0 to 100; None if it is no number."""
        if isinstance(given, int | float) and 0 <= given <= 100:
            return given
        self._warn("ctx.progress wants a number from 0 to 100, got %.100r", given)
        if not isinstance(given, int | float) or given != given:  # NaN differs from itself
            return None
        return 0 if given < 0 else 100

    def _warn(self, message: str, told: object) -> None:
        """Log a mistake in a report, once for each attempt."""
        if not self._flags.warned:
            self._flags.warned = True
            self.log.warning(message, told)

    @overload
    def submit(self, job: NewJob[R]) -> SubmittedJob[R]: ...
    @overload
    def submit(
        self, job: JobType[None, R], **overrides: Unpack[SubmitOptions]
    ) -> SubmittedJob[R]: ...
    @overload
    def submit(
        self, job: JobType[P, R], payload: Given[P], **overrides: Unpack[SubmitOptions]
    ) -> SubmittedJob[R]: ...
    def submit(
        self,
        job: JobType[Any, Any] | NewJob[Any],
        payload: Any = None,
        **overrides: Unpack[SubmitOptions],
    ) -> SubmittedJob[Any]:
        """Submit another job as a child of this one, for the same tenant and in the same trace.

        An async handler awaits it, which returns the job's `headgate.AsyncJobHandle` once SQS has
        taken the job. In a synchronous handler the call itself waits, and returns a
        `headgate.JobHandle`. A handler that waits for the result keeps its slot meanwhile: give
        ``result`` a timeout. A job is completed only once SQS has taken all the jobs that it
        submitted: if SQS refuses one, the attempt fails.

        Args:
            job: a job type of the same app, or a new job of one.
            payload: its payload; left out for a type without one.
            overrides: see `jobs.definitions.options.submit_options.SubmitOptions`.

        Raises:
            SubmissionError: the payload or an option doesn't fit.
            TransportError: SQS didn't take the job.
        """
        return self._host.submit(job, payload, overrides)


def request_stop(ctx: JobContext) -> None:
    """Set a context's `cancelled`, which asks its handler to end early."""
    ctx._flags.stop = True  # noqa: SLF001 - not among what handlers call


def is_to_stop(ctx: JobContext) -> bool:
    """Return a context's `cancelled` without showing it to the handler."""
    return ctx._flags.stop  # noqa: SLF001 - not among what handlers call


def has_seen_stop(ctx: JobContext) -> bool:
    """Return True if a handler has read a context's `cancelled` since a stop was requested."""
    return ctx._flags.told  # noqa: SLF001 - not among what handlers call
