"""Errors of replays of dead letters, and of running a job that has ended again."""

from __future__ import annotations

from headgate.jobs.errors.root import HeadgateError


class ReplayError(HeadgateError):
    """A replay can't do what was asked for; nothing was sent for it."""


class ReplayMissing(ReplayError):
    """The app has no replay of that id, or it was started too long ago."""


class ReplayRunning(ReplayError):
    """Another process carries the replay out."""


class ReplayOver(ReplayError):
    """The replay is done, or was aborted, so it can't be resumed or aborted."""


class RerunError(HeadgateError):
    """The job ``job_id`` can't be run again."""

    def __init__(self, job_id: str, message: str) -> None:
        self.job_id = job_id
        super().__init__(message)


class JobNotEnded(RerunError):
    """The job is not known to have ended: its state is ``state``.

    One that waits may lie among dead letters that were not seen, moved there by SQS itself.
    """

    def __init__(self, job_id: str, *, state: str, unseen: int = 0) -> None:
        self.state = state
        told = f". About {unseen:,} dead letters were not looked at for it" if unseen else ""
        super().__init__(
            job_id,
            f"the job {job_id} is {state}: only a job that has ended is run again. Cancel it "
            f"first, or wait for its end{told}",
        )


class PayloadUnknown(RerunError):
    """No payload was given, and no message of the job is left that has it."""

    def __init__(self, job_id: str, *, state: str) -> None:
        super().__init__(
            job_id,
            f"the job {job_id} is {state}, and no message with its payload is left: give the "
            "payload to run it again with",
        )
