"""Errors of jobs without a result, or with one that is not available."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.jobs.errors.root import HeadgateError


class ResultError(HeadgateError):
    """The result or the state of the job ``job_id`` is not available."""

    def __init__(self, job_id: str, message: str) -> None:
        self.job_id = job_id
        super().__init__(message)


class JobDead(ResultError):
    """The job failed for good: it is in its dead-letter queue or in quarantine.

    ``reason`` states the reason for giving it up (see `jobs.execution.outcome.Reason`;
    ``quarantined`` for a job in quarantine), ``error_type`` and ``error_message`` its last error.
    """

    def __init__(self, job_id: str, *, reason: str, error_type: str, error_message: str) -> None:
        self.reason = reason
        self.error_type = error_type
        self.error_message = error_message
        error = ": ".join(filter(None, (error_type, error_message)))
        why = "; ".join(filter(None, (reason, error)))
        super().__init__(job_id, f"the job {job_id} is dead: {why}")


class JobDiscarded(ResultError):
    """The job's handler ended it without success or failure, for ``reason``."""

    def __init__(self, job_id: str, reason: str) -> None:
        self.reason = reason
        super().__init__(job_id, f"the handler of the job {job_id} discarded it: {reason}")


class JobDropped(ResultError):
    """The job ended without a run of its handler, for ``reason``; ``kind`` is ``replaced`` if a
    later job of a type with ``Unique(keep="last")`` stands for it, and ``expired`` if it had not
    started by the time that ``expires`` set."""

    def __init__(self, job_id: str, *, kind: str, reason: str) -> None:
        self.kind = kind
        self.reason = reason
        super().__init__(job_id, f"the job {job_id} was dropped without a run: {reason}")


class JobCancelled(ResultError):
    """The job was cancelled before its handler returned, for ``reason``."""

    def __init__(self, job_id: str, reason: str) -> None:
        self.reason = reason
        super().__init__(job_id, f"the job {job_id} was cancelled: {reason or 'no reason given'}")


class ResultTimeout(ResultError, TimeoutError):
    """The job did not finish within ``timeout_s``, and goes on; ``state`` is the last one seen."""

    def __init__(self, job_id: str, *, state: str, timeout_s: float, hint: str = "") -> None:
        self.state = state
        self.timeout_s = timeout_s
        so_far = f"the job {job_id} has not finished within {timeout_s:g} s; its state is {state}"
        super().__init__(job_id, f"{so_far}; {hint}" if hint else so_far)


class ResultInvalid(ResultError):
    """The job has completed, but its stored result doesn't fit its handler's return type."""


class JobTypeWrong(ResultError):
    """The job with that id is not of the handle's type, or the id is that of jobs of several types.

    ``found`` lists the types that are recorded under it.
    """

    def __init__(self, job_id: str, message: str, *, found: Sequence[str]) -> None:
        self.found = tuple(found)
        super().__init__(job_id, message)


class RecordsOff(ResultError):
    """The app keeps no records with the answer; the message names a level that would have it."""


class ResultNotKept(HeadgateError):
    """The handler's return value can't be stored in a record."""


class ResultNotSerializable(HeadgateError):
    """A handler returned what JSON can't hold: the attempt has failed, and isn't repeated.

    Another attempt would return the same. Types whose results nobody keeps may return anything.
    """
