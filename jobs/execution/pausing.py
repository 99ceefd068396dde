"""A paused job's message: the pause that concerns it, and the verdict that gives it back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from headgate.jobs.definitions.app import App
from headgate.jobs.execution.outcome import Unstarted
from headgate.jobs.execution.run import Run, sent_anew
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


def away_s(run: Run, pause: Pause, now: datetime) -> float:
    """Return the seconds for which a paused job's message stays away."""
    return pause.away_s(now, run.delivery.message.receive_count - 1)


def returned(app: App, run: Run, pause: Pause, delay_s: float) -> Verdict:
    """Return the verdict on an unstarted, paused job such that it uses up no attempt.

    The attempts of a type without records are counted by its message's deliveries. So its job goes
    on in a new message, which takes the number of attempts along, unless the message is foreign or
    its queue FIFO.

    Args:
        app: the app.
        run: the delivery.
        pause: the pause that concerns it.
        delay_s: the seconds for which the message stays away.
    """
    verdict = run.unstarted(delay_s)
    if run.job is None:
        return verdict
    outcome = Unstarted(after_s=delay_s, reason=f"{pause.target} is paused", paused=True)
    attempt = sent_anew(app, run.job, verdict.attempt)
    return replace(verdict, outcome=outcome, attempt=attempt)
