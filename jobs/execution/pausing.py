"""A paused job's message: the pause that concerns it, and the verdict that gives it back."""

from __future__ import annotations

from dataclasses import replace

from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import records_of
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.records.pausing.pause import Pause
from headgate.jobs.records.pausing.paused import Paused


def pause_of(run: Run, paused: Paused) -> Pause | None:
    """Return the pause that keeps a delivery from starting, or None.

    A message that can't become a job here only stops with its queue.
    """
    if not paused.any:
        return None
    job_type = tenant = None
    if (job := run.job) is not None:
        job_type = job.type.name
        tenant = job.envelope.tenant.org if job.envelope.tenant is not None else None
    return paused.of(run.delivery.queue, job_type, tenant)


def without_attempt(app: App, run: Run, verdict: Verdict) -> Verdict:
    """Return the verdict on an unstarted, paused job such that it uses up no attempt.

    The attempts of a type without records are counted by its message's deliveries. So its job goes
    on in a new message, which takes the number of attempts along, unless the message is foreign or
    its queue FIFO.
    """
    if run.job is None or records_of(app, run.job.type) != "off":
        return verdict
    return replace(verdict, attempt=replace(verdict.attempt, worn_at=0))
