"""Events of single jobs, from their start on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.jobs.core.events.submissions import JobEvent
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Attempted(JobEvent):
    attempt: int
    max_attempts: int


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(_Attempted):
    name = "job.started"
    is_first: bool
    """True if its handler was not called before, as far as is known. A job that was given back
    unstarted has not begun; one whose first run was interrupted has, though that was no attempt."""
    waited_s: float
    """Seconds since it was due (submitted, or the end of its delay) if this is the first start,
    else 0."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress(_Attempted):
    name = "job.progress"
    percent: float
    """The progress reported, 0 to 100."""
    note: str
    """The handler's description of the current step."""
    data: Mapping[str, Any]
    """Further details from the handler; JSON values."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobCompleted(_Attempted):
    name = "job.completed"
    ran_s: float


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed(_Attempted):
    name = "job.failed"
    ran_s: float
    error_type: str
    error_message: str
    traceback: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobRetryScheduled(_Attempted):
    name = "job.retry_scheduled"
    delay_s: int
    note: str = ""
    backoff_fault: str = ""
    """The fault of a custom backoff, in whose place the default one counts; empty without one."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobDeadLettered(_Attempted):
    name = "job.dead_lettered"
    reason: str
    error_type: str
    """Empty if no attempt has failed, as for a job whose payload can't be read."""
    error_message: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobQuarantined(_Attempted):
    name = "job.quarantined"
    detail: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobDeferred(_Attempted):
    name = "job.deferred"
    delay_s: int
    reason: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobCrashed(_Attempted):
    name = "job.crashed"
    detail: str
    crashes: int
    """Number of crashes of this job within the window that counts, this one included."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobDiscarded(_Attempted):
    name = "job.discarded"
    reason: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobDropped(_Attempted):
    name = "job.dropped"
    kind: str
    """One of `jobs.execution.outcome.DropKind`."""
    reason: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(_Attempted):
    name = "job.cancelled"
    reason: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobAlreadyDone(_Attempted):
    name = "job.already_done"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobInterrupted(_Attempted):
    name = "job.interrupted"
    reason: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobStalled(_Attempted):
    name = "job.stalled"
    timeout_s: float
