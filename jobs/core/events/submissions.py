"""Events of single jobs, until SQS has them: the only ones that a submitter needs."""

from __future__ import annotations

from headgate.jobs.core.events.root import Event
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import Priority
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Event):
    """Something happened to one job."""

    job_id: str
    job_type: str
    queue: str
    priority: Priority
    tenant: Tenant | None = None


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted(JobEvent):
    name = "job.submitted"
    delay_s: int


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobSpooled(JobEvent):
    name = "job.spooled"
    reason: str
    """The reason why SQS didn't take it, or a note that others wait before it."""
    waiting: int
    """Number of jobs in the spool, this one included."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobSpoolRefused(JobEvent):
    name = "job.spool_refused"
    error: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobInline(JobEvent):
    name = "job.inline"
    reason: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobDeduplicated(JobEvent):
    name = "job.deduplicated"
    kept: str
    """The id of the job that is kept in its place."""
