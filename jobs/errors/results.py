"""A job has no result, or none that can be had."""

from __future__ import annotations

from headgate.jobs.errors.root import HeadgateError


class ResultError(HeadgateError):
    """The result of a job, or its state, can't be had; ``job_id`` says of which."""

    def __init__(self, job_id: str, message: str) -> None:
        self.job_id = job_id
        super().__init__(message)


class JobDead(ResultError):
    """The job failed for good: it is in its dead-letter queue, or in the quarantine.

    ``reason`` is why it was given up (see `jobs.execution.outcome.Reason`; ``quarantined`` for the
    other queue), ``error_type`` and ``error_message`` are of its last error.
    """

    def __init__(self, job_id: str, *, reason: str, error_type: str, error_message: str) -> None:
        self.reason = reason
        self.error_type = error_type
        self.error_message = error_message
        error = ": ".join(filter(None, (error_type, error_message)))
        why = "; ".join(filter(None, (reason, error)))
        super().__init__(job_id, f"the job {job_id} is dead: {why}")


class JobDiscarded(ResultError):
    """Its handler ended the job without success or failure, for ``reason``."""

    def __init__(self, job_id: str, reason: str) -> None:
        self.reason = reason
        super().__init__(job_id, f"the handler of the job {job_id} discarded it: {reason}")


class JobCancelled(ResultError):
    """The job was cancelled before its handler returned, for ``reason``."""

    def __init__(self, job_id: str, reason: str) -> None:
        self.reason = reason
        super().__init__(job_id, f"the job {job_id} was cancelled: {reason or 'no reason given'}")


class ResultTimeout(ResultError, TimeoutError):
    """The job did not finish within ``timeout_s``; it goes on. ``state`` is what was last seen."""

    def __init__(self, job_id: str, *, state: str, timeout_s: float) -> None:
        self.state = state
        self.timeout_s = timeout_s
        super().__init__(
            job_id,
            f"the job {job_id} has not finished within {timeout_s:g} s; its state is {state}",
        )


class ResultInvalid(ResultError):
    """The job has completed, and what was kept of its result is not what its handler returns."""


class RecordsOff(ResultError):
    """The app keeps no records that would tell; the message says which level would."""


class ResultNotKept(HeadgateError):
    """What a handler returned can't stand in a record."""
